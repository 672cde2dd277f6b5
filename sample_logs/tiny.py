"""A language model small enough to train with TRL in seconds, and sums that it half knows.

``7+5=`` may be answered at once (``#12``) or counted up (``8,9,10,11,12#12``): lengths vary, long counts run
into the completion budget, and the reward (is the number after ``#`` right?) does not look at length.
Everything is built in code and runs offline on a CPU.
"""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

if TYPE_CHECKING:
    from transformers import LlamaForCausalLM, PreTrainedTokenizerFast
    from trl import GRPOTrainer, RLOOTrainer

SYMBOLS = "0123456789+=,#"
MAX_COMPLETION = 24


def build_tokenizer() -> PreTrainedTokenizerFast:
    """Return a tokenizer with one token per character: 17 tokens."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    vocabulary = {token: i for i, token in enumerate(["<pad>", "<eos>", "<unk>", *SYMBOLS])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex("."), "isolated")
    tokenizer.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="<pad>",
        eos_token="<eos>",
        unk_token="<unk>",
        padding_side="left",
    )


def sums(count: int, seed: int = 0) -> list[tuple[int, int]]:
    """Return ``count`` different sums a + b, b from 1 to 9: the larger b, the longer the count."""
    every = [(a, b) for a in range(3, 60) for b in range(1, 10)]
    return random.Random(seed).sample(every, count)


def counted(a: int, b: int) -> str:
    """Return the answer that counts up from a to a + b."""
    return ",".join(str(n) for n in range(a + 1, a + b + 1)) + f"#{a + b}"


def exact_answer(prompts: list[str], completions: list[str], **_: Any) -> list[float]:
    """1 where the text after ``#`` is the sum, else 0."""
    rewards = []
    for prompt, completion in zip(prompts, completions, strict=True):
        a, b = prompt.rstrip("=").split("+")
        _, mark, answer = completion.partition("#")
        rewards.append(float(bool(mark) and answer == str(int(a) + int(b))))
    return rewards


def one_mark(completions: list[str], **_: Any) -> list[float]:
    """1 where the completion has exactly one ``#``: watched, with weight 0."""
    return [float(completion.count("#") == 1) for completion in completions]


def build_model(seed: int = 0, **overrides: Any) -> LlamaForCausalLM:
    """Return a 2-layer Llama with random weights, about 80 000 parameters."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(seed)
    options = {
        "vocab_size": 3 + len(SYMBOLS),
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 4,
        "max_position_embeddings": 64,
        "pad_token_id": 0,
        "eos_token_id": 1,
        "bos_token_id": None,
        **overrides,
    }
    return LlamaForCausalLM(LlamaConfig(**options))


def warm_up(model: LlamaForCausalLM, steps: int, seed: int = 0) -> LlamaForCausalLM:
    """Teach both styles by ``steps`` supervised steps, few enough that many answers stay wrong."""
    import torch

    tokenizer, rng = build_tokenizer(), random.Random(seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    every = [(a, b) for a in range(3, 60) for b in range(1, 10)]
    for _ in range(steps):
        texts, starts = [], []
        for a, b in rng.choices(every, k=64):
            prompt = f"{a}+{b}="
            texts.append(prompt + (f"#{a + b}" if rng.random() < 0.5 else counted(a, b)))
            starts.append(len(prompt))
        batch = tokenizer(
            [t + "<eos>" for t in texts], padding=True, padding_side="right", return_tensors="pt"
        )
        labels = batch["input_ids"].masked_fill(batch["attention_mask"] == 0, -100)
        for row, start in enumerate(starts):
            labels[row, :start] = -100
        loss = model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"], labels=labels).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model


def save_start(directory: Path, *, warm_up_steps: int = 140, seed: int = 0) -> Path:
    """Save the weights that every run starts from, with the tokenizer; TRL loads its reference from there."""
    path = directory / "tiny-sums"
    if not path.exists():
        warm_up(build_model(seed), warm_up_steps, seed).save_pretrained(path)
        build_tokenizer().save_pretrained(path)
    return path


def build_trainer(
    start: Path,
    output_dir: Path,
    *,
    prompts: int = 48,
    algorithm: str = "grpo",
    rewards: tuple[Any, ...] = (exact_answer,),
    eval_dataset: Any = None,
    **options: Any,
) -> GRPOTrainer | RLOOTrainer:
    """Return a trainer on ``prompts`` sums.

    Parameters
    ----------
    start : Path
        From :func:`save_start`.
    algorithm : {"grpo", "rloo"}
        Which of TRL's trainers.
    options
        Of GRPOConfig or RLOOConfig, over the small defaults below.
    """
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer, RLOOConfig, RLOOTrainer

    config_class, trainer_class = {"grpo": (GRPOConfig, GRPOTrainer), "rloo": (RLOOConfig, RLOOTrainer)}[
        algorithm
    ]
    config = config_class(
        output_dir=str(output_dir),
        **{
            "bf16": False,
            "use_cpu": True,
            "activation_checkpointing": False,
            "learning_rate": 3e-4,
            "lr_scheduler_type": "constant",
            "per_device_train_batch_size": 16,
            "gradient_accumulation_steps": 2,
            "num_generations": 8,
            "max_completion_length": MAX_COMPLETION,
            "max_steps": 40,
            "logging_steps": 1,
            "save_strategy": "no",
            "report_to": [],
            "disable_tqdm": True,
            **options,
        },
    )
    return trainer_class(
        model=str(start),
        reward_funcs=list(rewards),
        args=config,
        train_dataset=Dataset.from_dict({"prompt": [f"{a}+{b}=" for a, b in sums(prompts)]}),
        eval_dataset=eval_dataset,
        processing_class=build_tokenizer(),
    )

"""What other samplers and loops give to TRL: vLLM's log-probs, tools between turns."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("trl")

import tiny
import torch
from rows_read import read_rows

from audit.logs import open_run, validate
from audit.recorders.trl import record

pytestmark = pytest.mark.trl


class Engine(SimpleNamespace):
    """Stand-in for vLLM: draws from nothing, and says a log-prob for every candidate of every token."""

    def sync_weights(self) -> None:
        pass

    def generate(self, prompts: list[list[int]], num_generations: int, **_: Any) -> Any:
        draw = torch.Generator().manual_seed(len(prompts))
        lengths = torch.randint(2, 9, (len(prompts),), generator=draw).tolist()
        ids = [[*torch.randint(3, 13, (n,), generator=draw).tolist(), 1] for n in lengths]
        logps = [[[said(i, token), -9.0] for i, token in enumerate(row)] for row in ids]
        return prompts, ids, logps, {}


def said(place: int, token: int) -> float:
    return -0.125 * (place + 1) - token


@pytest.mark.parametrize("algorithm", ["grpo", "rloo"])
def test_log_probs_of_vllm_are_the_samplers(algorithm: str, start: Path, tmp_path: Path) -> None:
    trainer = tiny.build_trainer(
        start, tmp_path / "output", algorithm=algorithm, max_steps=4, num_iterations=2, learning_rate=1e-3
    )
    engine = Engine()
    trainer.use_vllm, trainer.vllm_generation, trainer._last_loaded_step = True, engine, -1
    with record(trainer, tmp_path / "run") as recorder:
        trainer.train()
    assert recorder.failure is None
    assert "generate" not in vars(engine)
    rows = read_rows(tmp_path / "run")
    assert len(rows) == 32 * 4
    for row in rows:
        assert row["logp_sampler"] == [said(i, token) for i, token in enumerate(row["token_ids"])]
    assert validate(open_run(tmp_path / "run")) == []


def test_tool_output_takes_no_loss(start: Path, tmp_path: Path) -> None:
    """Two turns with a tool's answer between them, as TRL's own tool loop hands them over."""
    from datasets import Dataset

    def any_digit(completions: list[Any], **_: Any) -> list[float]:
        return [float("7" in completion[-1]["content"]) for completion in completions]

    trainer = tiny.build_trainer(start, tmp_path / "output", max_steps=2, rewards=(any_digit,))
    chats = [[{"role": "user", "content": f"{a}+{b}="}] for a, b in tiny.sums(8)]
    trainer.train_dataset = Dataset.from_dict({"prompt": chats})
    trainer.processing_class.chat_template = (
        "{% for message in messages %}{{ message['content'] }}{% endfor %}"
    )
    answer = trainer.processing_class("12,")["input_ids"]

    def tool_call_loop(
        prompts: Any, prompt_ids: Any, completion_ids: Any, completions: Any, logprobs: Any, *_: Any
    ) -> Any:
        masks, ids, turns = [], [], []
        for i, first in enumerate(completion_ids):
            called = i % 2 == 0
            second = [3 + i % 10, 1]
            ids.append([*first, *answer, *second] if called else first)
            masks.append([1] * len(first) + ([0] * len(answer) + [1, 1]) * called)
            said = [{"role": "tool", "content": "12,"}, {"role": "assistant", "content": str(i % 10)}]
            turns.append(completions[i] + said * called)
        return masks, turns, ids, logprobs, 16, 0, [[] for _ in prompts]

    trainer.tools = [{"type": "function", "function": {"name": "add"}}]
    trainer._tool_call_loop = tool_call_loop
    with record(trainer, tmp_path / "run") as recorder:
        trainer.train()
    assert recorder.failure is None
    rows = read_rows(tmp_path / "run")
    with_tool = [row for row in rows if not all(row["loss_mask"])]
    assert len(with_tool) == len(rows) // 2
    for row in with_tool:
        place = row["loss_mask"].index(False)
        width = len(answer)
        assert row["loss_mask"] == [True] * place + [False] * width + [True, True]
        assert row["token_ids"][place : place + width] == answer
        assert "12," in row["response"]
        assert row["finish_reason"] == "stop"
        assert len(row["logp_theta"]) == row["length"] == place + width + 2
    assert validate(open_run(tmp_path / "run")) == []

"""Small experiences with the attributes of OpenRLHF's ``Experience``, and a trainer that makes them."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import torch

PROMPTS, GROUP, WIDTH = 3, 4, 12
ROWS = PROMPTS * GROUP
Make = Callable[..., Any]


def options(**changes: Any) -> SimpleNamespace:
    """Arguments as ``train_ppo_ray`` nests them; ``changes`` by dotted name, with ``__`` for the dot."""
    flat = {
        "actor.model_name_or_path": "/data/models/Tiny-0.5B",
        "actor.policy_loss_type": "ppo",
        "actor.eps_clip_low_high": (0.2, 0.2),
        "actor.dual_clip": None,
        "actor.loss_agg_mode": "token-mean",
        "algo.advantage.estimator": "group_norm",
        "algo.advantage.gamma": 1.0,
        "algo.advantage.lambd": 1.0,
        "algo.advantage.no_std_norm": False,
        "algo.advantage.is_correction_level": "off",
        "algo.kl.init_coef": 0.0,
        "algo.kl.estimator": "k1",
        "algo.kl.use_loss": False,
        "critic.freezing_steps": -1,
        "logger.wandb.key": "wandb-secret",
        "reward.clip_range": (-10.0, 10.0),
        "reward.overlong_buffer_len": None,
        "reward.stop_properly_penalty_coef": None,
        "rollout.n_samples_per_prompt": GROUP,
        "rollout.batch_size": PROMPTS,
        "rollout.temperature": 0.9,
        "rollout.max_new_tokens": 8,
        "train.batch_size": ROWS,
        "train.max_epochs": 1,
        "train.seed": 7,
        "train.async_enable": False,
        "ckpt.output_dir": "/checkpoints/a",
    } | {name.replace("__", "."): value for name, value in changes.items()}
    root = SimpleNamespace()
    for name, value in flat.items():
        *parts, last = name.split(".")
        node = root
        for part in parts:
            if not hasattr(node, part):
                setattr(node, part, SimpleNamespace())
            node = getattr(node, part)
        setattr(node, last, value)
    return root


def samples(seed: int = 0, make: Make = SimpleNamespace) -> list[Any]:
    """Experiences of two forward batches before advantages, rows of all prompts mixed.

    Sequences are prompt, response, padding; every third response has a tool's token in its middle.
    """
    draw = torch.Generator().manual_seed(seed)
    order = torch.randperm(ROWS, generator=draw).tolist()
    read = [2 + i // GROUP for i in range(ROWS)]
    lengths = torch.randint(3, 8, (ROWS,), generator=draw).tolist()
    scores = torch.randint(0, 2, (ROWS,), generator=draw).tolist()
    scores[:2] = [0, 1]
    made = []
    for part in (order[: ROWS // 2], order[ROWS // 2 :]):
        size = len(part)
        sequences = torch.zeros(size, WIDTH, dtype=torch.long)
        attention = torch.zeros(size, WIDTH, dtype=torch.long)
        actions = torch.zeros(size, WIDTH, dtype=torch.long)
        for row, i in enumerate(part):
            end = read[i] + lengths[i]
            sequences[row, : read[i]] = 2 + i // GROUP
            sequences[row, read[i] : end] = torch.randint(2, 26, (lengths[i],), generator=draw)
            attention[row, :end] = 1
            actions[row, read[i] : end] = 1
            if i % 3 == 0:
                actions[row, read[i] + 1] = 0
        logps = [-torch.rand(size, WIDTH - 1, generator=draw) for _ in range(3)]
        mask = actions[:, 1:]
        rewards = torch.tensor([float(scores[i]) for i in part])
        made.append(
            make(
                sequences=sequences,
                attention_mask=attention,
                action_mask=mask,
                action_log_probs=logps[0] * mask,
                base_action_log_probs=None,
                rollout_log_probs=logps[2] * mask,
                kl=(logps[0] - logps[1]) * mask,
                values=None,
                returns=None,
                advantages=None,
                rewards=rewards.clone(),
                scores=rewards.clone(),
                truncated=torch.tensor([lengths[i] == 7 for i in part]),
                response_length=torch.tensor([lengths[i] for i in part]),
                total_length=attention.sum(dim=1),
                index=list(part),
                prompts=[f"prompt {i // GROUP}" for i in part],
                labels=[f"label {i // GROUP}" for i in part],
                info={},
            )
        )
    return made


def group_norm(experiences: Sequence[Any]) -> list[Any]:
    """Advantages of OpenRLHF's ``group_norm``, sample by sample."""
    by_index = {i: e.rewards[row].item() for e in experiences for row, i in enumerate(e.index)}
    for e in experiences:
        e.advantages = torch.zeros(e.action_mask.shape)
        for row, i in enumerate(e.index):
            first = i // GROUP * GROUP
            group = [by_index[j] for j in range(first, first + GROUP)]
            centred = by_index[i] - statistics.mean(group)
            e.advantages[row] = centred / (statistics.stdev(group) + 1e-9)
        e.kl = None
    return list(experiences)


class Maker:
    """Stand-in for RemoteExperienceMaker."""

    initial_model_group: Any = object()

    def __init__(self, estimator: Callable[[Sequence[Any]], list[Any]] = group_norm) -> None:
        self._estimator = estimator

    def make_experience_batch(self, rollout_samples: list[Any]) -> list[Any]:
        return self.compute_advantages_and_returns(rollout_samples)

    def compute_advantages_and_returns(self, experiences: list[Any]) -> list[Any]:
        return self._estimator(experiences)


class Trainer:
    """Stand-in for BasePPOTrainer: ``index`` is gone when the actors get their part."""

    tokenizer: Any = None

    def __init__(self, args: Any, maker: Any = None) -> None:
        self.args, self.experience_maker = args, maker or Maker()

    def fit(self, batches: list[list[Any]], global_step: int = 0) -> list[Any]:
        results = []
        for batch in batches:
            status, global_step = self.train_step(batch, global_step)
            results.append((status, global_step))
        return results

    def train_step(self, rollout_samples: list[Any], global_step: int) -> tuple[dict[str, Any], int]:
        for experience in self.experience_maker.make_experience_batch(rollout_samples):
            experience.index = None
        return {"policy_loss": 0.25, "generated_samples": ["text", 1.0]}, global_step + 1

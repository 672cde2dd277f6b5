"""The nine objectives by the released loss functions of TRL's GRPOTrainer and RLOOTrainer; float32."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch
from conformance.trl_calls import DEFAULTS, advantages, stand_in, trl
from torch import Tensor

from bench.padded import MicroBatch, Update
from bench.sizes import BUDGET

Loss = Callable[[MicroBatch, Tensor], Tensor]

OBJECTIVES: dict[str, dict[str, Any]] = {
    "reinforce": {"advantage": lambda update: update.reward, "old": False},
    "rloo": {"trainer": "rloo"},
    "remax": {"advantage": lambda update: update.reward - update.baseline, "old": False},
    "ppo": {"advantage": lambda update: update.advantage},
    "grpo": {"loss_type": "grpo", "beta": 0.04, "use_bias_correction_kl": False},
    "dr_grpo": {"loss_type": "dr_grpo", "scale_rewards": "none"},
    "dapo": {"epsilon_high": 0.28},
    "gspo": {
        "loss_type": "grpo",
        "importance_sampling_level": "sequence",
        "epsilon_low": 3e-4,
        "epsilon_high": 4e-4,
    },
    "cispo": {"loss_type": "cispo", "epsilon_high": 5.0},
}
"""Options of the trainers; ``advantage`` where TRL has no such baseline, ``old`` False for a ratio of 1."""


def losses(update: Update) -> dict[str, Loss]:
    """Advantages of an update are formed here, once for each objective."""
    return {name: _loss(update, **options) for name, options in OBJECTIVES.items()}


def _loss(
    update: Update,
    *,
    trainer: str = "grpo",
    advantage: Callable[[Update], Tensor] | None = None,
    old: bool = True,
    **options: Any,
) -> Loss:
    chosen = {**DEFAULTS, "max_completion_length": BUDGET, **options}
    made = advantages(trainer, chosen, update.outcome, None) if advantage is None else advantage(update)
    module = getattr(trl(), trainer)
    kind = module.GRPOTrainer if trainer == "grpo" else module.RLOOTrainer
    tokens = torch.tensor(update.tokens)

    def loss(part: MicroBatch, theta: Tensor) -> Tensor:
        rows = len(part.rows)
        prompt = torch.zeros(rows, 1, dtype=torch.int64)
        batch = SimpleNamespace(
            entropy=part.mask, kind=SimpleNamespace(micro_batches=len(update.slices), updates=1)
        )
        inputs = {
            "prompt_ids": prompt,
            "prompt_mask": prompt + 1,
            "completion_ids": torch.zeros(theta.shape, dtype=torch.int64),
            "completion_mask": part.mask,
            "advantages": made[part.rows].float(),
            "old_per_token_logps": part.old if old else None,
            "old_logps": (part.old * part.mask).sum(1),
            "ref_per_token_logps": part.ref,
            "num_items_in_batch": tokens,
        }
        self = stand_in(chosen, batch, theta, slice(None))
        return kind._compute_loss(self, SimpleNamespace(training=True), inputs)

    return loss


def kl_sums(part: MicroBatch) -> list[Tensor]:
    """None: TRL has k3 inside its losses only, and k1 and k2 nowhere."""
    del part
    return []

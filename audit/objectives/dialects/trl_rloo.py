"""TRL's RLOOTrainer (0.22.0 and newer). Where it departs from the paper:

- one clipped *product* ratio per response, which is one action: the loss has no length in it.
- the k1 KL, old against reference, is summed over the response and taken off the reward before the baseline;
  the reward is clipped before that.
- ``normalize_advantages`` standardises over the generation batch, ddof 1 and 1e-4 added to the std.

Read: rloo_trainer.py, rloo_config.py; versions as in :mod:`~audit.objectives.dialects.trl`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from audit.errors import BadObjective
from audit.objectives.dialects.trl_grpo import epsilon_high
from audit.objectives.objective import (
    KL,
    Aggregation,
    Baseline,
    Filter,
    Objective,
    Ratio,
    RewardKL,
    Scale,
    Shaping,
    Whiten,
)
from audit.objectives.surrogates import PPOClip


def rloo(config: Mapping[str, Any], version: tuple[int, int, int], notes: list[str]) -> Objective:
    """Build the objective of a completed RLOOConfig; what was assumed is added to ``notes``.

    Raises
    ------
    BadObjective
    """
    if version < (0, 22):
        msg = (
            "TRL's RLOOTrainer before 0.22.0 is another algorithm (PPO epochs, rloo_k), which is not covered."
        )
        raise BadObjective(msg)
    beta, bounds = config["beta"], config["reward_clip_range"]
    if beta and config["mask_truncated_completions"]:
        notes.append("The KL in the reward of a truncated response counts none of its tokens.")
    whiten = Whiten(level="sequence", ddof=1, epsilon=1e-4) if config["normalize_advantages"] else None
    return Objective(
        name="trl-rloo",
        shaping=Shaping(clip=(float(bounds[0]), float(bounds[1])) if bounds else None),
        filter=Filter(mask_truncated=config["mask_truncated_completions"]),
        baseline=Baseline(kind="leave_one_out"),
        scale=Scale(whiten=whiten),
        ratio=Ratio(denominator="old", level="product"),
        clip=PPOClip(epsilon_low=config["epsilon"], epsilon_high=epsilon_high(config)),
        aggregation=Aggregation(kind="seq-mean-token-sum", scope="micro_batch"),
        kl=KL(reward=RewardKL(coefficient=beta, estimator="k1") if beta else None),
    )

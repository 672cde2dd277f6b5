"""TRL's experimental GMPOTrainer: GRPO's advantage, the geometric mean of clipped ratios as surrogate.

- ``epsilon`` (0.4 by default) is a width in log-ratio, one-sided by the sign of the advantage.
- the loss is a plain mean over responses of the micro-batch whatever ``loss_type`` says; the KL is the mean
  over each response, never multiplied by the ratio, and no sampler correction is applied.

Read: trl/experimental/gmpo/gmpo_trainer.py, gmpo_config.py of 1.16.0.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from audit.errors import BadObjective
from audit.objectives.dialects.trl_grpo import epsilon_high, grpo, kept_entropy
from audit.objectives.objective import KL, Aggregation, LossKL, Objective, Ratio
from audit.objectives.surrogates import GMPO


def gmpo(config: Mapping[str, Any], version: tuple[int, int, int], notes: list[str]) -> Objective:
    """Build the objective of a completed GMPOConfig; what was assumed is added to ``notes``.

    Raises
    ------
    BadObjective
    """
    if kept_entropy(config) < 1.0:
        msg = (
            f"GMPOTrainer's top_entropy_quantile={config['top_entropy_quantile']} is not expressible as an "
            "objective (tokens leave the geometric mean, not only the gradient)."
        )
        raise BadObjective(msg)
    base = grpo({**config, "loss_type": "grpo", "importance_sampling_level": "token"}, version, notes)
    beta = config["beta"]
    return base.replace(
        name="trl-gmpo",
        ratio=Ratio(denominator="old"),
        clip=GMPO(epsilon_low=config["epsilon"], epsilon_high=epsilon_high(config)),
        aggregation=Aggregation(kind="seq-mean-token-mean", scope="micro_batch"),
        kl=KL(loss=LossKL(coefficient=beta) if beta else None),
    )

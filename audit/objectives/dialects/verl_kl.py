"""verl's KL, in the reward or in the loss. Where it departs from the papers:

- through 0.3 the KL was in the reward by default (0.001, k1), unless ``use_kl_loss``; since 0.4.0 it is off.
- k3 is clamped: the log-ratio to ±20 (since 0.4.1), the value to 10. Beyond, the token is not pulled at all.
- names with ``+`` show the value and have the gradient of k2; they raised through 0.7.1.
- in the reward, group estimators see the sum over the response before the baseline; ``gae``, ``remax`` and
  ``reinforce_plus_plus`` let each token pay.

Read: core_algos.py ``kl_penalty``, ray_trainer.py ``apply_kl_penalty``; versions as in
:mod:`~audit.objectives.dialects.verl`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from audit.errors import BadObjective
from audit.objectives.dialects.verl_config import Version
from audit.objectives.objective import KL, Aggregation, LossKL, RewardKL
from audit.objectives.part import Estimator

_NAMES: dict[str, Estimator] = {
    "kl": "k1",
    "k1": "k1",
    "abs": "abs",
    "mse": "k2",
    "k2": "k2",
    "low_var_kl": "k3",
    "k3": "k3",
}
_OLD_NAMES = ("kl", "abs", "mse", "low_var_kl")


def kl_terms(
    config: Mapping[str, Any],
    number: Version,
    notes: list[str],
    *,
    sampler: bool,
    aggregation: Aggregation | None,
) -> KL:
    """Return the KL of a completed config; what was assumed is added to ``notes``.

    Parameters
    ----------
    sampler : bool
        The sampler's log-probs stand in for the old ones (bypass).
    aggregation : Aggregation or None
        How the KL in the loss is averaged, where that is not how the policy loss is.

    Raises
    ------
    BadObjective
    """
    return KL(
        reward=_in_reward(config, number, notes, sampler=sampler),
        loss=_in_loss(config, number, aggregation),
    )


def _in_reward(
    config: Mapping[str, Any], number: Version, notes: list[str], *, sampler: bool
) -> RewardKL | None:
    if number < (0, 4):
        on = not config.get("actor.use_kl_loss", False)
    else:
        on = bool(config["algorithm.use_kl_in_reward"])
    coefficient = config["algorithm.kl_ctrl.kl_coef"]
    if not on or not coefficient:
        return None
    estimator_name = str(config["algorithm.adv_estimator"]).lower()
    if estimator_name == "gdpo":
        notes.append("The KL in the reward does not reach gdpo, which reads the components.")
        return None
    if config["algorithm.kl_ctrl.type"] != "fixed":
        control = config["algorithm.kl_ctrl.type"]
        msg = (
            f"verl's algorithm.kl_ctrl.type={control!r} is not expressible as an objective "
            "(a coefficient that changes during the run)."
        )
        raise BadObjective(msg)
    estimator, _ = _estimator("algorithm.kl_penalty", str(config["algorithm.kl_penalty"]), number)
    if estimator == "k3":
        notes.append("k3 in the reward is at most 10 per token in verl, and unbounded here.")
    policy: Literal["old", "sampler"] = "sampler" if sampler else "old"
    if estimator_name == "gae":
        return RewardKL(
            coefficient=coefficient, estimator=estimator, policy=policy, stage="after_scale", form="token"
        )
    if estimator_name in ("remax", "reinforce_plus_plus"):
        return RewardKL(
            coefficient=coefficient, estimator=estimator, policy=policy, stage="after_scale", form="to_go"
        )
    return RewardKL(coefficient=coefficient, estimator=estimator, policy=policy)


def _in_loss(config: Mapping[str, Any], number: Version, aggregation: Aggregation | None) -> LossKL | None:
    coefficient = config.get("actor.kl_loss_coef", 0.0)
    if not config.get("actor.use_kl_loss", False) or not coefficient:
        return None
    estimator, through = _estimator("actor.kl_loss_type", str(config["actor.kl_loss_type"]), number)
    clamped = estimator == "k3" and not through
    return LossKL(
        coefficient=coefficient,
        estimator=estimator,
        gradient="straight_through" if through else "pathwise",
        input_clamp=20.0 if clamped and number >= (0, 4, 1) else None,
        output_clamp=10.0 if clamped else None,
        aggregation=aggregation,
    )


def _estimator(option: str, name: str, number: Version) -> tuple[Estimator, bool]:
    """Estimator, and whether its gradient is that of k2 whatever it shows."""
    through = name.endswith("+")
    base = name.removesuffix("+")
    if base not in _NAMES or (number < (0, 4) and base not in _OLD_NAMES):
        raise BadObjective(f"verl's {option}={name!r} is not implemented in verl, or unknown.")
    if through and number < (0, 8):
        raise BadObjective(f"verl's {option}={name!r} raised NotImplementedError before 0.8.0.")
    return _NAMES[base], through

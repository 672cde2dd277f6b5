"""How strong the KL is next to the reward signal, once the advantage has been rescaled."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from audit.analyses.prompt_factor import prompt_factors
from audit.errors import BadObjective
from audit.objectives.objective import Objective


class EffectiveBeta(msgspec.Struct, frozen=True):
    """KL coefficient at one success rate, in units of an unscaled reward."""

    rate: float
    factor: float
    """Prompt-weight factor of the reward."""
    beta: float | None
    """Coefficient over factor; None where the reward has no weight left."""


def effective_betas(objective: Objective, group_size: int, rates: Sequence[float]) -> list[EffectiveBeta]:
    """KL coefficient that gives plain leave-one-out the same balance of reward and KL; length P.

    Parameters
    ----------
    rates : sequence of float, shape (P,)
        Success rates in [0, 1]; at 0 and 1 the limit.

    Notes
    -----
    KL in the loss, and KL taken off the finished advantage, are not divided by the scale of the advantage:
    they count beta over the prompt factor. In a large group that is beta · std. KL taken off the reward
    before the baseline is scaled with it and counts beta everywhere.

    Raises
    ------
    BadObjective
        The objective has no KL to the reference, or no factor of one prompt.
    """
    beta, divided = _coefficient(objective)
    return [
        EffectiveBeta(f.rate or 0.0, f.factor, beta if divided else (beta / f.factor if f.factor else None))
        for f in prompt_factors(objective, group_size, rates)
    ]


def _coefficient(objective: Objective) -> tuple[float, bool]:
    """Coefficient of the KL to the reference, and whether the scale divides it as it does the reward."""
    loss, reward = objective.kl.loss, objective.kl.reward
    if loss is not None and loss.coefficient > 0 and loss.against is None:
        return loss.coefficient, False
    if reward is not None and reward.coefficient > 0:
        return reward.coefficient, reward.stage == "before_baseline"
    msg = f"{objective.name} has no KL to the reference. Try --set kl.loss.coefficient=0.04."
    raise BadObjective(msg)

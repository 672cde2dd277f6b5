"""What is done to the reward before the baseline."""

from __future__ import annotations

import math

from audit.objectives.arrays import Array, as_float, library
from audit.objectives.batch import Responses
from audit.objectives.parts import Overlong, Shaping


def combined_reward(responses: Responses, shaping: Shaping) -> Array:
    """The reward column, or the weighted sum of its components; shape (R,), float64.

    A component that did not apply is left out of the sum; a response without any is NaN (TRL 1.16:
    ``nansum``, then NaN where all are NaN).

    Raises
    ------
    MissingColumn
        A component was not logged.
    """
    if shaping.weights is None:
        return responses.reward
    xp = library(responses.reward)
    total = xp.zeros_like(responses.reward)
    absent = xp.ones_like(responses.reward) > 0
    for name, weight in shaping.weights.items():
        part = responses.component(name)
        absent = absent & xp.isnan(part)
        total = total + weight * xp.nan_to_num(part)
    return xp.where(absent, math.nan, total)


def shaped_reward(reward: Array, length: Array, shaping: Shaping) -> Array:
    """Clip the reward, map it linearly, then add the overlong penalty.

    Parameters
    ----------
    reward : Array, shape (R,), float64
        NaN stays NaN.
    length : Array, shape (R,), int64
        Response length in tokens.

    Returns
    -------
    Array, shape (R,), float64
    """
    if shaping.clip is not None:
        reward = library(reward).clip(reward, *shaping.clip)
    if shaping.factor != 1.0 or shaping.offset != 0.0:
        reward = shaping.factor * reward + shaping.offset
    if shaping.overlong is not None:
        reward = reward + overlong_penalty(length, shaping.overlong)
    return reward


def overlong_penalty(length: Array, overlong: Overlong) -> Array:
    """Soft penalty of a response of ``length`` tokens, in [-penalty, 0] where capped; (R,), float64.

    DAPO, arXiv:2503.14476, eq. 13.
    """
    start = overlong.max_length - overlong.cache
    excess = (as_float(length) - start) / overlong.cache
    paid = library(excess).clip(excess, 0.0, 1.0 if overlong.capped else math.inf)
    return -overlong.penalty * paid

"""What is done to the reward before the baseline."""

from __future__ import annotations

import torch
from torch import Tensor

from audit.objectives.batch import Responses
from audit.objectives.parts import Overlong, Shaping


def combined_reward(responses: Responses, shaping: Shaping) -> Tensor:
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
    parts = torch.stack([responses.component(name) for name in shaping.weights])
    weights = torch.tensor(list(shaping.weights.values()), dtype=parts.dtype, device=parts.device)
    total = (parts.nan_to_num(0.0) * weights[:, None]).sum(0)
    return torch.where(parts.isnan().all(0), torch.nan, total)


def shaped_reward(reward: Tensor, length: Tensor, shaping: Shaping) -> Tensor:
    """Clip the reward, map it linearly, then add the overlong penalty.

    Parameters
    ----------
    reward : Tensor, shape (R,), float64
        NaN stays NaN.
    length : Tensor, shape (R,), int64
        Response length in tokens.

    Returns
    -------
    Tensor, shape (R,), float64
    """
    if shaping.clip is not None:
        reward = reward.clamp(*shaping.clip)
    if shaping.factor != 1.0 or shaping.offset != 0.0:
        reward = shaping.factor * reward + shaping.offset
    if shaping.overlong is not None:
        reward = reward + overlong_penalty(length, shaping.overlong)
    return reward


def overlong_penalty(length: Tensor, overlong: Overlong) -> Tensor:
    """Soft penalty of a response of ``length`` tokens, in [-penalty, 0] where capped; (R,), float64.

    DAPO, arXiv:2503.14476, eq. 13.
    """
    start = overlong.max_length - overlong.cache
    excess = (length.to(torch.float64) - start) / overlong.cache
    return -overlong.penalty * excess.clamp(0.0, 1.0 if overlong.capped else torch.inf)

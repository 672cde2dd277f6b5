"""What is done to the reward before the baseline."""

from __future__ import annotations

import torch
from torch import Tensor

from audit.objectives.objective import Overlong, Shaping


def shaped_reward(reward: Tensor, length: Tensor, shaping: Shaping) -> Tensor:
    """Clip the reward, then add the overlong penalty.

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
    if shaping.overlong is not None:
        reward = reward + overlong_penalty(length, shaping.overlong)
    return reward


def overlong_penalty(length: Tensor, overlong: Overlong) -> Tensor:
    """Soft penalty of a response of ``length`` tokens, in [-penalty, 0], shape (R,), float64.

    DAPO, arXiv:2503.14476, eq. 13.
    """
    start = overlong.max_length - overlong.cache
    excess = (length.to(torch.float64) - start) / overlong.cache
    return -overlong.penalty * excess.clamp(0.0, 1.0)

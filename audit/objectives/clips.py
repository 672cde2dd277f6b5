"""The trust region: which tokens lose their gradient, and the factor of those that keep it."""

from __future__ import annotations

import torch
from torch import Tensor

from audit.objectives.objective import Clip


def clip_factor(ratio: Tensor, advantage: Tensor, clip: Clip) -> tuple[Tensor, Tensor]:
    """Derivative of the surrogate with respect to log pi_theta, divided by the advantage.

    Parameters
    ----------
    ratio, advantage : Tensor, shape (N,), float64

    Returns
    -------
    factor : Tensor, shape (N,), float64
        rho where the gradient lives, 0 where the clip removed it; for CISPO the clipped ratio.
    zeroed : Tensor, shape (N,), bool
        True where the clip removed the gradient. Outside the band is not enough: the side must match the
        sign of the advantage.

    Notes
    -----
    PPO: arXiv:1707.06347 eq. 7. Two-sided ``delta``: TRL 1.16 grpo_trainer.py ``_compute_loss`` (the band
    is taken from the uncapped ratio, then the ratio is capped at delta). Dual clip: arXiv:1912.09729 eq. 5.
    CISPO: arXiv:2506.13585 eq. 4-5.
    """
    low = -torch.inf if clip.epsilon_low is None else 1.0 - clip.epsilon_low
    high = torch.inf if clip.epsilon_high is None else 1.0 + clip.epsilon_high
    if clip.kind == "none":
        return ratio, torch.zeros_like(ratio, dtype=torch.bool)
    if clip.kind == "cispo":
        return ratio.clamp(low, high), torch.zeros_like(ratio, dtype=torch.bool)

    delta = torch.inf if clip.delta is None else clip.delta
    dual = torch.inf if clip.dual is None else clip.dual
    above = (advantage > 0) & (ratio > min(high, delta))
    below = (advantage < 0) & ((ratio < low) | (ratio > min(max(high, delta), dual)))
    zeroed = above | below
    return torch.where(zeroed, 0.0, ratio), zeroed

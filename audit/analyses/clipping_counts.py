"""What a trust region removed, counted per response: by side, by place in the response, by probability."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from audit.facts.tokenpass.breakdowns import Dimension
from audit.objectives.objective import KL, Objective
from audit.objectives.surrogates import CISPOClip, PPOClip
from audit.objectives.surrogates.clip import band


class Counts(NamedTuple):
    """Of each response, shape (R,); 0 where the response takes no loss."""

    use: np.ndarray
    """bool: the response takes loss, and its ratio is finite."""
    lost: int
    """Responses that take loss and have no finite ratio."""
    advantage: np.ndarray
    """Of the response; the mean over its tokens where those differ."""
    multiple: np.ndarray
    """nu · A: what the ratio and clip factor is multiplied by."""
    tokens: np.ndarray
    """Loss tokens."""
    zeroed: np.ndarray
    """Those that the trust region removed."""
    upper: np.ndarray
    """Removed above the band where A > 0."""
    lower: np.ndarray
    """Removed below the band where A < 0."""
    capped: np.ndarray
    """Removed far above the band where A < 0, by a dual or two-sided clip."""
    kept_outside: np.ndarray | None
    """Outside the band and not removed, advantage other than 0; None where there is no band."""


class Source(Protocol):
    """Where the counts come from."""

    @property
    def counts(self) -> Counts:
        """What was removed of each response."""
        ...

    def parts(self, by: Dimension) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """Removed tokens and loss tokens in each part, B arrays of shape (R,) each."""
        ...


def bounds_of(objective: Objective) -> tuple[float, float] | None:
    """Lowest and highest ratio of the objective's band; None where its trust region has none."""
    clip = objective.clip
    if not isinstance(clip, (PPOClip, CISPOClip)):
        return None
    low, high = band(clip.epsilon_low, clip.epsilon_high)
    return max(low, 0.0), high


def without_loss_kl(objective: Objective) -> Objective:
    """Return the objective without its KL in the loss, which no trust region touches."""
    return objective.replace(kl=KL(reward=objective.kl.reward))

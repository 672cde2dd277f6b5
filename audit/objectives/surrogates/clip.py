"""Hard trust regions on the ratio: none, PPO's clip, CISPO's bounded weight."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar

from audit.objectives.part import Positive
from audit.objectives.surrogates.base import Step, Surrogate, nothing

if TYPE_CHECKING:
    from torch import Tensor


class NoClip(Surrogate, frozen=True, kw_only=True, tag="none"):
    """rho A, without a trust region; REINFORCE where the ratio is 1."""

    @property
    def sign_blind(self) -> bool:
        """Nothing is removed."""
        return True

    def slope(self, step: Step) -> tuple[Tensor, Tensor]:
        """c = rho."""
        return step.advantage * step.ratio, nothing(step.ratio)


class PPOClip(Surrogate, frozen=True, kw_only=True, tag="ppo"):
    """min(rho A, clip(rho, 1 - epsilon_low, 1 + epsilon_high) A); an epsilon of null bounds nothing.

    ``delta`` caps the ratio from above after the band was formed from the uncapped one (two-sided clip);
    ``dual`` bounds the objective from below at dual · A where A < 0.

    PPO: arXiv:1707.06347 eq. 7. Two-sided: arXiv:2505.07291, TRL 1.16 grpo_trainer.py ``_compute_loss``.
    Dual clip: arXiv:1912.09729 eq. 5.
    """

    epsilon_low: float | None = None
    epsilon_high: float | None = None
    delta: Positive | None = None
    dual: Positive | None = None

    def problems(self) -> list[str]:
        """A band must have an inside."""
        return band_problems(self.epsilon_low, self.epsilon_high)

    def for_sign(self, sign: int) -> PPOClip:
        """A rise is bounded from above alone, a fall from below and by the dual clip."""
        if sign > 0:
            return PPOClip(epsilon_high=self.epsilon_high, delta=self.delta)
        high = None if self.delta is None else self.epsilon_high
        return PPOClip(epsilon_low=self.epsilon_low, epsilon_high=high, delta=self.delta, dual=self.dual)

    def slope(self, step: Step) -> tuple[Tensor, Tensor]:
        """c = rho, 0 where the clip holds: outside the band on the side that the advantage pushes to."""
        low, high = band(self.epsilon_low, self.epsilon_high)
        delta = math.inf if self.delta is None else self.delta
        dual = math.inf if self.dual is None else self.dual
        ratio, advantage = step.ratio, step.advantage
        above = (advantage > 0) & (ratio > min(high, delta))
        below = (advantage < 0) & ((ratio < low) | (ratio > min(max(high, delta), dual)))
        zeroed = above | below
        return (advantage * ratio).masked_fill(zeroed, 0.0), zeroed


class CISPOClip(Surrogate, frozen=True, kw_only=True, tag="cispo"):
    """sg(clip(rho, 1 - epsilon_low, 1 + epsilon_high)) A log pi: a bounded weight, and no token is removed.

    With epsilon_low null and epsilon_high 0 it is V-trace's truncated importance weight (cap 1). With
    ``masked`` a token that PPO's clip would remove is removed here too (ROLL's unified mask).

    arXiv:2506.13585 eq. 4-5; V-trace: arXiv:1802.01561.
    """

    stops_ratio: ClassVar[bool] = True

    epsilon_low: float | None = None
    epsilon_high: float | None = None
    masked: bool = False

    def problems(self) -> list[str]:
        """A band must have an inside."""
        return band_problems(self.epsilon_low, self.epsilon_high)

    @property
    def sign_blind(self) -> bool:
        """The bound holds for both signs; PPO's mask does not."""
        return not self.masked

    def slope(self, step: Step) -> tuple[Tensor, Tensor]:
        """c = the clipped ratio."""
        low, high = band(self.epsilon_low, self.epsilon_high)
        zeroed = nothing(step.ratio)
        if self.masked:
            above = (step.advantage > 0) & (step.ratio > high)
            zeroed = above | ((step.advantage < 0) & (step.ratio < low))
        return (step.advantage * step.ratio.clamp(low, high)).masked_fill(zeroed, 0.0), zeroed


def band(epsilon_low: float | None, epsilon_high: float | None) -> tuple[float, float]:
    """Lowest and highest ratio of a band around 1."""
    low = -math.inf if epsilon_low is None else 1.0 - epsilon_low
    return low, math.inf if epsilon_high is None else 1.0 + epsilon_high


def band_problems(epsilon_low: float | None, epsilon_high: float | None) -> list[str]:
    """Say so where a band has no inside."""
    low, high = band(epsilon_low, epsilon_high)
    return [] if low <= high else ["clip: 1 - epsilon_low must not exceed 1 + epsilon_high"]

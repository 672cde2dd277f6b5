"""GMPO: the geometric mean of clipped token ratios."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from audit.objectives.part import NonNegative
from audit.objectives.surrogates.base import Step, Surrogate

if TYPE_CHECKING:
    from torch import Tensor


class GMPO(Surrogate, frozen=True, kw_only=True, tag="gmpo"):
    """exp(mean of one-sidedly clipped log-ratios) A; a clipped token gets no gradient, the others all of it.

    ``ratio.level`` stays ``token``: the mean is formed here. arXiv:2507.20673; TRL 1.16
    trl/experimental/gmpo, verl 0.9.1 ``geo_mean``.
    """

    spreads: ClassVar[bool] = True

    epsilon_low: NonNegative = 0.4
    """Width of the band below 0 in log-ratio, nats."""
    epsilon_high: NonNegative = 0.4

    def slope(self, step: Step) -> tuple[Tensor, Tensor]:
        """c = exp(mean_t clipped log rho), to be spread over the tokens that are not clipped."""
        layout, log = step.tokens.layout, step.log_ratio
        above = (step.advantage > 0) & (log > self.epsilon_high)
        below = (step.advantage < 0) & (log < -self.epsilon_low)
        clipped = log.masked_fill(above, self.epsilon_high).masked_fill(below, -self.epsilon_low)
        clipped = step.tokens.unmasked(clipped)
        count = layout.sum(step.tokens.mask.to(log.dtype)).clamp(min=1.0)
        mean = layout.spread((layout.sum(clipped) / count).exp())
        zeroed = above | below
        return step.advantage * mean, zeroed

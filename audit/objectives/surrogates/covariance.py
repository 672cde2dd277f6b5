"""Surrogates that act on the tokens which lower the entropy most: Clip-Cov and KL-Cov.

Both rank tokens by (A - mean A) · (log pi - mean log pi) over the loss tokens of a micro-batch (of the update
where micro-batches were not logged). arXiv:2505.22617; verl 0.9.1 core_algos.py ``clip_cov``, ``kl_cov``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from audit.errors import MissingColumn
from audit.objectives.part import Fraction, NonNegative
from audit.objectives.surrogates.base import Step, Surrogate
from audit.objectives.surrogates.clip import PPOClip

if TYPE_CHECKING:
    from torch import Tensor


class ClipCov(Surrogate, frozen=True, kw_only=True, tag="clip_cov"):
    """PPO's clip, and a random draw among the tokens with covariance in (low, high) loses its gradient too.

    The draw cannot be recomputed from a log: the slope is its expectation, and a token counts as zeroed where
    every token of the window is drawn.
    """

    batch_wide: ClassVar[bool] = True
    proportional: ClassVar[bool] = False

    epsilon_low: float | None = 0.2
    epsilon_high: float | None = 0.2
    fraction: Fraction = 2e-4
    """Share of the loss tokens that is drawn, at least one token."""
    low: float = 1.0
    high: float = 5.0

    def slope(self, step: Step) -> tuple[Tensor, Tensor]:
        """Expected A · c over the draw."""
        ppo = PPOClip(epsilon_low=self.epsilon_low, epsilon_high=self.epsilon_high)
        slope, zeroed = ppo.slope(step)
        covariance, batch, count = _covariance(step)
        window = (covariance > self.low) & (covariance < self.high) & step.tokens.mask & ~zeroed
        eligible = _per_batch(window.to(slope.dtype), batch, count.numel())
        drawn = (count * self.fraction).floor().clamp(min=1.0).minimum(eligible)
        lost = (drawn / eligible.clamp(min=1.0))[batch]
        slope = slope * (1.0 - lost * window.to(slope.dtype))
        return slope, zeroed | (window & (lost >= 1.0))


class KLCov(Surrogate, frozen=True, kw_only=True, tag="kl_cov"):
    """rho A without a clip; the tokens of highest covariance pay coefficient · |log rho|."""

    batch_wide: ClassVar[bool] = True
    proportional: ClassVar[bool] = False

    fraction: Fraction = 2e-4
    coefficient: NonNegative = 1.0

    def slope(self, step: Step) -> tuple[Tensor, Tensor]:
        """A rho, minus coefficient · sign(log rho) on the chosen tokens."""
        covariance, batch, count = _covariance(step)
        chosen = step.tokens.mask.new_zeros(covariance.shape)
        for index in range(count.numel()):
            inside = ((batch == index) & step.tokens.mask).nonzero().flatten()
            if inside.numel() and self.fraction > 0:
                k = max(1, int(inside.numel() * self.fraction))
                chosen[inside[covariance[inside].topk(k).indices]] = True
        pull = self.coefficient * step.log_ratio.sign() * chosen.to(covariance.dtype)
        return step.advantage * step.ratio - pull, step.tokens.mask.new_zeros(covariance.shape)


def _covariance(step: Step) -> tuple[Tensor, Tensor, Tensor]:
    """Covariance of each token, batch of each token, loss tokens of each batch."""
    if step.tokens.logp_theta is None:
        raise MissingColumn.needed_for("logp_theta", "covariance of advantage and log-prob")
    tokens, logp = step.tokens, step.tokens.logp_theta
    batch = tokens.layout.spread(step.batch)
    batches = int(step.batch.max()) + 1 if step.batch.numel() else 0
    mask = tokens.mask.to(step.advantage.dtype)
    count = _per_batch(mask, batch, batches)

    def centred(values: Tensor) -> Tensor:
        inside = tokens.unmasked(values)
        return tokens.unmasked(inside - (_per_batch(inside, batch, batches) / count.clamp(min=1.0))[batch])

    return centred(step.advantage) * centred(logp), batch, count


def _per_batch(values: Tensor, batch: Tensor, batches: int) -> Tensor:
    return values.new_zeros(batches).index_add(0, batch, values)

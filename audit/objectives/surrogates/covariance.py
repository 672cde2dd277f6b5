"""Surrogates that act on the tokens which lower the entropy most: Clip-Cov and KL-Cov.

Both rank tokens by (A - mean A) · (log pi - mean log pi) over the loss tokens of a micro-batch (of the update
where micro-batches were not logged). arXiv:2505.22617; verl 0.9.1 core_algos.py ``clip_cov``, ``kl_cov``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from audit.errors import MissingColumn
from audit.objectives.arrays import count_codes, group_sum
from audit.objectives.part import Fraction, NonNegative
from audit.objectives.ranking import highest, loss_tokens_by_batch
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
        covariance, count = _covariance(step)
        window = (covariance > self.low) & (covariance < self.high) & step.tokens.mask & ~zeroed
        eligible = _per_batch(step, window.to(slope.dtype))
        drawn = (count * self.fraction).floor().clamp(min=1.0).minimum(eligible)
        lost = step.tokens.layout.spread((drawn / eligible.clamp(min=1.0))[step.batch])
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
        covariance, _ = _covariance(step)
        chosen = step.tokens.mask.new_zeros(covariance.shape)
        if self.fraction > 0:
            for inside in loss_tokens_by_batch(step.tokens, step.batch):
                k = max(1, int(inside.numel() * self.fraction))
                chosen[inside[highest(covariance[inside], k)]] = True
        pull = self.coefficient * step.log_ratio.sign() * chosen.to(covariance.dtype)
        return step.advantage * step.ratio - pull, step.tokens.mask.new_zeros(covariance.shape)


def _covariance(step: Step) -> tuple[Tensor, Tensor]:
    """Covariance of each token, and the number of loss tokens of each batch."""
    if step.tokens.logp_theta is None:
        raise MissingColumn.needed_for("logp_theta", "covariance of advantage and log-prob")
    tokens, logp = step.tokens, step.tokens.logp_theta
    count = _per_batch(step, tokens.mask.to(step.advantage.dtype))

    def centred(values: Tensor) -> Tensor:
        inside = tokens.unmasked(values)
        mean = (_per_batch(step, inside) / count.clamp(min=1.0))[step.batch]
        return tokens.unmasked(inside - tokens.layout.spread(mean))

    return centred(step.advantage) * centred(logp), count


def _per_batch(step: Step, values: Tensor) -> Tensor:
    """Sum of values of tokens, shape (N,), over each batch; shape (batches,)."""
    found: Tensor = group_sum(step.tokens.layout.sum(values), step.batch, count_codes(step.batch))
    return found

"""Trust regions on the probability of the sampled token instead of its ratio: DPPO and the IPO mask."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from audit.errors import BadObjective, MissingColumn
from audit.objectives.part import NonNegative, Positive
from audit.objectives.surrogates.base import Step, Surrogate

if TYPE_CHECKING:
    from torch import Tensor


class DPPO(Surrogate, frozen=True, kw_only=True, tag="dppo"):
    """Remove a token once its probability moved too far, in the direction that the advantage pushes.

    ``tv``: |p_theta - p_old| beyond delta; ``kl``: binary KL(p_old, p_theta) beyond delta. ``cap`` bounds the
    ratio's weight. arXiv:2602.04879; verl 0.9.1 ``dppo_tv``, ``dppo_kl`` (cap 3), prime-rl 0.8.0 loss.py.
    """

    divergence: Literal["tv", "kl"] = "tv"
    delta_low: NonNegative = 0.2
    delta_high: NonNegative = 0.2
    cap: Positive | None = None

    def slope(self, step: Step) -> tuple[Tensor, Tensor]:
        """c = min(rho, cap), 0 where the token left the region."""
        now, before = _probabilities(step, "dppo")
        moved = now - before
        far = moved.abs() if self.divergence == "tv" else _binary_kl(before, now)
        above = (step.advantage > 0) & (moved > 0) & (far > self.delta_high)
        below = (step.advantage < 0) & (moved < 0) & (far > self.delta_low)
        zeroed = above | below
        ratio = step.ratio if self.cap is None else step.ratio.clamp(max=self.cap)
        return (step.advantage * ratio).masked_fill(zeroed, 0.0), zeroed


class ProbabilityMask(Surrogate, frozen=True, kw_only=True, tag="probability_mask"):
    """rho A where |p_theta - p_old| <= delta, nothing elsewhere, whatever the advantage (prime-rl's ipo)."""

    delta: NonNegative = 0.1

    @property
    def sign_blind(self) -> bool:
        """Whatever the advantage."""
        return True

    def slope(self, step: Step) -> tuple[Tensor, Tensor]:
        """c = rho inside the region."""
        now, before = _probabilities(step, "probability_mask")
        zeroed = (now - before).abs() > self.delta
        return (step.advantage * step.ratio).masked_fill(zeroed, 0.0), zeroed


def _probabilities(step: Step, name: str) -> tuple[Tensor, Tensor]:
    if step.denominator is None:
        msg = f"clip '{name}' compares two policies: ratio.denominator must be 'old' or 'sampler'."
        raise BadObjective(msg)
    if step.tokens.logp_theta is None:
        raise MissingColumn.needed_for("logp_theta", f"clip '{name}'")
    now, before = (step.tokens.unmasked(logp) for logp in (step.tokens.logp_theta, step.denominator))
    return now.exp(), before.exp()


def _binary_kl(p: Tensor, q: Tensor) -> Tensor:
    """KL between two coins, nats; the other outcome is every other token."""
    tiny = 1e-12
    p, q = p.clamp(tiny, 1.0 - tiny), q.clamp(tiny, 1.0 - tiny)
    return p * (p / q).log() + (1.0 - p) * ((1.0 - p) / (1.0 - q)).log()

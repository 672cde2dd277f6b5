"""Corrections for a sampler that is not the trainer's policy: weights and masks whose gradient is stopped.

With u = log pi_numerator - log pi_sampler on a token (numerator: old, or theta with its gradient stopped):
truncated importance sampling (TIS), masked importance sampling (MIS, IcePop), rejection, per token or per
response. arXiv:2510.18855 (IcePop); TRL 1.16 ``vllm_importance_sampling_mode``; verl 0.9.1
rollout_corr_helper.py; arXiv:2512.02556 (off-policy sequence mask).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

from audit.errors import MissingColumn
from audit.objectives.part import NonNegative, Part

if TYPE_CHECKING:
    from torch import Tensor

    from audit.objectives.batch import Tokens


class Correction(Part, frozen=True, kw_only=True):
    """One correction; several multiply.

    ``truncate``: clamp the weight to [low, high]. ``mask``: the weight where it lies in [low, high], else 0.
    ``gate``: 1 where it lies in [low, high], else 0 (the weight itself is not applied).
    """

    action: Literal["truncate", "mask", "gate"] = "truncate"
    level: Literal["token", "product", "sequence"] = "token"
    """``product``: exp(sum of u over the response); ``sequence``: exp(mean of u), the geometric mean."""
    numerator: Literal["old", "theta"] = "old"
    against: Literal["sampler", "old"] = "sampler"
    """The policy below the numerator; ``old`` where no sampler log-probs exist (TRL's off-policy mask)."""
    low: NonNegative | None = None
    high: NonNegative | None = None
    keep_nonnegative: bool = False
    """Responses with advantage >= 0 are never masked (off-policy sequence mask)."""
    leaves_denominator: bool = False
    """Tokens that are masked or gated away do not count in the normaliser either."""
    weighs_kl: bool = False
    """The correction multiplies the KL in the loss too."""

    def problems(self) -> list[str]:
        """A window must have an inside, and two policies."""
        found = []
        if self.low is not None and self.high is not None and self.low > self.high:
            found.append("ratio.corrections: low must not exceed high")
        if self.numerator == self.against:
            found.append("ratio.corrections: numerator and against are the same policy")
        return found


def correction_weight(tokens: Tokens, correction: Correction, advantage: Tensor | None = None) -> Tensor:
    """Weight of every token, shape (N,), float64; 0 at masked tokens.

    A token whose sampler log-prob is not a number carries weight 1: it gives no evidence (TRL 1.16).

    Raises
    ------
    MissingColumn
        Sampler log-probs, or those of the numerator, were not logged.
    """
    log = log_weight(tokens, correction)
    weight = bounded(log, correction)
    if correction.keep_nonnegative and advantage is not None and correction.action != "truncate":
        unmasked = log.exp() if correction.action == "mask" else log.new_ones(log.shape)
        weight = weight.where(advantage < 0, unmasked)
    return tokens.unmasked(weight)


def log_weight(tokens: Tokens, correction: Correction) -> Tensor:
    """u at the level of the correction, spread over tokens: shape (N,), nats; 0 at masked tokens.

    Raises
    ------
    MissingColumn
        The log-probs of one of its two policies were not logged.
    """
    upper = tokens.logp_old if correction.numerator == "old" else tokens.logp_theta
    below = tokens.logp_sampler if correction.against == "sampler" else tokens.logp_old
    if below is None:
        raise MissingColumn.needed_for(f"logp_{correction.against}", "the sampler correction")
    if upper is None:
        raise MissingColumn.needed_for(f"logp_{correction.numerator}", "the sampler correction")
    log = tokens.unmasked((upper - below).nan_to_num(0.0, math.inf, -math.inf))
    if correction.level == "token":
        return log
    layout = tokens.layout
    total = layout.sum(log)
    if correction.level == "sequence":
        total = total / layout.sum(tokens.mask.to(log.dtype)).clamp(min=1.0)
    return layout.spread(total)


def bounded(log: Tensor, correction: Correction) -> Tensor:
    """Apply the action of a correction to exp(log); shape kept, ``log`` in nats."""
    low = 0.0 if correction.low is None else correction.low
    high = math.inf if correction.high is None else correction.high
    weight = log.exp()
    if correction.action == "truncate":
        return weight.clamp(low, high)
    outside = (weight < low) | (weight > high)
    if correction.action == "gate":
        weight = weight.new_ones(weight.shape)
    return weight.masked_fill(outside, 0.0)

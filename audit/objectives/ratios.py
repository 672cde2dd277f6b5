"""The policy ratio, by denominator and level."""

from __future__ import annotations

import msgspec
import torch
from torch import Tensor

from audit.errors import MissingColumn
from audit.objectives.batch import Tokens
from audit.objectives.parts import Ratio


def denominator(tokens: Tokens, ratio: Ratio) -> Tensor | None:
    """Log-probs of the ratio's denominator, shape (N,); None where it is the policy itself.

    Raises
    ------
    MissingColumn
        They were not logged.
    """
    if ratio.denominator == "theta":
        return None
    found = tokens.logp_old if ratio.denominator == "old" else tokens.logp_sampler
    if found is None:
        raise MissingColumn.needed_for(f"logp_{ratio.denominator}", "the policy ratio")
    return found


def log_ratio(tokens: Tokens, ratio: Ratio) -> Tensor:
    """log pi_theta - log pi_denominator per token, clamped, 0 at masked tokens; shape (N,), nats.

    Raises
    ------
    MissingColumn
        The log-probs that the ratio needs were not logged.
    """
    below = denominator(tokens, ratio)
    if below is None:
        return torch.zeros(tokens.layout.num_values, dtype=torch.float64, device=tokens.mask.device)
    if tokens.logp_theta is None:
        raise MissingColumn.needed_for("logp_theta", "the policy ratio")
    log = tokens.unmasked(tokens.logp_theta - below)
    return log if ratio.clamp is None else log.clamp(-ratio.clamp, ratio.clamp)


def clamped_ratio(tokens: Tokens, ratio: Ratio) -> Tensor:
    """bool, shape (N,): the clamp holds the token's log-ratio, which its log-prob then does not move."""
    if ratio.clamp is None:
        return torch.zeros_like(tokens.mask)
    return log_ratio(tokens, msgspec.structs.replace(ratio, clamp=None)).abs() > ratio.clamp


def policy_ratio(tokens: Tokens, ratio: Ratio, log: Tensor | None = None) -> Tensor:
    """Ratio that each token's surrogate uses; shape (N,), float64, > 0.

    Parameters
    ----------
    log : Tensor, shape (N,), optional
        What :func:`log_ratio` gives, where it is at hand.

    Notes
    -----
    ``sequence``: s_i = exp(sum_t m l / L_i), GSPO (arXiv:2507.18071 eq. 7); TRL 1.16 grpo_trainer.py with
    ``importance_sampling_level="sequence"``. ``product``: exp(sum_t m l), TRL 1.16 rloo_trainer.py.
    """
    log = log_ratio(tokens, ratio) if log is None else log
    if ratio.level == "token":
        return log.exp()
    layout = tokens.layout
    per_row = layout.sum(log)
    if ratio.level != "product":
        per_row = per_row / layout.sum(tokens.mask.to(log.dtype)).clamp(min=1.0)
    return layout.spread(per_row.exp())

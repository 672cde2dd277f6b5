"""The policy ratio, by denominator and level."""

from __future__ import annotations

import torch
from torch import Tensor

from audit.errors import MissingColumn
from audit.objectives.batch import Tokens
from audit.objectives.objective import Ratio


def log_ratio(tokens: Tokens, ratio: Ratio) -> Tensor:
    """log pi_theta - log pi_denominator per token, 0 at masked tokens; shape (N,), nats.

    Raises
    ------
    MissingColumn
        The log-probs that the ratio needs were not logged.
    """
    if ratio.denominator == "theta":
        return torch.zeros(tokens.layout.num_values, dtype=torch.float64, device=tokens.mask.device)
    denominator = tokens.logp_old if ratio.denominator == "old" else tokens.logp_sampler
    if tokens.logp_theta is None:
        raise MissingColumn.needed_for("logp_theta", "the policy ratio")
    if denominator is None:
        raise MissingColumn.needed_for(f"logp_{ratio.denominator}", "the policy ratio")
    return tokens.unmasked(tokens.logp_theta - denominator)


def policy_ratio(tokens: Tokens, ratio: Ratio) -> Tensor:
    """Ratio that each token's surrogate uses; shape (N,), float64, > 0.

    Notes
    -----
    ``sequence``: s_i = exp(sum_t m l / L_i), GSPO (arXiv:2507.18071 eq. 7); TRL 1.16 grpo_trainer.py with
    ``importance_sampling_level="sequence"``. ``product``: exp(sum_t m l), TRL 1.16 rloo_trainer.py.
    """
    log = log_ratio(tokens, ratio)
    if ratio.level == "token":
        return log.exp()
    layout = tokens.layout
    per_row = layout.sum(log)
    if ratio.level == "sequence":
        per_row = per_row / layout.sum(tokens.mask.to(log.dtype)).clamp(min=1.0)
    return layout.spread(per_row.exp())

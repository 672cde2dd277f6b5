"""One row per response: what later questions need of its tokens, from one pass over them."""

from __future__ import annotations

from dataclasses import dataclass, fields

import torch
from torch import Tensor

from audit.facts.tokens import token_batches
from audit.logs import Run
from audit.objectives.batch import Tokens, mean_over_loss_tokens
from audit.objectives.kl import kl_value
from audit.objectives.part import Estimator


@dataclass(frozen=True)
class TokenFacts:
    """Sums over the loss tokens of each response; tensors of shape (R,), float64, NaN where not logged."""

    tokens: Tensor
    """Tokens of the response, masked ones included, int64."""
    logged: Tensor
    """bool; False where the number of tokens is not known."""
    loss_tokens: Tensor
    """Tokens that take loss, int64."""
    log_ratio: Tensor
    """Σ log pi_theta - log pi_old, nats."""
    log_ratio_max: Tensor
    """max |log pi_theta - log pi_old|, nats; 0 for a response without loss tokens."""
    kl_old_ref_k1: Tensor
    kl_old_ref_k2: Tensor
    kl_old_ref_k3: Tensor
    kl_old_ref_abs: Tensor
    """Σ k(old, ref), nats: the KL that is put into the reward."""
    kl_sampler_ref_k1: Tensor
    kl_sampler_ref_k2: Tensor
    kl_sampler_ref_k3: Tensor
    kl_sampler_ref_abs: Tensor
    """Σ k(sampler, ref), nats: the same, where the trainer recomputes no log-probs."""
    kl_theta_ref_k1: Tensor
    kl_theta_ref_k2: Tensor
    kl_theta_ref_k3: Tensor
    """Σ k(theta, ref), nats: the KL that is put into the loss."""
    mismatch: Tensor
    """Σ |log pi_old - log pi_sampler|, nats."""
    token_advantage: Tensor
    """Mean of the logged per-token advantage."""


def token_facts(run: Run, *, max_tokens: int = 1_000_000) -> TokenFacts:
    """Read the tokens of a run once, in row order.

    Raises
    ------
    MissingColumn
        The log has neither token lists nor lengths in tokens.
    """
    parts = [_facts(tokens) for tokens in token_batches(run, max_tokens=max_tokens)]
    names = [field.name for field in fields(TokenFacts)]
    empty = torch.zeros(0, dtype=torch.float64)
    return TokenFacts(**{name: torch.cat([getattr(p, name) for p in parts] or [empty]) for name in names})


def _facts(tokens: Tokens) -> TokenFacts:
    layout = tokens.layout
    absent = torch.full((layout.num_rows,), torch.nan, dtype=torch.float64)

    def total(a: Tensor | None, b: Tensor | None, estimator: Estimator) -> Tensor:
        if a is None or b is None:
            return absent
        return layout.sum(kl_value(tokens.unmasked(a - b), estimator))

    def largest(a: Tensor | None, b: Tensor | None) -> Tensor:
        if a is None or b is None:
            return absent
        peak = torch.zeros(layout.num_rows, dtype=torch.float64)
        return peak.scatter_reduce(0, layout.rows, tokens.unmasked(a - b).abs(), "amax")

    theta, old, ref, sampler = tokens.logp_theta, tokens.logp_old, tokens.logp_ref, tokens.logp_sampler
    return TokenFacts(
        tokens=layout.lengths,
        logged=torch.ones(layout.num_rows, dtype=torch.bool) if tokens.logged is None else tokens.logged,
        loss_tokens=layout.sum(tokens.mask.to(torch.int64)),
        log_ratio=total(theta, old, "k1"),
        log_ratio_max=largest(theta, old),
        kl_old_ref_k1=total(old, ref, "k1"),
        kl_old_ref_k2=total(old, ref, "k2"),
        kl_old_ref_k3=total(old, ref, "k3"),
        kl_old_ref_abs=total(old, ref, "abs"),
        kl_sampler_ref_k1=total(sampler, ref, "k1"),
        kl_sampler_ref_k2=total(sampler, ref, "k2"),
        kl_sampler_ref_k3=total(sampler, ref, "k3"),
        kl_sampler_ref_abs=total(sampler, ref, "abs"),
        kl_theta_ref_k1=total(theta, ref, "k1"),
        kl_theta_ref_k2=total(theta, ref, "k2"),
        kl_theta_ref_k3=total(theta, ref, "k3"),
        mismatch=total(old, sampler, "abs"),
        token_advantage=absent
        if tokens.token_advantage is None
        else mean_over_loss_tokens(tokens, tokens.token_advantage),
    )

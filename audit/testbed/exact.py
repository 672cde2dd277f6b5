"""Exact quantities of a policy: sums over every response, or over every prefix. Nothing is sampled.

A policy is its table of log-probs, shape (..., P, S, V): any number of leading dimensions (seeds, say), then
prompt, prefix, token. Values of responses have shape (..., P, R). See :mod:`audit.testbed` for the formulas.
"""

from __future__ import annotations

import torch
from torch import Tensor

from audit.testbed.language import Language


def reach(language: Language, policy: Tensor) -> tuple[Tensor, Tensor]:
    """Probability of passing through each prefix, (..., P, S), and of each cut-off response, (..., P, C)."""
    chance = policy[..., : language.letters].exp()
    level = torch.ones_like(chance[..., :1, 0])
    levels = []
    for n in range(language.budget):
        levels.append(level)
        step = chance[..., language.first(n) : language.first(n + 1), :]
        level = (level[..., None] * step).flatten(-2)
    return torch.cat(levels, dim=-1), level


def response_probability(language: Language, policy: Tensor) -> Tensor:
    """Probability of every response, shape (..., P, R); sums to 1 over the last dimension."""
    through, cut = reach(language, policy)
    stopped = through * policy[..., language.letters].exp()
    return torch.cat([stopped[..., 1:], cut], dim=-1)


def success(language: Language, policy: Tensor) -> Tensor:
    """Probability of a correct response, shape (..., P)."""
    return (response_probability(language, policy) * language.reward).sum(-1)


def expected_length(language: Language, policy: Tensor) -> Tensor:
    """Expected tokens of a response, shape (..., P)."""
    return response_probability(language, policy) @ language.response_length.to(policy.dtype)


def lengths_by_correctness(language: Language, policy: Tensor) -> tuple[Tensor, Tensor]:
    """Expected tokens of a correct and of a wrong response over all prompts alike; shape (...).

    What the mean over the correct (wrong) responses of many batches with one group per prompt tends to.
    """
    chance = response_probability(language, policy)
    length = language.response_length.to(policy.dtype)
    right, wrong = chance * language.reward, chance * (1.0 - language.reward)
    return (
        (right @ length).sum(-1) / right.sum((-1, -2)),
        (wrong @ length).sum(-1) / wrong.sum((-1, -2)),
    )


def values(
    language: Language,
    policy: Tensor,
    terminal: Tensor,
    *,
    beta: float = 0.0,
    reference: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Expected final value after each token, and before it.

    Parameters
    ----------
    terminal : Tensor, shape (P, R) or (..., P, R)
        Value of every response, such as :attr:`Language.reward`.
    beta : float
        Each token pays beta · (log pi - log reference), nats; ``reference`` is such a table too.

    Returns
    -------
    Q : Tensor, shape (..., P, S, V)
        What the token itself pays included; 0 for the empty response.
    V : Tensor, shape (..., P, S)
    """
    chance = policy.exp()
    paid = torch.zeros_like(policy)
    if beta > 0.0:
        assert reference is not None
        paid = beta * _difference(policy, reference)
    terminal = terminal.expand(*policy.shape[:-2], -1)
    after = terminal[..., language.prefixes - 1 :]
    q_levels, v_levels = [], []
    for n in reversed(range(language.budget)):
        level = slice(language.first(n), language.first(n + 1))
        stopped = terminal[..., level.start - 1 : level.stop - 1] if n else torch.zeros_like(after[..., :1])
        q = torch.cat([after.reshape(*after.shape[:-1], -1, language.letters), stopped[..., None]], dim=-1)
        q = q - paid[..., level, :]
        after = (chance[..., level, :] * q).sum(-1)
        q_levels.append(q)
        v_levels.append(after)
    return torch.cat(q_levels[::-1], dim=-2), torch.cat(v_levels[::-1], dim=-1)


def target(language: Language, beta: float) -> Tensor:
    """Log-probs of pi*, the best policy under E[r] - beta KL(pi || pi_ref); shape (P, S, V)."""
    reference, after = language.reference, language.reward[..., language.prefixes - 1 :]
    levels = []
    for n in reversed(range(language.budget)):
        level = slice(language.first(n), language.first(n + 1))
        stopped = language.reward[..., level.start - 1 : level.stop - 1] if n else after[..., :1] * 0.0
        q = torch.cat([after.reshape(*after.shape[:-1], -1, language.letters), stopped[..., None]], dim=-1)
        tilted = reference[..., level, :] + q / beta
        after = beta * tilted.logsumexp(-1)
        levels.append(tilted - tilted.logsumexp(-1, keepdim=True))
    return torch.cat(levels[::-1], dim=-2)


def kl(language: Language, policy: Tensor, other: Tensor) -> Tensor:
    """KL(policy || other) between distributions of whole responses, nats, shape (..., P)."""
    per_prefix = (policy.exp() * _difference(policy, other)).sum(-1)
    return (reach(language, policy)[0] * per_prefix).sum(-1)


def policy_gradient(
    language: Language,
    policy: Tensor,
    terminal: Tensor,
    *,
    beta: float = 0.0,
    reference: Tensor | None = None,
) -> Tensor:
    """Gradient of E[terminal] - beta KL(pi || reference) of each prompt in its logits; (..., P, S, V).

    The policy gradient theorem (Sutton et al. 2000). That of the mean over prompts is 1 / P of it.
    """
    q, v = values(language, policy, terminal, beta=beta, reference=reference)
    return reach(language, policy)[0][..., None] * policy.exp() * (q - v[..., None])


def natural_direction(language: Language, policy: Tensor, weight: Tensor) -> Tensor:
    """Natural gradient for a weight per response, (..., P, R), as a change of logits: (..., P, S, V).

    The Fisher matrix of the trie is diag(d(s)) times that of each softmax, so the direction is
    E[w | s, a] - E[w | s] (Kakade 2001, "A natural policy gradient").
    """
    q, v = values(language, policy, weight)
    return q - v[..., None]


def length_change(language: Language, policy: Tensor, direction: Tensor) -> Tensor:
    """Derivative of the expected length along a change of logits, (..., P, S, V); shape (..., P)."""
    gradient = policy_gradient(language, policy, language.response_length.to(policy.dtype))
    return (gradient * direction).sum((-1, -2))


def entropy(policy: Tensor) -> Tensor:
    """Entropy of the next token, nats, shape (..., P, S)."""
    return -(policy.exp() * policy.masked_fill(policy == -torch.inf, 0.0)).sum(-1)


def _difference(policy: Tensor, other: Tensor) -> Tensor:
    """log policy - log other, 0 where the policy never goes."""
    return torch.where(policy == -torch.inf, 0.0, policy - other)

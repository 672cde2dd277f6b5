"""Tokens that follow one prefix in several texts: what two models make of the choice between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Choices:
    """Log-prob of a token less that of another one at the same place; shape (P,), float64, nats."""

    a: np.ndarray
    b: np.ndarray
    places: int
    """Prefixes that two or more different tokens follow."""
    tokens: int
    """Such tokens."""


def choices(
    prompts: Sequence[int], ids: Sequence[np.ndarray], logp_a: np.ndarray, logp_b: np.ndarray
) -> Choices:
    """Compare tokens that follow one prompt and one prefix, each with the first of them.

    Parameters
    ----------
    prompts : sequence of int
        Of each text.
    ids : sequence of ndarray
        Token ids of each text.
    logp_a, logp_b : ndarray, shape (N,)
        Log-probs of the tokens of all texts, one after the other, under two models; those that are not finite
        are left out.
    """
    child: dict[tuple[int, int], int] = {}
    seen: list[dict[int, tuple[float, float]]] = []
    first = 0
    for prompt, text in zip(prompts, ids, strict=True):
        # Roots have negative parents: a prompt is told from a place within a text.
        place = _child(child, seen, (-1 - prompt, 0))
        for t, token in enumerate(np.asarray(text, dtype=np.int64).tolist()):
            pair = float(logp_a[first + t]), float(logp_b[first + t])
            if np.isfinite(pair).all():
                seen[place].setdefault(token, pair)
            place = _child(child, seen, (place, token))
        first += len(text)
    forks = [list(tokens.values()) for tokens in seen if len(tokens) > 1]
    gaps = [(x - fork[0][0], y - fork[0][1]) for fork in forks for x, y in fork[1:]]
    made = np.array(gaps, dtype=np.float64).reshape(-1, 2)
    return Choices(made[:, 0], made[:, 1], len(forks), sum(len(fork) for fork in forks))


def _child(
    child: dict[tuple[int, int], int], seen: list[dict[int, tuple[float, float]]], key: tuple[int, int]
) -> int:
    if key not in child:
        child[key] = len(seen)
        seen.append({})
    return child[key]

"""Are the log-probs of one run those of the other at another temperature, or those of another model?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from audit.facts.rows import RunRows
from audit.logs.arrays import to_numpy

LIKELY, CERTAIN = 0.5, 0.999
"""Probabilities between which a token is the likeliest of its place, and its logit is well determined."""
LEAST_TOKENS = 30
"""Such tokens that are needed; heuristic."""
ALL = 0.99
"""Share of them that must be likelier in the colder run; heuristic, for what rounding turns round."""
FLOOR = 1.02
"""Least ratio of logits at the lowest percent of them; heuristic."""
MOST_TEXTS = 300
"""Texts whose tokens are read."""


@dataclass(frozen=True)
class Sharper:
    """One run scores equal texts as the other does at a lower temperature."""

    colder: int
    """0 for A, 1 for B."""
    factor: float
    """Temperature of the other run over that of the colder one, at most."""
    tokens: int
    """Tokens of probability above one half that this is read from."""


def sharper(
    sides: tuple[RunRows, RunRows], at: tuple[Sequence[int], Sequence[int]], columns: tuple[str, str]
) -> Sharper | None:
    """Compare the log-probs of equal texts token by token; None where no temperature explains them.

    Parameters
    ----------
    sides : two RunRows
    at : two sequences of int, each of length N
        Rows of A and of B that hold the same N texts after the same prompts, in one order.
    columns : two str
        Token lists of log-probs, nats: of A and of B.

    Notes
    -----
    With b the factor between the temperatures, a token of probability p > 1/2 in the warmer run has
    q = p^b / (p^b + sum_j p_j^b) in the colder one, j over the other tokens. For b >= 1 that sum is at most
    (1 - p)^b, with equality where one of them has all the rest: logit(q) / logit(p) >= b on every such token,
    and the least of these ratios tells b. For another model they scatter around 1.
    """
    tokens = [_tokens(*side) for side in zip(sides, at, columns, strict=True)]
    same = [k for k in tokens[0] if k in tokens[1] and len(tokens[0][k]) == len(tokens[1][k])]
    if not same:
        return None
    values = [np.concatenate([side[k] for k in same]) for side in tokens]
    for colder in (0, 1):
        cold, warm = values[colder], values[1 - colder]
        told = (warm > np.log(LIKELY)) & (warm < np.log(CERTAIN)) & (cold < 0)
        if int(told.sum()) < LEAST_TOKENS:
            continue
        ratio = _logit(cold[told]) / _logit(warm[told])
        floor = float(np.quantile(ratio, 0.01))
        if (ratio > 1.0).mean() >= ALL and floor >= FLOOR:
            return Sharper(colder, floor, int(told.sum()))
    return None


def _logit(logp: np.ndarray) -> np.ndarray:
    return np.asarray(logp - np.log(-np.expm1(logp)))


def _tokens(rows: RunRows, at: Sequence[int], column: str) -> dict[int, np.ndarray]:
    """Token values of the first rows of ``at``, float64, by their place in ``at``."""
    wanted = {row: place for place, row in enumerate(at[:MOST_TEXTS])}
    last, first, found = max(wanted, default=-1), 0, {}
    for batch in rows.run.batches([column]):
        lists = batch.column(column)
        offsets, values = to_numpy(lists.offsets), to_numpy(lists.values)
        for row in range(first, first + batch.num_rows):
            if row in wanted:
                low, high = offsets[row - first], offsets[row - first + 1]
                found[wanted[row]] = np.asarray(values[low:high], dtype=np.float64)
        first += batch.num_rows
        if first > last:
            break
    return found

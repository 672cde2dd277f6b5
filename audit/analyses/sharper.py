"""Are the log-probs of one run those of the other at another temperature, or those of another model?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from audit.analyses.same_prefix import Choices, choices
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
LEAST_PAIRS, LEAST_PLACES = 8, 4
"""Pairs of tokens, and prefixes that they follow, by which a factor is judged; heuristic."""
UNPAIRED = 0.6
"""Confidence in a temperature that is read from the likely tokens alone; heuristic."""
EXPLAINED = 0.9
"""Share of the squared change between two tokens of one place that one factor must explain; heuristic."""


@dataclass(frozen=True)
class Sharper:
    """One run scores equal texts as the other does at a lower temperature."""

    colder: int
    """0 for A, 1 for B."""
    factor: float
    """Temperature of the other run over that of the colder one, at most."""
    tokens: int
    """Tokens that this is read from: of probability above one half or, with ``pairs``, of shared prefixes."""
    pairs: int = 0
    """Pairs of tokens that follow one prefix and keep this one factor; 0: too few to ask."""

    @property
    def told(self) -> str:
        """What it is read from, in words."""
        if self.pairs:
            return f"one factor scales the gaps of {self.pairs:,} pairs of tokens that follow one prefix"
        colder = "AB"[self.colder]
        return f"all likely tokens ({self.tokens:,} of probability above 1/2) are likelier in {colder}"

    def sure(self, confidence: float) -> float:
        """The confidence, or a low one where another model, sharper throughout, is not ruled out."""
        return confidence if self.pairs else min(confidence, UNPAIRED)


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
    Two tokens i, j that follow one prefix have log q_i - log q_j = b (log p_i - log p_j), with one b at every
    prefix, the factor between the temperatures; another model has another b at each. Where texts share too
    few prefixes the likely tokens are asked, which tells less: a token of probability p > 1/2 in the warmer
    run has q = p^b / (p^b + sum_j p_j^b) in the colder one, j over the other tokens. For b >= 1 that sum is
    at most (1 - p)^b, with equality where one of them has all the rest: logit(q) / logit(p) >= b on every
    such token, and the least of these ratios tells b. For another model they scatter around 1.
    """
    tokens = [_tokens(*side) for side in zip(sides, at, columns, strict=True)]
    same = [k for k in tokens[0] if k in tokens[1] and len(tokens[0][k]) == len(tokens[1][k])]
    if not same:
        return None
    values = [np.concatenate([side[k] for k in same]) for side in tokens]
    if "token_ids" in sides[0].run.columns:
        ids = _tokens(sides[0], at[0], "token_ids")
        if all(len(ids[k]) == len(tokens[0][k]) for k in same):
            prompts = [int(sides[0].prompt[at[0][k]]) for k in same]
            found = choices(prompts, [ids[k] for k in same], values[0], values[1])
            if len(found.a) >= LEAST_PAIRS and found.places >= LEAST_PLACES:
                return _one_factor(found)
    return _likelier(values)


def _one_factor(found: Choices) -> Sharper | None:
    """Whether the gaps between tokens of one place are those of the other run times one factor."""
    size = float(np.sqrt(found.a @ found.a)), float(np.sqrt(found.b @ found.b))
    if min(size) <= 0 or found.a @ found.b <= 0:
        return None
    factor = size[1] / size[0]
    change, left = found.b - found.a, found.b - factor * found.a
    # Over the factor, so that exchanging the runs changes nothing.
    if max(factor, 1 / factor) < FLOOR or left @ left / factor > (1 - EXPLAINED) * (change @ change):
        return None
    return Sharper(int(factor > 1), max(factor, 1 / factor), found.tokens, len(found.a))


def _likelier(values: list[np.ndarray]) -> Sharper | None:
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

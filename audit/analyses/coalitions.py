"""Exact Shapley values over the parts in which two objectives differ.

The weight vectors of all 2^k hybrids (some parts from A, the rest from B) are formed on the same tokens;
their inner products with A's own weights are summed per prompt, and all else is a function of those sums.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np

from audit.errors import BadObjective
from audit.facts.rows import RunRows
from audit.facts.weight_sums import inner_products
from audit.objectives.objective import Objective, from_dict
from audit.stats import cluster_sums


@dataclass(frozen=True)
class Coalitions:
    """Sums per prompt over the tokens of one run, for every hybrid of two objectives.

    Columns are indexed by the bit mask of parts taken from B: 0 is A itself, 2^k - 1 is B.
    """

    parts: tuple[str, ...]
    dots: np.ndarray
    """Σ w_S · w_A per prompt, shape (P, 2^k)."""
    squares: np.ndarray
    """Σ w_S² per prompt, shape (P, 2^k)."""
    responses: int
    tokens: int
    left_out: int
    """Responses whose weights are not finite under some hybrid, and that count nowhere."""

    @property
    def sums(self) -> np.ndarray:
        """Shape (P, 2 · 2^k): dots, then squares."""
        return np.hstack([self.dots, self.squares])


TIE = "+"
"""Joins the names of parts that are swapped together."""


def hybrids(a: Objective, b: Objective, parts: tuple[str, ...]) -> list[Objective]:
    """All 2^k objectives between A and B; entry ``mask`` takes the parts whose bits are set from B."""
    taken = [_names(parts, mask) for mask in range(2 ** len(parts))]
    return [a.replace(**{name: getattr(b, name) for name in names}) for names in taken]


def tied_parts(a: Objective, b: Objective, parts: tuple[str, ...]) -> tuple[str, ...]:
    """Join parts that only make sense together, as ``baseline+scale``.

    Logged advantages with a std to divide them by are no objective: a hybrid that takes one of the two from
    each side would get weights that mean nothing, and a share of them.
    """
    for one, other in itertools.combinations(parts, 2):
        mixed = hybrids(a, b, (one, other))[1:3]
        if any(contradictory(objective) for objective in mixed):
            rest = tuple(part for part in parts if part not in (one, other))
            merged = (f"{one}{TIE}{other}", *rest)
            return tied_parts(a, b, merged)
    return parts


def contradictory(objective: Objective) -> bool:
    """Whether the fields of an objective contradict each other."""
    try:
        from_dict(objective.to_dict())
    except BadObjective:
        return True
    return False


def _names(parts: tuple[str, ...], mask: int) -> list[str]:
    return [name for bit, part in enumerate(parts) if mask >> bit & 1 for name in part.split(TIE)]


def coalition_sums(rows: RunRows, a: Objective, b: Objective, parts: tuple[str, ...]) -> Coalitions:
    """Sum the products of the weights of every hybrid with A's and with themselves, per prompt."""
    objectives = hybrids(a, b, parts)
    pairs = [(objectives[0], objective) for objective in objectives]
    products = inner_products(rows, [*pairs, *((objective, objective) for objective in objectives)])
    finite = np.asarray(np.isfinite(products).all(axis=1))
    sums = cluster_sums(np.where(finite[:, None], products, 0.0), rows.prompt)
    left_out = int((~finite).sum())
    return Coalitions(
        parts=parts,
        dots=sums[:, : len(objectives)],
        squares=sums[:, len(objectives) :],
        responses=rows.num_rows - left_out,
        tokens=0 if rows.facts is None else int(rows.facts["loss_tokens"].sum()),
        left_out=left_out,
    )


@np.errstate(over="ignore", invalid="ignore")
def distances(sums: np.ndarray, count: int) -> np.ndarray:
    """1 - cosine between A's weights and each hybrid's: (..., 2^k) from totals of shape (..., 2 · 2^k)."""
    dots, squares = sums[..., :count], sums[..., count:]
    with np.errstate(divide="ignore", invalid="ignore"):
        cosine = dots / np.sqrt(squares * squares[..., :1])
    return np.asarray(1.0 - np.clip(cosine, -1.0, 1.0))


def log_scales(sums: np.ndarray, count: int) -> np.ndarray:
    """log of each hybrid's weight norm over A's, shape (..., 2^k)."""
    squares = sums[..., count:]
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(0.5 * np.log(squares / squares[..., :1]))


def shapley_matrix(k: int) -> np.ndarray:
    """Matrix M, shape (k, 2^k), with M @ v the exact Shapley values of a game v over bit masks.

    phi_i = Σ_S |S|! (k - |S| - 1)! / k! · (v(S ∪ i) - v(S)); the phi sum to v(all) - v(none).
    Shapley 1953, "A value for n-person games".
    """
    matrix = np.zeros((k, 2**k))
    for i in range(k):
        others = [j for j in range(k) if j != i]
        for size in range(k):
            share = math.factorial(size) * math.factorial(k - size - 1) / math.factorial(k)
            for chosen in itertools.combinations(others, size):
                mask = sum(1 << j for j in chosen)
                matrix[i, mask | 1 << i] += share
                matrix[i, mask] -= share
    return matrix

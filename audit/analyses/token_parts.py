"""Parts that tokens are counted in: powers of two by place, tenths of the response, spans of probability."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np

from audit.facts.rows import RunRows
from audit.facts.tokenpass.breakdowns import Dimension

Edges = Sequence[float | None]
"""B + 1 bounds of B parts, rising; None: without a bound."""

PROBABILITIES = (0.001, 0.01, 0.1, 0.5, 0.9, 0.99)
"""Where the parts by probability meet; heuristic."""


def edges_of(rows: RunRows, by: Dimension) -> Edges:
    """Bounds of the parts: powers of two, tenths, or probabilities."""
    if by == "tenth":
        return [float(at) for at in range(11)]
    if by == "logp":
        return [None, *(math.log(p) for p in PROBABILITIES), None]
    longest = max(float(np.nan_to_num(rows.length).max(initial=0.0)), 1.0)
    return [0.0, *(2.0**at for at in range(math.ceil(math.log2(longest)))), None]


def part_names(rows: RunRows, by: Dimension) -> list[str]:
    """Names of the parts, in the order of :func:`edges_of`."""
    if by == "tenth":
        return [f"{10 * at}–{10 * at + 10} %" for at in range(10)]
    if by == "logp":
        between = [f"{a:g} ≤ p < {b:g}" for a, b in itertools.pairwise(PROBABILITIES)]
        return [f"p < {PROBABILITIES[0]:g}", *between, f"p ≥ {PROBABILITIES[-1]:g}"]
    edges = [int(edge) for edge in edges_of(rows, by) if edge is not None]
    ends = [*(edge - 1 for edge in edges[1:]), None]
    return [
        f"from {a}" if b is None else (f"{a}" if a == b else f"{a}–{b}")
        for a, b in zip(edges, ends, strict=True)
    ]

"""How many responses make one optimiser step, in each run?"""

from __future__ import annotations

import numpy as np

from audit.analyses.findings import Looked, finding
from audit.analyses.pair import Pair
from audit.errors import AuditError
from audit.facts.rows import RunRows

FACTOR = 1.25
"""Between two batch sizes that are called different; heuristic."""


def batch_causes(pair: Pair) -> Looked:
    """Compare the usual number of responses an update; logs whose updates vary are not compared."""
    found = Looked()
    sizes = [_usual(rows) for rows in pair.sides]
    a, b = sizes
    if a is None or b is None or max(a, b) < FACTOR * min(a, b):
        return found
    summary = (
        f"{a} responses make an update in A, {b} in B: another batch size, or a log that holds only part of "
        "the batch."
    )
    evidence = {"kind": "responses an update", "a": a, "b": b, "difference": b - a}
    found.causes.append(finding("optimiser", 0.75, summary, evidence))
    return found


def _usual(rows: RunRows) -> int | None:
    """Rows of most updates; None where they vary."""
    try:
        counts = np.bincount(rows.update[~rows.greedy])
    except AuditError:
        return None
    counts = counts[counts > 0]
    if not len(counts):
        return None
    usual = int(np.bincount(counts).argmax())
    return usual if (counts == usual).mean() > 0.5 else None

"""Do two logs record alike? Steps that are missing, rows that are, batches written twice."""

from __future__ import annotations

import numpy as np

from audit.analyses.evidence_rows import evidence_rows
from audit.analyses.findings import Looked, Unseen, finding
from audit.analyses.group_shapes import GroupShapes
from audit.analyses.outcomes import first_pass
from audit.analyses.pair import Pair
from audit.analyses.row_copies import NEEDS
from audit.facts.rows import RunRows

LEAST = 0.05
"""Difference in the share of steps or groups concerned that is a cause; heuristic."""
LEAST_COPIES = 0.01
"""Difference in the share of rows that are exact copies; heuristic. A copy is no matter of chance."""
LEAST_ROWS = 3
"""Steps or groups that must be concerned; heuristic."""
DISAGREES = 0.05
"""Difference in the share of rows whose reward contradicts ``correct``; heuristic."""


def logging_causes(pair: Pair, shapes: tuple[GroupShapes | None, ...]) -> Looked:
    """Compare coverage: missing steps, short steps, copied groups, columns that contradict each other."""
    found = Looked()
    coverage = [_coverage(rows) for rows in pair.sides]
    for at, (kind, words) in enumerate(
        (("missing", "of the steps are missing"), ("short", "of the steps hold fewer rows than usual"))
    ):
        shares, counts = [c[at] / max(c[2], 1) for c in coverage], [c[at] for c in coverage]
        _tell(found, kind, words, shares=shares, counts=counts, totals=[c[2] for c in coverage])
    if shapes[0] is not None and shapes[1] is not None and None not in (shapes[0].copies, shapes[1].copies):
        totals = [len(np.unique(rows.sample[first_pass(rows)])) for rows in pair.sides]
        counts = [int(s.copies or 0) for s in shapes if s is not None]
        shares = [c / max(n, 1) for c, n in zip(counts, totals, strict=True)]
        words = "of the groups repeat an earlier group, texts and rewards in order"
        _tell(found, "copies", words, shares=shares, counts=counts, totals=totals)
    _copied_rows(pair, found)
    _contradictions(pair, found)
    return found


def _tell(
    found: Looked, kind: str, words: str, *, shares: list[float], counts: list[int], totals: list[int]
) -> None:
    if min(shares) >= LEAST:
        found.notes.append(f"In both logs some {words} ({shares[0]:.0%} and {shares[1]:.0%}).")
    if abs(shares[1] - shares[0]) < LEAST or max(counts) < LEAST_ROWS:
        return
    summary = f"{shares[0]:.0%} {words} in A, {shares[1]:.0%} in B ({counts[0]:,} and {counts[1]:,})."
    evidence = {
        "kind": kind,
        "a": shares[0],
        "b": shares[1],
        "difference": shares[1] - shares[0],
        "n": totals,
    }
    found.causes.append(finding("logging", 0.8, summary, evidence))


def _copied_rows(pair: Pair, found: Looked) -> None:
    """Rows that repeat another in everything: written twice, or the padding of a batch."""
    copies = pair.copies
    if copies[0] is None or copies[1] is None:
        found.unseen.append(Unseen("logging", f"{pair.lacking(*NEEDS)}, to tell rows written twice"))
        return
    counts = [int(side.sum()) for side in copies if side is not None]
    totals = [rows.num_rows for rows in pair.sides]
    shares = [count / max(total, 1) for count, total in zip(counts, totals, strict=True)]
    if min(shares) >= LEAST_COPIES:
        found.notes.append(f"In both logs some rows are there twice ({shares[0]:.1%} and {shares[1]:.1%}).")
    if abs(shares[1] - shares[0]) < LEAST_COPIES or max(counts) < LEAST_ROWS:
        return
    summary = (
        f"{counts[0]:,} of {totals[0]:,} rows in A and {counts[1]:,} of {totals[1]:,} in B repeat a row of "
        "their group in step, sample_index, text, reward and log-probs: written twice, or padding of the "
        "batch. The data, tokens and groups of both runs are compared without them."
    )
    side = int(shares[1] > shares[0])
    marked = copies[side]
    assert marked is not None
    evidence = {"kind": "row copies", "a": shares[0], "b": shares[1], "difference": shares[1] - shares[0]}
    evidence |= {"n": totals, "rows": evidence_rows(pair.sides[side], marked.astype(float), marked)}
    found.causes.append(finding("logging", 0.9, summary, evidence))


def _coverage(rows: RunRows) -> tuple[int, int, int]:
    """Steps that are missing on the log's own grid, steps with fewer rows than most, and steps in all."""
    if not rows.num_rows:
        return 0, 0, 0
    steps, counts = np.unique(rows.step, return_counts=True)
    gaps = np.diff(steps)
    # The usual distance, not the largest common divisor: one odd step would make that 1.
    usual_gaps, times = np.unique(gaps, return_counts=True)
    grid = int(usual_gaps[times.argmax()]) if len(gaps) else 1
    span = round((int(steps[-1]) - int(steps[0])) / grid) + 1
    usual = int(np.bincount(counts).argmax())
    short = int((counts < usual).sum()) if (counts == usual).mean() > 0.5 else 0
    return max(span - len(steps), 0), short, span


def _contradictions(pair: Pair, found: Looked) -> None:
    """Rows whose two-valued reward says another thing than ``correct``: columns were permuted."""
    if pair.lacking("correct"):
        return
    sides = []
    for rows, use in zip(pair.sides, pair.trained, strict=True):
        reward, correct = rows.numpy("reward"), rows.numpy("correct")
        known = use & np.isfinite(reward) & np.isfinite(correct)
        values = np.unique(reward[known])
        if len(values) != 2:
            found.unseen.append(Unseen("logging (permuted columns)", "a reward of two values in both runs"))
            return
        sides.append(((reward == values[1]) != (correct == 1.0)).astype(float) * np.where(known, 1.0, np.nan))
    ones = [np.ones_like(side) for side in sides]
    effect = pair.share(
        "correct contradicts reward", ((sides[0], ones[0]), (sides[1], ones[1])), pair.trained
    )
    if effect is None or abs(effect.difference or 0.0) < DISAGREES:
        return
    summary = (
        f"correct contradicts the reward in {effect.a or 0:.0%} of A's rows and {effect.b or 0:.0%} of B's: "
        "a column was permuted, or the reward is not correctness."
    )
    found.measured.append(effect)
    evidence = {"a": effect.a, "b": effect.b, "difference": effect.difference, "n": effect.n}
    found.causes.append(finding("logging", 0.7, summary, evidence))

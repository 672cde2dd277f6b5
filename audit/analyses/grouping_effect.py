"""Are the groups of one run what a group should be, and those of the other not?"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from audit.analyses.findings import Looked, Unseen, finding
from audit.analyses.group_shapes import GroupShapes, group_shapes
from audit.analyses.infer import Inference
from audit.analyses.outcomes import first_pass
from audit.analyses.pair import Pair
from audit.analyses.regrouped import regrouped
from audit.analyses.samples import samples_of
from audit.analyses.skips import Skips
from audit.facts.rows import RunRows, dense

LEAST = 0.05
"""Difference in the share of irregular groups that is a cause; heuristic."""
SURE = 1e-3
"""p-value of Fisher's exact test that it must have."""

_KINDS = {
    "smaller": "smaller than their size",
    "larger": "larger than their size",
    "singletons": "of one response",
    "mixed_prompts": "of several prompts",
    "several_steps": "spread over several steps",
    "repeated_samples": "with a repeated sample_index",
}


def grouping_causes(
    pair: Pair, inferred: Sequence[Inference] = ()
) -> tuple[Looked, tuple[GroupShapes | None, ...]]:
    """Compare irregular groups; also returns the shapes of each run's groups.

    Parameters
    ----------
    inferred : two Inference, or none
        What the advantages of A and of B say; they show groups that were formed otherwise than logged.
    """
    found = Looked()
    lacking = pair.lacking("group_id")
    if lacking:
        found.unseen.append(Unseen("data.grouping", lacking))
        return found, (None, None)
    shapes = [
        group_shapes(rows, samples_of(rows, once), Skips(rows), once)
        for rows, once in zip(pair.sides, pair.once, strict=True)
    ]
    totals = [_groups(rows) for rows in pair.sides]
    if not all(totals):
        found.unseen.append(Unseen("data.grouping", "a group in both runs"))
        return found, (shapes[0], shapes[1])
    alone = [s.singletons == n for s, n in zip(shapes, totals, strict=True)]
    if alone[0] != alone[1]:
        _keyed_by_response(pair, totals, alone.index(True), found)
        return found, (shapes[0], shapes[1])
    if inferred:
        found.add(regrouped(inferred[0], inferred[1]))
    for kind, words in _KINDS.items():
        counts = [getattr(s, kind) for s in shapes]
        if None not in counts:
            _one_kind(kind, words, counts, totals, found)
    return found, (shapes[0], shapes[1])


def _one_kind(kind: str, words: str, counts: list[int], totals: list[int], found: Looked) -> None:
    shares = [min(c / n, 1.0) for c, n in zip(counts, totals, strict=True)]
    if min(shares) >= LEAST:
        found.notes.append(f"Both runs have groups {words} ({shares[0]:.0%} and {shares[1]:.0%}).")
    if abs(shares[1] - shares[0]) < LEAST or _fisher(counts, totals) >= SURE:
        return
    summary = f"{counts[0]} of {totals[0]} groups in A and {counts[1]} of {totals[1]} in B are {words}."
    summary = summary.replace("are with", "come with")
    evidence = {
        "kind": kind,
        "a": shares[0],
        "b": shares[1],
        "difference": shares[1] - shares[0],
        "n": totals,
    }
    found.causes.append(finding("data.grouping", 0.85, summary, evidence))


def _keyed_by_response(pair: Pair, totals: list[int], side: int, found: Looked) -> None:
    """Every group has one response: the group key is new for every response."""
    rows = pair.sides[side]
    use = first_pass(rows)
    regrouped = np.bincount(dense(rows.prompt[use], rows.step[use]))
    size = int(np.bincount(regrouped).argmax())
    summary = f"{totals[side]} of {totals[side]} groups of {'AB'[side]} have one response"
    summary += (
        f"; grouping by prompt_id gives {len(regrouped)} groups of {size}: the group key is the likely fault."
        if size > 1
        else ": no baseline can be formed in them."
    )
    shares = [float(side == 0), float(side == 1)]
    evidence = {"kind": "singletons", "a": shares[0], "b": shares[1], "difference": shares[1] - shares[0]}
    evidence |= {"n": totals, "regrouped": [len(regrouped), size]}
    found.causes.append(finding("data.grouping", 0.95, summary, evidence))


def _groups(rows: RunRows) -> int:
    return len(np.unique(rows.sample[first_pass(rows) & rows.grouped]))


def _fisher(counts: list[int], totals: list[int]) -> float:
    from scipy.stats import fisher_exact

    held = [min(c, n) for c, n in zip(counts, totals, strict=True)]
    table = [[c, n - c] for c, n in zip(held, totals, strict=True)]
    return float(fisher_exact(table).pvalue)

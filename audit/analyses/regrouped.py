"""Were the advantages of one run formed over other rows than its groups, and those of the other not?"""

from __future__ import annotations

from audit.analyses.findings import Cause, Looked, finding
from audit.analyses.infer import Inference
from audit.analyses.infer_blocks import Centring
from audit.analyses.infer_candidate import GROUPED_BY_ID

CENTRED, SCATTERED = 0.95, 0.5
"""Share of the sets of rows over which advantages sum to 0 that are nearly all, and too few; heuristic."""
LEAST_SETS = 5
FITS, CENTRED_ONLY = 0.9, 0.7
"""Confidence where other groups reproduce the advantages, and where they only sum to 0 over batches alone."""


def regrouped(a: Inference, b: Inference) -> Looked:
    """Name ``data.grouping`` where the advantages of one run alone were formed over other sets of rows.

    Two kinds of evidence. Another grouping reproduces the advantages, and group_id does not. Or nothing does,
    but they sum to 0 over every batch and not over the groups, and equal rewards of a batch have several
    advantages: then neither the group nor the batch is the set that was centred.
    """
    found = Looked()
    names = [_grouping(side) for side in (a, b)]
    in_a, in_b = names
    if in_a is not None and in_b is not None:
        if in_a == in_b != GROUPED_BY_ID:
            found.notes.append(f"The advantages of both runs fit groups by {in_a}, not by group_id.")
        elif in_a != in_b:
            at = 1 if in_a == GROUPED_BY_ID else 0
            found.causes.append(_other_groups((a, b), at, names[at] or ""))
    else:
        scattered = [_scattered(side) for side in (a, b)]
        for at in (0, 1):
            other = (a, b)[1 - at].centring
            if scattered[at] and other is not None and other.group_share >= CENTRED:
                found.causes.append(_scattered_only((a, b), at))
    return found


def _grouping(side: Inference) -> str | None:
    """The rows that the advantages were formed over; None where no candidate says."""
    return side.best.grouping if side.best is not None and side.status == "fits" else None


def _scattered(side: Inference) -> bool:
    seen = side.centring
    return (
        seen is not None
        and side.status == "none_fits"
        and min(seen.groups, seen.batches) >= LEAST_SETS
        and seen.group_share <= SCATTERED
        and seen.batch_share >= CENTRED
        and seen.several >= SCATTERED
    )


def _other_groups(sides: tuple[Inference, Inference], at: int, name: str) -> Cause:
    best = sides[at].best
    assert best is not None
    summary = f"The advantages of {'AB'[at]} were formed over {name}, not over group_id: they are those of "
    summary += f"{best.describe()} (misfit {best.residual:.2g}). {_sums(sides, at)}"
    return finding("data.grouping", FITS, summary, _evidence(sides, name))


def _scattered_only(sides: tuple[Inference, Inference], at: int) -> Cause:
    summary = f"The advantages of {'AB'[at]} were not formed over its groups. {_sums(sides, at)} "
    summary += "They do over every batch: the rows were put into other groups between reward and advantage."
    return finding("data.grouping", CENTRED_ONLY, summary, _evidence(sides, "other sets of a batch"))


def _sums(sides: tuple[Inference, Inference], at: int) -> str:
    here, there = sides[at].centring, sides[1 - at].centring
    if here is None or there is None:
        return ""
    return (
        f"In {1 - here.group_share:.0%} of the {here.groups} groups of {'AB'[at]} with an advantage they do "
        f"not sum to 0; in {'AB'[1 - at]}, in {1 - there.group_share:.0%} of {there.groups}."
    )


def _evidence(sides: tuple[Inference, Inference], name: str) -> dict[str, object]:
    seen: list[Centring | None] = [side.centring for side in sides]
    shares = [None if c is None else 1 - c.group_share for c in seen]
    gap = shares[1] - shares[0] if shares[0] is not None and shares[1] is not None else None
    return {
        "kind": "advantages",
        "grouping": name,
        "a": shares[0],
        "b": shares[1],
        "difference": gap,
        "n": [0 if c is None else c.groups for c in seen],
        "batches_centred": [None if c is None else c.batch_share for c in seen],
    }

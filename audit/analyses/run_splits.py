"""Which fields and causes split a set of runs: what is one on each side, and not the same on both."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from audit.analyses.effect import ObjectiveEffect
from audit.analyses.run_clusters import Fork
from audit.analyses.run_fields import NOT_IDENTIFIABLE, UNSAID, shown
from audit.stats import Estimate


class SplitField(msgspec.Struct, frozen=True):
    """A field that is constant on each side of a split and differs between them."""

    field: str
    left: str
    right: str
    part: str
    """Part of the objective that it belongs to, joined as in ``baseline+scale``; empty for what is none."""
    share: Estimate | None
    """Shapley share of that part in the distance between the sides' medoids; None for what is no part."""


class Split(msgspec.Struct, frozen=True):
    """Two sides of the tree of runs, and what tells them apart."""

    height: float
    left: list[str]
    right: list[str]
    medoids: list[str]
    """The run of each side whose objectives were compared."""
    fields: list[SplitField]
    """By share of the distance, then by name; a field that does not separate the sides is not among them."""
    causes: list[str]
    """Causes outside of the objective that every explained pair across names, and none on one side."""


class PairCause(msgspec.Struct, frozen=True):
    """What the explanation of one pair came to."""

    a: str
    b: str
    causes: list[str]
    """Cause ids, ranked; empty: nothing beyond seed noise."""
    share: float | None
    confidence: float | None
    """Of the first cause."""
    text: str
    not_identifiable: list[str] = []
    """Cause ids that these two logs cannot show."""


Measure = Callable[[str, str], ObjectiveEffect | None]


def splits_of(
    forks: Sequence[Fork],
    fields: Mapping[str, Mapping[str, Any]],
    medoid: Callable[[Sequence[str]], str],
    measure: Measure,
    pairs: Sequence[PairCause],
) -> list[Split]:
    """Describe every fork.

    Parameters
    ----------
    forks
        From :func:`audit.analyses.run_clusters.clusters_of`.
    fields
        Run → its fields, dotted; those of the objective begin with ``objective.``.
    medoid
        The run that stands for several.
    measure
        The effect of the objectives of two runs on the pooled rollouts; None where they are the same, or
        cannot be compared.
    pairs
        Pairs that were explained one by one.
    """
    made = []
    for fork in forks:
        ends = [medoid(fork.left), medoid(fork.right)]
        effect = measure(*ends)
        shares = {} if effect is None else {part.part: part.share for part in effect.parts}
        found = [_field(field, left, right, shares) for field, left, right in separating(fork, fields)]
        found.sort(key=lambda one: (-_size(one.share), one.field))
        made.append(Split(fork.height, fork.left, fork.right, ends, found, _causes(fork, pairs)))
    return made


def separating(fork: Fork, fields: Mapping[str, Mapping[str, Any]]) -> list[tuple[str, Any, Any]]:
    """(field, value on the left, value on the right) of every field that separates the sides."""
    names = sorted({name for run in (*fork.left, *fork.right) for name in fields[run]})
    found = []
    for name in names:
        left, right = ([fields[run].get(name, UNSAID) for run in side] for side in (fork.left, fork.right))
        constant = all(value == side[0] for side in (left, right) for value in side)
        if UNSAID in (left[0], right[0]) and not name.startswith("objective."):
            # A setting that one side does not give is not known to differ.
            continue
        if NOT_IDENTIFIABLE in (left[0], right[0]):
            continue
        if constant and left[0] != right[0]:
            found.append((name, left[0], right[0]))
    return found


def _field(field: str, left: Any, right: Any, shares: Mapping[str, Estimate]) -> SplitField:
    root, _, rest = field.partition(".")
    part = rest.partition(".")[0] if root == "objective" else ""
    joined = next((name for name in shares if part and part in name.split("+")), part)
    return SplitField(field, shown(left), shown(right), joined, shares.get(joined) if part else None)


def _size(share: Estimate | None) -> float:
    return -1.0 if share is None or share.value is None else abs(share.value)


def _causes(fork: Fork, pairs: Sequence[PairCause]) -> list[str]:
    left, right = set(fork.left), set(fork.right)
    across = [p for p in pairs if (p.a in left and p.b in right) or (p.a in right and p.b in left)]
    within = {cause for p in pairs for side in (left, right) if {p.a, p.b} <= side for cause in p.causes}
    if not across:
        return []
    named = set.intersection(*(set(p.causes) for p in across)) - within
    return [c for c in across[0].causes if c in named and not c.startswith("objective.")]

"""What is known of the objectives of several runs: parts declared, parts shown by a loss, and the rest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from audit.analyses.findings import Unseen
from audit.analyses.known_parts import (
    NEEDS,
    OR_DECLARED,
    KnownPart,
    Side,
    is_open,
    known_part,
    several,
    with_part,
)
from audit.analyses.loss_agreement import fits_part
from audit.analyses.loss_fit import SHOWN_BY_LOSS
from audit.objectives.objective import Objective

Unknown = frozenset[str]
"""Parts of an objective that a run neither declares nor shows."""


def with_known_parts(
    objectives: Sequence[Objective | None], sides: Sequence[Side]
) -> tuple[list[Objective | None], list[Unknown]]:
    """Put in what the logged losses show; of several fits that one which makes the most runs alike.

    Parameters
    ----------
    objectives, sides : sequences of length N
        An objective is None where neither run.json nor the log gives it.

    Returns
    -------
    objectives : list of Objective or None
        Of an unknown part each holds the default, which means nothing: it is the same in all of them.
    unknown : list of frozenset of str
    """
    made = list(objectives)
    unknown: list[set[str]] = [set() for _ in sides]
    for part in SHOWN_BY_LOSS:
        known = [None if several(side, part) else known_part(side, part) for side in sides]
        declared = [one.declared for one in known if one is not None and not one.options]
        for at, (one, objective) in enumerate(zip(known, made, strict=True)):
            if one is None:
                unknown[at].add(part)
            elif objective is not None:
                value = max(_own(one, part, declared), key=lambda v: sum(_fits(k, part, v) for k in known))
                made[at] = with_part(objective, part, value)
    return made, [frozenset(parts) for parts in unknown]


def filled(a: Objective, b: Objective, unknown: tuple[Unknown, Unknown]) -> tuple[Objective, Objective]:
    """Take what is unknown of one run from the other, so that it is not told as a difference."""
    of_a, of_b = unknown
    one, other = a, b
    for part in of_a - of_b:
        one = with_part(one, part, getattr(b, part))
    for part in of_b - of_a:
        other = with_part(other, part, getattr(a, part))
    return one, other


def open_parts(sides: Sequence[Side], unknown: Sequence[Unknown]) -> list[Unknown]:
    """Unknown parts of each run without those that do nothing in its own log."""
    return [
        frozenset(part for part in parts if is_open(side, part) or several(side, part))
        for side, parts in zip(sides, unknown, strict=True)
    ]


def unseen_of_runs(labels: Sequence[str], sides: Sequence[Side], unknown: Sequence[Unknown]) -> list[Unseen]:
    """Parts that some runs neither declare nor show, with these runs and what would show them."""
    found = []
    for part, needs in NEEDS.items():
        choices = {label: several(side, part) for label, side in zip(labels, sides, strict=True)}
        lacking = [
            label
            for label, parts in zip(labels, unknown, strict=True)
            if part in parts and not choices[label]
        ]
        if lacking:
            found.append(Unseen(f"objective.{part}", f"{needs}, {OR_DECLARED}, of {listed(lacking)}"))
        if told := [words for words in choices.values() if words]:
            more = "more steps, or more digits, of the scalars in metrics/"
            found.append(Unseen(f"objective.{part}", f"{more}: {'; '.join(told)}"))
    return found


def unknown_in_words(unknown: Mapping[str, Unknown]) -> str:
    """Say which parts of which runs are unknown; empty where none is."""
    by_parts: dict[Unknown, list[str]] = {}
    for run, parts in unknown.items():
        by_parts.setdefault(parts, []).append(run)
    return "; ".join(
        f"{', '.join(in_order(parts))} of the objective of {listed(runs)}"
        for parts, runs in by_parts.items()
        if parts
    )


def in_order(parts: Unknown) -> list[str]:
    """The parts in the order in which a token meets them."""
    return [part for part in SHOWN_BY_LOSS if part in parts]


_NAMED = 4


def listed(runs: Sequence[str]) -> str:
    """``a, b and c``; of many the first, and how many follow."""
    if len(runs) > _NAMED:
        return f"{', '.join(runs[: _NAMED - 1])} and {len(runs) - _NAMED + 1} more"
    return " and ".join([", ".join(runs[:-1]), runs[-1]] if len(runs) > 1 else runs)


def _own(one: KnownPart, part: str, declared: Sequence[Any]) -> list[Any]:
    """Values that a run may have: its declared one, or those that its loss fits, as others declare them."""
    if not one.options:
        return [one.declared]
    fitted = [value for value in declared if any(fits_part(fit, value) for fit in one.options)]
    return fitted + [fit.part(part) for fit in one.options]


def _fits(one: KnownPart | None, part: str, value: Any) -> bool:
    if one is None:
        return False
    if not one.options:
        return bool(one.declared == value)
    return any(fit.part(part) == value or fits_part(fit, value) for fit in one.options)

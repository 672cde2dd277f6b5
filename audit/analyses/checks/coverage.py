"""What the log lost on the way: ranks without a file, columns and components that stop or start."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from audit.analyses.checks.look import Entry, Look, listed, problem
from audit.logs.arrays import valid
from audit.logs.run import SCALARS
from audit.schema import BY_NAME, Problem

_RANK = re.compile(r"(?:rank|worker|shard|gpu|proc(?:ess)?|dp)[-_.=]?(\d+)", re.IGNORECASE)
_LARGE = frozenset({"prompt", "response", "extra", "reward_components"})


def _find(look: Look) -> Iterator[Problem]:
    yield from _ranks(look)
    yield from _columns(look)


def _ranks(look: Look) -> Iterator[Problem]:
    """Steps that hold rows of fewer ranks than the log has."""
    parts = look.run.parts
    named = [_RANK.search(part.name.replace("\\", "/")) for part in parts]
    if len(parts) < 2 or any(found is None for found in named):
        return
    of_part = np.array([int(found[1]) for found in named if found is not None])
    rank = np.repeat(of_part, [part.num_rows for part in parts])
    ranks = np.unique(of_part)
    if len(ranks) < 2 or len(rank) != look.rows.num_rows:
        return
    pairs = np.unique(np.column_stack([look.rows.step, rank]), axis=0)
    steps, present = np.unique(pairs[:, 0], return_counts=True)
    often = np.bincount(present)
    usual = int(np.flatnonzero(often == often.max())[-1])
    short = steps[present < usual]
    if not len(short):
        return
    first = int(short[0])
    here = set(pairs[pairs[:, 0] == first, 1].tolist())
    lacking = [int(r) for r in ranks if r not in here]
    count = int(present[steps == first][0])
    more = f"; so are {len(short) - 1} other steps" if len(short) > 1 else ""
    yield problem(
        look,
        "file.ranks-missing",
        np.isin(look.rows.step, short),
        f"Step {first}: {count} of {usual} rank files present (rank {listed(lacking)} missing){more}.",
        "warning",
        hint="Groups and updates of these steps are incomplete: what they say is not what was trained.",
    )


def _columns(look: Look) -> Iterator[Problem]:
    held = [c for c in SCALARS if c in look.run.columns and c not in _LARGE and BY_NAME[c].default is None]
    table = look.run.responses(held)
    for name in held:
        if name not in ("step", "reward"):
            yield from _span(look, f"Column '{name}'", name, valid(table[name]), "column.stops")
    for name in ("prompt", "response"):
        if name in look.run.columns:
            has = valid(look.run.responses([name])[name])
            yield from _span(look, f"Column '{name}'", name, has, "column.stops")
    for name, values in look.components.items():
        yield from _span(
            look, f"Component '{name}'", "reward_components", ~np.isnan(values), "component.stops"
        )
    for name, values in look.extra.items():
        yield from _span(look, f"Field '{name}' of extra", "extra", ~np.isnan(values), "component.stops")


def _span(look: Look, what: str, column: str, has: np.ndarray, code: str) -> Iterator[Problem]:
    """A column that whole steps lack at the end, at the beginning, or in between."""
    if has.all() or not has.any():
        return
    use = ~look.rows.greedy
    steps, at = np.unique(look.rows.step[use], return_inverse=True)
    found = np.bincount(at, weights=has[use], minlength=len(steps)) > 0
    if found.all() or not found.any():
        return
    first, last = steps[found][0], steps[found][-1]
    lacking = steps[~found]
    said = []
    if (after := lacking[lacking > last]).size:
        said.append(f"missing since step {after[0]} ({len(after)} of {len(steps)} steps)")
    if (before := lacking[lacking < first]).size:
        said.append(f"logged from step {first} only ({len(before)} of {len(steps)} steps lack it)")
    if (between := lacking[(lacking > first) & (lacking < last)]).size:
        said.append(f"missing in {len(between)} steps between, step {between[0]} first")
    yield problem(
        look,
        code,
        use & np.isin(look.rows.step, lacking),
        f"{what} is {'; '.join(said)}.",
        column=column,
        hint="What is measured over steps changes with it.",
    )


CHECK = Entry(
    "files and columns that are missing at some steps",
    {
        "file.ranks-missing": "a step holds rows of fewer ranks than the log has",
        "column.stops": "a column that is missing since, or before, some step",
        "component.stops": "a reward component that is missing since, or before, some step",
    },
    _find,
    ("step",),
)

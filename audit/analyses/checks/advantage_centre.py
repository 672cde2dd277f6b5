"""Advantages of a group that do not sum to 0, in a run that does not say which baseline it takes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from audit.analyses.checks.look import Entry, Group, Look, problem
from audit.schema import Problem

ZERO = 1e-3
"""|sum| over the sum of magnitudes below which a group sums to 0: float32, or three decimals; heuristic."""
MOST = 0.5
"""Share of the groups with a signal that must not; heuristic."""


def _find(look: Look) -> Iterator[Problem]:
    advantage = look.rows.logged_advantage
    if advantage is None or look.declared is not None:
        return
    use = look.grouped & np.isfinite(advantage) & np.isfinite(look.reward)
    groups = Group(look.rows.sample, use)
    total, size = np.abs(groups.sum(advantage)), groups.sum(np.abs(advantage))
    alive = (size > 0) & (groups.size > 1)
    off = alive & (total > ZERO * size)
    if not alive.any() or off.sum() < MOST * alive.sum():
        return
    best = None if look.inferred is None or look.inferred.status != "fits" else look.inferred.best
    first = best is not None and best.baseline == "first_response"
    fit = "no known baseline fits" if best is None else f"they fit {best.describe()}"
    if first:
        fit += ", the reward less that of the group's first response"
    yield problem(
        look,
        "advantage.not-centred",
        groups.rows(off),
        f"Advantages do not sum to 0 in {int(off.sum())} of {int(alive.sum())} groups with a signal (median "
        f"|sum| {np.median(total[off]):.2g}); {fit}.",
        "warning" if first else "info",
        column="advantage",
        hint="No published baseline is one response by its place: look which rows enter the mean."
        if first
        else "",
    )


CHECK = Entry(
    "the sum of a group's advantages",
    {"advantage.not-centred": "undeclared advantages that do not sum to 0 in groups, and what they fit"},
    _find,
    ("group_id", "reward", "advantage|token_advantage"),
)

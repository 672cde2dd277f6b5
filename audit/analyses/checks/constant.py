"""Rewards that have one value, in the whole log or in every row of a step."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from audit.analyses.checks.look import Entry, Group, Look, problem
from audit.schema import Problem


def _find(look: Look) -> Iterator[Problem]:
    """The reward, or a component, has one value in whole steps."""
    use = look.first & np.isfinite(look.reward)
    if use.sum() < 2:
        return
    yield from _of(look, "reward", "the reward", look.reward, use)
    for name, values in look.components.items():
        known = look.first & np.isfinite(values)
        if known.any() and np.ptp(values[known]) > 0:
            yield from _of(look, "reward_components", f"component '{name}'", values, known)


def _of(look: Look, column: str, name: str, values: np.ndarray, use: np.ndarray) -> Iterator[Problem]:
    steps = Group(look.rows.step, use)
    several = steps.size >= 4
    flat = several & (steps.spans(values) == 0)
    if not flat.any():
        return
    marked = steps.rows(flat)
    found = np.unique(values[marked])
    every = bool(flat[several].all())
    number = f"{int(flat.sum())} of {int(several.sum())} steps"
    if np.ptp(values[use]) == 0:
        said = f"{name} is {found[0]:.6g} in every row of every step ({number}): it cannot teach anything."
        yield problem(look, "reward.constant", marked, said[0].upper() + said[1:], column=column)
    elif len(found) > 2 or (every and int(flat.sum()) > 2):
        said = (
            f"{name} is the same in every row of a step in {number}, and differs between steps "
            f"({len(found)} values): one value was returned for the whole batch."
        )
        yield problem(look, "reward.broadcast", marked, said[0].upper() + said[1:], column=column)
    elif column == "reward" and flat.sum() > 0.5 * several.sum():
        said = f"{name} is the same in every row of a step in {number} (value {found[0]:.6g})."
        yield problem(look, "reward.flat-steps", marked, said[0].upper() + said[1:], "info", column=column)


CHECK = Entry(
    "rewards that never vary",
    {
        "reward.constant": "the reward has one value in the whole log",
        "reward.broadcast": "one value for every row of a step, other steps have others",
        "reward.flat-steps": "most steps have one reward",
    },
    _find,
    ("reward",),
)

"""Reward components that vary within a group while their sum does not."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

import numpy as np

from audit.analyses.checks.look import Entry, Group, Look, problem
from audit.schema import Problem

OFTEN = 0.5
"""Share of groups from which it is more than small groups agreeing by chance; heuristic."""


def _find(look: Look) -> Iterator[Problem]:
    parts = look.components
    use = look.grouped & np.isfinite(look.reward)
    if len(parts) < 2 or not use.any():
        return
    groups = Group(look.rows.sample, use)
    several = groups.size > 1
    flat = several & (groups.spans(look.reward) <= 1e-9 * max(1.0, float(np.abs(look.reward[use]).max())))
    values = {name: np.nan_to_num(found) for name, found in parts.items()}
    varies = {name: groups.spans(found) > 0 for name, found in values.items()}
    for a, b in combinations(values, 2):
        both = several & varies[a] & varies[b]
        if not both.any():
            continue
        factor, cancelled = max(
            ((f, _cancelled(groups, values[a], values[b], f)) for f in _factors(values[a], values[b], use)),
            key=lambda found: int(found[1].sum()),
        )
        cancelled &= both & flat
        share = float(cancelled.sum() / both.sum())
        if share < 0.1:
            continue
        weight = "" if factor == 1.0 else f" (weights 1 : {factor:.3g})"
        yield problem(
            look,
            "reward.components-cancel",
            groups.rows(cancelled),
            f"'{a}' {_range(values[a][use])} and '{b}' {_range(values[b][use])} cancel{weight} in "
            f"{share:.0%} of the {int(both.sum())} groups in which both vary: "
            "the reward is the same for all their rows.",
            "warning" if share >= OFTEN else "info",
            column="reward_components",
        )


def _cancelled(groups: Group, a: np.ndarray, b: np.ndarray, factor: float) -> np.ndarray:
    return np.asarray(groups.spans(a + factor * b) <= 1e-6 * groups.spans(a))


def _factors(a: np.ndarray, b: np.ndarray, use: np.ndarray) -> list[float]:
    """Weights of b, a having 1, at which the two may cancel: equal ones, and those of least squares."""
    x, y = a[use] - a[use].mean(), b[use] - b[use].mean()
    power = float(y @ y)
    fitted = -float(x @ y) / power if power > 0.0 else 0.0
    # Rounded: a weight is a decimal, and what is left of the fit's error would not cancel.
    return [1.0, *([float(f"{fitted:.9g}")] if fitted > 0 else [])]


def _range(values: np.ndarray) -> str:
    return f"({values.min():g} to {values.max():g})"


CHECK = Entry(
    "components that cancel",
    {"reward.components-cancel": "two components vary within groups while the reward does not"},
    _find,
    ("group_id", "reward", "reward_components"),
)

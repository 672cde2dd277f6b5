"""A column that belongs to other rows: its values are those of the reward, step by step, in another order."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from audit.analyses.checks.look import Entry, Look, problem
from audit.facts.rows import dense
from audit.schema import Problem

LEAST = 0.02
"""Share of rows that must disagree; heuristic."""
LEAST_STEPS = 2


def _find(look: Look) -> Iterator[Problem]:
    use = look.first & np.isfinite(look.reward)
    for name, column, values in _columns(look):
        both = use & np.isfinite(values)
        if both.sum() < 8 or np.ptp(values[both]) == 0:
            continue
        code = _as_reward(values[both], look.reward[both])
        if code is None:
            continue
        mine, reward = code
        wrong = mine != reward
        share = float(wrong.mean())
        steps = dense(look.rows.step[both])
        if share < LEAST or not _same_values(mine, reward, steps):
            continue
        order = _resorted(look, both, mine, reward, steps)
        # In a single step two unrelated columns may hold the same number of ones by chance.
        if not order and steps.max() + 1 < LEAST_STEPS and len(np.unique(mine)) < 5:
            continue
        marked = np.zeros(look.rows.num_rows, dtype=bool)
        marked[np.flatnonzero(both)[wrong]] = True
        yield problem(
            look,
            "column.permuted",
            marked,
            f"'{name}' disagrees with the reward in {share:.0%} of {int(both.sum())} rows, though every step "
            f"holds the same values of both: {order}the rows of one "
            "were reordered.",
            "error",
            column=column,
            certainty="likely",
            hint="The batch was reordered between scoring and writing: trust nothing by this column.",
        )


def _columns(look: Look) -> Iterator[tuple[str, str, np.ndarray]]:
    if look.rows.has("correct"):
        yield "correct", "correct", look.rows.numpy("correct")
    for name, values in look.components.items():
        yield name, "reward_components", values
    for name, values in look.extra.items():
        yield name, "extra", values


def _as_reward(values: np.ndarray, reward: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """The two as codes that should be equal: the values themselves, or right and wrong."""
    if len(np.unique(values)) == 2:
        right = (values == values.max()).astype(np.int64)
        levels = np.unique(reward)
        if len(levels) == 2:
            return right, (reward == levels[1]).astype(np.int64)
        # A reward of many values is right above some level; the overall count of right ones sets it.
        ordered = np.sort(reward)[::-1]
        most = int(right.sum())
        if not 0 < most < len(reward) or ordered[most - 1] == ordered[most]:
            return None
        return right, (reward >= ordered[most - 1]).astype(np.int64)
    both = np.unique(np.concatenate([values, reward]), return_inverse=True)[1]
    return both[: len(values)], both[len(values) :]


def _same_values(mine: np.ndarray, reward: np.ndarray, steps: np.ndarray) -> bool:
    """Whether each step holds the same values of both."""
    a, b = np.lexsort((mine, steps)), np.lexsort((reward, steps))
    return bool((mine[a] == reward[b]).all())


def _resorted(look: Look, use: np.ndarray, mine: np.ndarray, reward: np.ndarray, steps: np.ndarray) -> str:
    """Name an order of the rows of a step in which the two agree again."""
    rows = look.rows
    group = rows.sample[use] if rows.has("group_id") else np.zeros(len(mine))
    index = np.nan_to_num(rows.numpy("sample_index")[use])
    orders = {
        "length": rows.length[use],
        "length, longest first": -rows.length[use],
        "prompt": rows.prompt[use],
    }
    file = np.arange(len(mine))
    places = {"file order": np.lexsort((file, steps)), "group order": np.lexsort((index, group, steps))}
    best = ("", 1.0)
    for name, key in orders.items():
        if not np.isfinite(key).all():
            continue
        order = np.lexsort((file, key, steps))
        for natural in places.values():
            for one, other in ((order, natural), (natural, order)):
                left = float((mine[one] != reward[other]).mean())
                best = min(best, (name, left), key=lambda found: found[1])
    backwards = np.lexsort((-file, steps))
    left = float((mine[backwards] != reward[places["file order"]]).mean())
    best = min(best, ("reversing the rows", left), key=lambda found: found[1])
    if best[1] > 0.01:
        return ""
    how = best[0] if best[0].startswith("reversing") else f"re-sorting by {best[0]}"
    return f"{best[1]:.0%} after {how}: "


CHECK = Entry(
    "columns in the order of other rows",
    {"column.permuted": "a column has the reward's values in every step, on other rows"},
    _find,
    ("reward", "correct|reward_components|extra"),
)

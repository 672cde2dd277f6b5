"""Correct answers that are pushed down, and rewards that follow the length of the text."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from audit.analyses.checks.look import Entry, Group, Look, correlation, problem
from audit.schema import Problem

RIGHT = ("acc", "accuracy", "correct", "correctness", "is_correct")
"""Components that say whether an answer is right."""
MANY = 0.1
"""Share of correct rows below their group's mean from which that is said; heuristic."""
CLOSE = 0.9
"""Correlation from which the reward follows a length; heuristic."""


def _find(look: Look) -> Iterator[Problem]:
    yield from _signs(look)
    yield from _units(look)


def _signs(look: Look) -> Iterator[Problem]:
    advantage = look.rows.logged_advantage
    use = look.grouped & np.isfinite(look.reward)
    if advantage is None or _explained(look):
        return
    use &= np.isfinite(advantage)
    groups = Group(look.rows.sample, use)
    above = np.zeros(look.rows.num_rows)
    above[use] = look.reward[use] - groups.mean(look.reward)[groups.of]
    unit = float(np.abs(advantage[use]).max(initial=0.0)) or 1.0
    down = use & (advantage < -1e-9 * unit)
    against = use & (above * advantage < -1e-9 * unit)
    right, wrong = down & _is_correct(look), against
    opposed = int((right & (above > 0)).sum())
    if opposed or right.sum() > MANY * (use & _is_correct(look)).sum():
        said = f"{int(right.sum())} correct rows have a negative advantage"
        said += (
            f"; {opposed} of them have a reward above their group's mean."
            if opposed
            else ": their reward is below their group's mean."
        )
        yield problem(
            look,
            "advantage.correct-negative",
            right,
            said + _longer(look, right),
            "warning" if opposed else "info",
            column="advantage",
            hint="A baseline of raw rewards under shaped ones, or a shaping that outweighs being right.",
        )
    elif wrong.any() and _grouped_baseline(look):
        yield problem(
            look,
            "advantage.sign",
            wrong,
            f"{int(wrong.sum())} of {int(use.sum())} rows have an advantage of the opposite sign to their "
            "reward minus their group's mean.",
            "info",
            column="advantage",
        )


def _explained(look: Look) -> bool:
    """The declared objective makes these very advantages, and adds to the reward."""
    agrees = look.inferred is not None and look.inferred.agrees is True
    return agrees and look.declared is not None and look.declared.kl.reward is not None


def _grouped_baseline(look: Look) -> bool:
    return look.declared is not None and look.declared.baseline.kind in ("group_mean", "leave_one_out")


def _is_correct(look: Look) -> np.ndarray:
    if look.rows.has("correct"):
        return np.asarray(look.rows.numpy("correct") == 1.0)
    for name, part in look.components.items():
        if name.lower() in RIGHT and set(np.unique(part[np.isfinite(part)])) <= {0.0, 1.0}:
            return np.asarray(part == 1.0)
    values = np.unique(look.reward[np.isfinite(look.reward)])
    if len(values) != 2:
        return np.zeros(len(look.reward), dtype=bool)
    return np.asarray(look.reward == values[1])


def _longer(look: Look, rows: np.ndarray) -> str:
    length = look.rows.length
    others = look.first & _is_correct(look) & ~rows
    if not np.isfinite(length[rows]).all() or not others.any() or not length[others].mean() > 0:
        return ""
    times = length[rows].mean() / length[others].mean()
    return f" They are {times:.2g} times as long as the other correct ones."


def _units(look: Look) -> Iterator[Problem]:
    """Whether the reward follows characters rather than tokens."""
    if not look.tokens.has("characters") or not np.isfinite(look.rows.length[look.first]).any():
        return
    use = look.first & np.isfinite(look.reward)
    for which, side in (("right", _is_correct(look)), ("all", np.ones(len(use), dtype=bool))):
        some = use & side
        characters = correlation(look.reward[some], look.tokens["characters"][some])
        tokens = correlation(look.reward[some], look.rows.length[some])
        if abs(characters) >= CLOSE and abs(characters) - abs(tokens) > 0.1:
            among = " of correct rows" if which == "right" else ""
            yield problem(
                look,
                "reward.follows-characters",
                some,
                f"The reward{among} follows the length in characters (r = {characters:.2f}), not in tokens "
                f"(r = {tokens:.2f}).",
                column="reward",
                certainty="likely",
                hint="A length reward that counts characters is at odds with lengths in tokens.",
            )
            return


CHECK = Entry(
    "the sign of advantages",
    {
        "advantage.correct-negative": "correct rows are pushed down",
        "advantage.sign": "advantages of the opposite sign to reward minus group mean",
        "reward.follows-characters": "a length reward in characters",
    },
    _find,
    ("reward", "advantage|token_advantage|response"),
)

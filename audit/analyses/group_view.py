"""The responses of one group side by side: reward, length, and the advantage under several objectives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from audit.analyses.fitted import fitted
from audit.analyses.outcomes import correctness
from audit.analyses.skips import Skips
from audit.facts.step_rows import StepRows
from audit.facts.weigh import coefficients_of
from audit.logs.arrays import to_numpy
from audit.objectives.objective import Objective

_SHOWN = ("sample_index", "finish_reason", "response", "prompt_id", "prompt")


class Response(msgspec.Struct, frozen=True):
    """One response of the group."""

    row: int
    """Place among the rows of the step."""
    label: str
    """Its sample_index, or its place in the group; unique within the group."""
    reward: float | None
    correct: bool | None
    length: int | None
    finish_reason: str | None
    greedy: bool
    text: str | None
    advantages: dict[str, float | None]
    """By objective; None where the objective cannot be applied, and for greedy rows."""


class GroupView(msgspec.Struct, frozen=True):
    """One group of the step."""

    group: str
    prompt_id: str | None
    prompt: str | None
    responses: list[Response]
    skipped: list[str]
    """Objectives that cannot be applied, with the reason."""
    schema: str = "rlaudit.group_view.v1"


def group_view(step: StepRows, group: str, objectives: Mapping[str, Objective]) -> GroupView:
    """Look at one group of a step.

    Parameters
    ----------
    group : str
        A group_id of the step; an unknown one has no responses.
    objectives : mapping of str to Objective
        Advantages are computed under each, with the statistics of the whole step.
    """
    rows = step.rows
    skips = Skips(rows)
    advantages: dict[str, np.ndarray] = {}
    for name, objective in objectives.items():
        made = skips.attempt(name, lambda o=objective: coefficients_of(rows, fitted(rows, o)[0]))  # type: ignore[misc]
        if made is not None:
            advantages[name] = np.where(made.kept & ~made.masked, made.advantage, np.nan)
    at = _in_order(step, _rows_of(step, group))
    held = {name: _cells(step, name, at) for name in _SHOWN}
    side, _ = correctness(rows)
    reward, length = rows.numpy("reward"), rows.length
    labels = _unique(
        [str(place if index is None else index) for place, index in enumerate(held["sample_index"])]
    )
    responses = [
        Response(
            row=row,
            label=label,
            reward=_known(reward[row]),
            correct=None if np.isnan(side[row]) else bool(side[row]),
            length=None if np.isnan(length[row]) else int(length[row]),
            finish_reason=held["finish_reason"][place],
            greedy=bool(rows.greedy[row]),
            text=held["response"][place],
            advantages={
                name: _known(advantages[name][row]) if name in advantages else None for name in objectives
            },
        )
        for place, (row, label) in enumerate(zip(at, labels, strict=True))
    ]
    return GroupView(
        group=group,
        prompt_id=next(iter(held["prompt_id"]), None),
        prompt=next(iter(held["prompt"]), None),
        responses=responses,
        skipped=[f"{skip.check}: needs {skip.needs}" for skip in skips.found],
    )


def _rows_of(step: StepRows, group: str) -> list[int]:
    """Rows of the step itself that have this group_id."""
    if "group_id" not in step.table.column_names:
        return []
    same = pc.fill_null(pc.equal(step.table["group_id"], group), False)
    return [int(row) for row in np.flatnonzero(step.here & to_numpy(same))]


def _in_order(step: StepRows, at: list[int]) -> list[int]:
    """By sample_index; rows without one keep their place, at the end."""
    index = _cells(step, "sample_index", at)
    order = sorted(range(len(at)), key=lambda place: (index[place] is None, index[place] or 0, place))
    return [at[place] for place in order]


def _cells(step: StepRows, name: str, at: Sequence[int]) -> list[Any]:
    """Values of a column in some rows; None where it was not logged."""
    if name not in step.table.column_names:
        return [None] * len(at)
    found: list[Any] = step.table[name].take(pa.array(at, pa.int64())).to_pylist()
    return found


def _known(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _unique(labels: list[str]) -> list[str]:
    """Number labels that are given twice: turns of one trajectory share their sample_index."""
    made: list[str] = []
    for label in labels:
        again = label
        count = 1
        while again in made:
            count += 1
            again = f"{label}.{count}"
        made.append(again)
    return made

"""What a check may look at, and the form of its answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np

from audit.analyses.checks.extra_numbers import extra_numbers
from audit.analyses.checks.token_batch import Measure, TokenLook
from audit.analyses.infer import Inference
from audit.analyses.outcomes import first_pass
from audit.analyses.reward_components import component_values
from audit.facts.rows import RunRows, dense
from audit.logs import Run
from audit.logs.metrics import read_metrics
from audit.objectives.objective import Objective
from audit.schema import Problem

FEW = 5
"""Steps that a problem lists."""
Severity = Literal["error", "warning", "info"]


@dataclass(frozen=True)
class Look:
    """A run, its responses, and what it declares; shapes are (R,) over all rows in file order."""

    run: Run
    rows: RunRows
    tokens: TokenLook
    """What was measured in the pass over the tokens."""
    declared: Objective | None
    inferred: Inference | None

    @cached_property
    def first(self) -> np.ndarray:
        """Trained rows of the first inner pass, bool: no response counts twice."""
        return np.asarray(first_pass(self.rows))

    @cached_property
    def grouped(self) -> np.ndarray:
        """Rows of the first pass that have a group, bool."""
        return np.asarray(self.first & self.rows.grouped)

    @cached_property
    def reward(self) -> np.ndarray:
        """float64; NaN where there is none."""
        return self.rows.numpy("reward")

    @cached_property
    def loss_tokens(self) -> np.ndarray | None:
        """Loss tokens of each row, float64; None where the log has no tokens."""
        return None if self.rows.facts is None else self.rows.facts["loss_tokens"].astype(float)

    @cached_property
    def components(self) -> dict[str, np.ndarray]:
        """Parts of the reward by name."""
        return component_values(self.rows) if self.rows.has("reward_components") else {}

    @cached_property
    def extra(self) -> dict[str, np.ndarray]:
        """Numbers in the JSON objects of ``extra`` by name."""
        return extra_numbers(self.run) if self.rows.has("extra") else {}

    @cached_property
    def metrics(self) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """Scalars that the trainer logged: name to (steps, values), by step."""
        logged = read_metrics(self.run)
        found = {}
        for name in sorted(logged.names):
            at = np.flatnonzero((logged.name == name) & np.isfinite(logged.step))
            at = at[np.argsort(logged.step[at], kind="stable")]
            found[name] = (logged.step[at], logged.value[at])
        return found

    def metric(self, *endings: str) -> tuple[str, np.ndarray, np.ndarray] | None:
        """The first scalar that has one of these names, in whatever section: (name, steps, values)."""
        for ending in endings:
            for name, (steps, values) in self.metrics.items():
                if name.split("/")[-1].lower() == ending and len(values):
                    return name, steps, values
        return None

    def fact(self, name: str, *columns: str) -> np.ndarray | None:
        """A fact of the tokens, float64, or None where its columns were not logged."""
        if self.rows.facts is None or not set(columns) <= self.run.columns:
            return None
        return np.asarray(self.rows.facts[name])

    def steps(self, rows: np.ndarray) -> tuple[int, ...] | None:
        """First steps of the marked rows."""
        return tuple(int(step) for step in np.unique(self.rows.step[rows])[:FEW]) or None


class Group:
    """Sums over the groups of chosen rows.

    Parameters
    ----------
    code : ndarray, shape (R,), int
    use : ndarray, shape (R,), bool
    """

    def __init__(self, code: np.ndarray, use: np.ndarray) -> None:
        self.use = use
        self.of = dense(code[use]) if use.any() else np.zeros(0, dtype=np.int64)
        self.count = int(self.of.max(initial=-1)) + 1
        self.size = np.bincount(self.of, minlength=self.count)

    def sum(self, values: np.ndarray) -> np.ndarray:
        """Sum of values of shape (R,) over the chosen rows of each group, shape (count,)."""
        return np.bincount(self.of, weights=values[self.use].astype(float), minlength=self.count)

    def mean(self, values: np.ndarray) -> np.ndarray:
        """Mean over the chosen rows of each group, shape (count,)."""
        return self.sum(values) / np.maximum(self.size, 1)

    def spans(self, values: np.ndarray) -> np.ndarray:
        """Largest minus smallest value, shape (count,)."""
        low, high = np.full(self.count, np.inf), np.full(self.count, -np.inf)
        np.minimum.at(low, self.of, values[self.use])
        np.maximum.at(high, self.of, values[self.use])
        return np.asarray(high - low)

    def rows(self, groups: np.ndarray) -> np.ndarray:
        """Rows of the marked groups, bool, shape (R,)."""
        marked = np.zeros(len(self.use), dtype=bool)
        marked[self.use] = groups[self.of]
        return marked


@dataclass(frozen=True)
class Entry:
    """One check: what it asks, what it needs, what it may say."""

    question: str
    ids: dict[str, str]
    """Reason code to its meaning, a line each."""
    find: Callable[[Look], Iterator[Problem]]
    needs: tuple[str, ...] = ()
    """Columns; "a|b" is either."""
    measure: Measure | None = None
    """What it has measured in the pass over the tokens."""

    def lacking(self, run: Run) -> list[str]:
        """What it needs and the log lacks."""
        return [n.replace("|", " or ") for n in self.needs if not set(n.split("|")) & run.columns]


def problem(
    look: Look, code: str, rows: np.ndarray | None, summary: str, severity: Severity = "warning", **more: Any
) -> Problem:
    """Say what is wrong with the marked rows; None: with the run."""
    where = {} if rows is None else {"rows": int(rows.sum()), "steps": look.steps(rows)}
    return Problem(id=code, severity=severity, summary=summary, **{**where, **more})


def correlation(x: np.ndarray, y: np.ndarray) -> float:
    """Pearson's r of the pairs that are finite; NaN with fewer than three, or without spread."""
    use = np.isfinite(x) & np.isfinite(y)
    if use.sum() < 3:
        return float("nan")
    a, b = x[use] - x[use].mean(), y[use] - y[use].mean()
    power = float(np.sqrt((a @ a) * (b @ b)))
    return float(a @ b) / power if power > 0 else float("nan")


def listed(values: np.ndarray | list[Any], most: int = 3) -> str:
    """The first few of some values."""
    more = len(values) - most
    return ", ".join(str(v) for v in values[:most]) + (f" and {more} more" if more > 0 else "")

"""What came out of each run, over the steps that all runs reached."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
import numpy as np

from audit.analyses.outcomes import first_pass, truncated
from audit.analyses.skipped import Skipped
from audit.facts.rows import RunRows
from audit.stats import Estimate, mean

METRICS: dict[str, tuple[Callable[[RunRows], np.ndarray | None], str]] = {
    "reward": (lambda rows: rows.numpy("reward"), "reward"),
    "length": (lambda rows: rows.length, "token_ids or length"),
    "truncated share": (truncated, "finish_reason"),
}
"""Metric → how it is read, and the column that it needs."""


class RunOutcome(msgspec.Struct, frozen=True):
    """Means of one run; the intervals resample prompts, and do not cover seed noise."""

    run: str
    means: dict[str, Estimate]


def run_outcomes(
    labels: Sequence[str], runs: Sequence[RunRows]
) -> tuple[list[RunOutcome], list[str], list[Skipped]]:
    """Mean of every metric that all runs logged, over the first inner pass up to the last common step.

    Returns
    -------
    outcomes : list of RunOutcome
    metrics : list of str
        Those that every run has.
    skipped : list of Skipped
    """
    last = last_step(runs)
    found: list[dict[str, Estimate]] = [{} for _ in runs]
    skipped: list[Skipped] = []
    metrics = []
    for name, (read, column) in METRICS.items():
        missing = []
        for rows, means, label in zip(runs, found, labels, strict=True):
            values = read(rows)
            use = first_pass(rows) & (rows.step <= last)
            made = None if values is None else mean(values[use], rows.prompt[use])
            if made is None or made.value is None:
                missing.append(label)
            else:
                means[name] = made
        if missing:
            where = f"{column} in {', '.join(missing)}, up to step {last}"
            skipped.append(Skipped(f"{name} of every run", where))
        else:
            metrics.append(name)
    return [RunOutcome(*one) for one in zip(labels, found, strict=True)], metrics, skipped


def last_step(runs: Sequence[RunRows]) -> int:
    """The last step that every run reached."""
    return min(int(rows.step.max(initial=0)) for rows in runs)

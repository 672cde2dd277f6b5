"""How does each metric of a run go over its steps?"""

from __future__ import annotations

import msgspec
import numpy as np

from audit.analyses.bucket_shares import by_code
from audit.analyses.length_bins import clusters
from audit.analyses.outcomes import first_pass
from audit.analyses.skipped import Skipped
from audit.analyses.step_bins import step_bins
from audit.analyses.timeline_metrics import KINDS, Kind
from audit.facts.rows import RunRows
from audit.stats import Estimate

POINTS = 24
"""Bins of steps a curve; a run with no more steps has one a step."""


class CurvePoint(msgspec.Struct, frozen=True):
    """A metric in one bin of steps."""

    first_step: int
    last_step: int
    value: Estimate
    """With an interval that resamples prompts; n counts responses (groups, for a share of groups)."""


class Curve(msgspec.Struct, frozen=True):
    """One metric over the steps of a run."""

    metric: str
    unit: str
    points: list[CurvePoint]


class MetricCurves(msgspec.Struct, frozen=True):
    """Every metric that a log holds."""

    run: str
    curves: list[Curve]
    unseen: list[Skipped]
    """Metrics that this log does not hold, with the column that would show them."""
    schema: str = "rlaudit.metric_curves.v1"


def metric_curves(rows: RunRows) -> MetricCurves:
    """Follow every metric of the timeline, and the length of all responses, in one run.

    Raises
    ------
    AuditError
        The log cannot be read.
    """
    trained = ~rows.greedy
    bins = step_bins(np.where(trained, rows.step.astype(float), np.nan), POINTS)
    curves, unseen = [], []
    for kind in (*KINDS[:1], _LENGTH, *KINDS[1:]):
        lacking = [need for need in kind.needs if not any(map(rows.has, need.split("|")))]
        if lacking:
            unseen.append(Skipped(kind.name, " and ".join(need.replace("|", " or ") for need in lacking)))
        elif rows.facts is None and _of_tokens(kind):
            unseen.append(Skipped(kind.name, "token lists"))
        else:
            curves.append(_curve(rows, kind, bins.code, bins.spans))
    return MetricCurves(rows.run.run_id, [curve for curve in curves if curve.points], unseen)


def _lengths(rows: RunRows) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return rows.length, np.ones(rows.num_rows), first_pass(rows)


_LENGTH = Kind("length", "tokens", ("token_ids|length",), _lengths)


def _of_tokens(kind: Kind) -> bool:
    return any(need.startswith(("logp", "entropy")) for need in kind.needs)


def _curve(rows: RunRows, kind: Kind, code: np.ndarray, spans: list[tuple[int, int]]) -> Curve:
    top, below, use = kind.of(rows)
    use = use & (code >= 0) & np.isfinite(top) & np.isfinite(below)
    prompt, _ = clusters(rows.prompt[use])
    names = [str(place) for place in range(len(spans))]
    made = by_code(names, code[use], top[use], below[use], prompt)
    points = [
        CurvePoint(first, last, bucket.value)
        for (first, last), bucket in zip(spans, made, strict=True)
        if bucket.value.value is not None
    ]
    return Curve(kind.name, kind.unit, points)

"""When do two runs part, and in what first?

For each metric the gap B - A is followed over bins of steps. It is measured against the gap of the first bin,
with the noise of prompts (linearised, clustered) and of the gap's own wander from bin to bin; false
discoveries are controlled over all metrics and bins together.
"""

from __future__ import annotations

from typing import Literal

import msgspec
import numpy as np

from audit.analyses.pair import Pair
from audit.analyses.skipped import Skipped
from audit.analyses.step_bins import step_bins
from audit.analyses.timeline_metrics import Metric, timeline_metrics
from audit.analyses.timeline_noise import p_values, wander
from audit.objectives.arrays import silent
from audit.objectives.objective import Objective

BINS = 10
"""Bins of steps; heuristic."""
LEVEL = 0.01
"""False discovery rate over all metrics and bins; strict, for one seed a side wanders by itself."""
AFTER = 0.5
"""Share of the later bins in which the gap must keep its side; heuristic."""


class Moment(msgspec.Struct, frozen=True):
    """A metric in one bin of steps."""

    first_step: int
    last_step: int
    a: float | None
    b: float | None
    moved: float | None
    """(B - A) minus the same in the first bin; in the first bin B - A itself."""
    low: float | None
    high: float | None
    """95 % interval of ``moved``, prompts and wander; not corrected for the number of bins."""
    p: float | None
    """Corrected over all metrics and bins (Benjamini-Hochberg)."""
    n: list[int]
    """Responses in A and in B."""


class Course(msgspec.Struct, frozen=True):
    """One metric over the steps that both runs reached."""

    metric: str
    unit: str
    state: Literal["parted", "apart from the start", "together", "not tested"]
    """``not tested``: too few prompts carry its variance."""
    parted: int | None
    """Index of the first moment beyond noise; 0 where the runs are apart from the start."""
    moments: list[Moment]


class Timeline(msgspec.Struct, frozen=True):
    """Every metric that both logs hold, those that parted first come first."""

    courses: list[Course]
    unseen: list[Skipped]
    """Metrics that these logs do not hold."""
    level: float = LEVEL

    @property
    def parted(self) -> list[Course]:
        """Those that parted, first come first."""
        return [course for course in self.courses if course.parted is not None]


def timeline(pair: Pair, objectives: tuple[Objective | None, Objective | None]) -> Timeline:
    """Follow the gap between two runs over their common steps.

    Parameters
    ----------
    objectives : the objective of each run, for the share of tokens that its clip removed

    Notes
    -----
    Per bin each run's value is a ratio of sums; its linearisation gives one residual a prompt, and prompts
    that both runs or both bins hold cancel. The t test has as many degrees of freedom as prompts carry the
    variance (Satterthwaite). The wander is a random walk of the gap: what the gaps scatter about a drift and
    one jump beyond prompt noise. Benjamini & Hochberg (1995) hold under positive dependence, which bins that
    share their first bin have. Of 320 trained pairs that differ in seed alone 2 parted, of 400 simulated ones
    none; 2 % did where the gap wanders by 0.3 of the prompt noise a bin, 18 % where it wanders by 0.7: one
    run a side cannot tell a strong wander from a cause. A jump of 6 times the noise was found in 64 %
    (docs/calibration.md).
    """
    metrics, unseen = timeline_metrics(pair, objectives)
    bins = _bins(pair)
    if bins is None:
        return Timeline([], [*unseen, Skipped("timeline", "two steps that both runs reached")])
    codes, spans = bins
    followed = [_follow(pair, metric, codes, spans) for metric in metrics]
    raw = np.concatenate([p for _, p in followed]) if followed else np.zeros(0)
    adjusted = benjamini_hochberg(raw)
    courses, at = [], 0
    for metric, (moments, p) in zip(metrics, followed, strict=True):
        mine = adjusted[at : at + len(p)]
        at += len(p)
        courses.append(_course(metric, moments, mine))
    courses.sort(key=lambda c: len(spans) if c.parted is None else c.parted)
    return Timeline(courses, unseen)


def benjamini_hochberg(p: np.ndarray) -> np.ndarray:
    """Adjusted p-values, float64, shape (N,); NaN stays NaN and counts as no test.

    Benjamini & Hochberg (1995); written out because scipy.stats takes 0.7 s to import.
    """
    adjusted = np.full(len(p), np.nan)
    tested = np.flatnonzero(np.isfinite(p))
    if not len(tested):
        return adjusted
    order = tested[np.argsort(p[tested], kind="stable")]
    m = len(order)
    factor = m / np.arange(1, m + 1)
    adjusted[order] = np.minimum(np.minimum.accumulate((p[order] * factor)[::-1])[::-1], 1.0)
    return adjusted


def _bins(pair: Pair) -> tuple[tuple[np.ndarray, np.ndarray], list[tuple[int, int]]] | None:
    """Bin of each row of each run, -1 for rows that do not count, and the steps of each bin."""
    step = np.concatenate([rows.step.astype(float) for rows in pair.sides])
    use = np.concatenate([~rows.greedy & (rows.step <= pair.last) for rows in pair.sides])
    # By distinct steps: bins must not depend on which run is called A.
    steps = np.unique(step[use])
    found = step_bins(steps, BINS)
    if len(found.spans) < 2:
        return None
    code = np.full(len(step), -1, dtype=np.int64)
    code[use] = found.code[np.searchsorted(steps, step[use])]
    return (code[: pair.a.num_rows], code[pair.a.num_rows :]), found.spans


@silent
def _follow(
    pair: Pair, metric: Metric, codes: tuple[np.ndarray, np.ndarray], spans: list[tuple[int, int]]
) -> tuple[list[Moment], np.ndarray]:
    """The moments of a metric, not yet corrected, and the p-value of each."""
    bins, prompts = len(spans), 1 + max((int(c.max(initial=0)) for c in pair.prompts), default=0)
    values, counts = np.full((2, bins), np.nan), np.zeros((2, bins), dtype=np.int64)
    residual = np.zeros((bins, prompts))
    for side in (0, 1):
        top, below, use = metric.numerator[side], metric.denominator[side], metric.use[side]
        use = use & (codes[side] >= 0) & np.isfinite(top) & np.isfinite(below)
        cell = codes[side][use] * prompts + pair.prompts[side][use]
        sums = [
            np.bincount(cell, weights=x[use], minlength=bins * prompts).reshape(bins, prompts)
            for x in (top, below)
        ]
        with np.errstate(divide="ignore", invalid="ignore"):
            values[side] = sums[0].sum(axis=1) / sums[1].sum(axis=1)
            part = (sums[0] - values[side][:, None] * sums[1]) / sums[1].sum(axis=1)[:, None]
        residual += (1.0 if side else -1.0) * part
        counts[side] = np.bincount(codes[side][use], minlength=bins)
    gap = values[1] - values[0]
    walk = wander(gap, residual)
    moved, error, p, reach = p_values(gap, residual, walk)
    moments = [
        Moment(
            first_step=spans[at][0],
            last_step=spans[at][1],
            a=_known(values[0, at]),
            b=_known(values[1, at]),
            moved=_known(moved[at]),
            low=_known(moved[at] - reach[at] * error[at]),
            high=_known(moved[at] + reach[at] * error[at]),
            p=_known(p[at]),
            n=counts[:, at].tolist(),
        )
        for at in range(bins)
    ]
    return moments, p


def _known(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _course(metric: Metric, moments: list[Moment], adjusted: np.ndarray) -> Course:
    corrected = [
        msgspec.structs.replace(moment, p=_known(p)) for moment, p in zip(moments, adjusted, strict=True)
    ]
    moved = np.array([np.nan if m.moved is None else m.moved for m in moments])
    parted = None
    for at in np.flatnonzero(adjusted <= LEVEL).tolist():
        if at == 0:
            # The gap of the first bin is what the later ones are held against: it needs no company.
            parted = 0
            break
        later = moved[at:][np.isfinite(moved[at:])]
        if (np.sign(later) == np.sign(moved[at])).mean() > AFTER:
            parted = at
            break
    tested = bool(np.isfinite(adjusted).any())
    state: Literal["parted", "apart from the start", "together", "not tested"]
    state = "together" if tested else "not tested"
    if parted is not None:
        state = "apart from the start" if parted == 0 else "parted"
    return Course(metric.name, metric.unit, state, parted, corrected)

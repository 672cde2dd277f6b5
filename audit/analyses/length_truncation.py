"""Truncation and how it is rewarded: a cut-off answer that scores 0 makes length a cause of being wrong."""

from __future__ import annotations

import msgspec
import numpy as np

from audit.analyses.length_bins import step_bins
from audit.analyses.length_drift import drift_among
from audit.analyses.length_rows import LengthRows, centred
from audit.facts.rows import dense
from audit.stats import Estimate, mean, ratio_of_sums


class Truncation(msgspec.Struct, frozen=True):
    """Responses that ended by length, among those that have a ``finish_reason``."""

    share: Estimate
    change: Estimate
    """Of the share from the first step to the last, within prompt."""
    step: list[float]
    """Mean step of each bin of steps, for ``share_by_step``."""
    share_by_step: list[float]
    reward_gap: Estimate
    """Reward of truncated less that of other responses of a group; n: responses of groups with both."""
    correct_truncated: Estimate
    """Share correct among truncated responses; empty where the log does not say what is correct."""
    correct_other: Estimate


def truncation(data: LengthRows) -> Truncation | None:
    """Measure it; None where ``finish_reason`` was not logged."""
    cut = data.rows.cut_off
    if cut is None:
        return None
    use = data.use & np.isfinite(cut)
    bins = step_bins(data.step, use, 10)
    at = bins.of_row[bins.of_row >= 0]
    shares = np.bincount(at, weights=cut[bins.of_row >= 0]) / np.bincount(at) if len(at) else np.zeros(0)
    known = use & np.isfinite(data.correct) & data.absolute

    def correct(among: np.ndarray) -> Estimate:
        return mean(data.correct[known & among], data.cluster[known & among])

    return Truncation(
        share=mean(cut[use], data.cluster[use]),
        change=drift_among(data, use, cut),
        step=bins.step.tolist(),
        share_by_step=shares.tolist(),
        reward_gap=within_group_slope(data, use, cut, data.rows.numpy("reward")),
        correct_truncated=correct(cut == 1.0),
        correct_other=correct(cut == 0.0),
    )


@np.errstate(over="ignore", invalid="ignore")
def within_group_slope(
    data: LengthRows, chosen: np.ndarray, x: np.ndarray, y: np.ndarray, strata: np.ndarray | None = None
) -> Estimate:
    """Least-squares slope of y on x within group, or ``strata``; arrays of shape (R,).

    The interval resamples prompts; n counts responses of strata in which x varies.
    """
    use = chosen & np.isfinite(x) & np.isfinite(y)
    code = (data.group if strata is None else strata)[use]
    inner_x, inner_y = centred(x[use], code), centred(y[use], code)
    dense_code = dense(code)
    varies = np.bincount(dense_code, weights=inner_x != 0.0)[dense_code] > 0 if len(code) else use[use]
    if not varies.any():
        return Estimate(None, None, None, 0)
    cluster = dense(data.cluster[use][varies])
    x, y = inner_x[varies], inner_y[varies]
    return ratio_of_sums(x * y, x * x, cluster, int(varies.sum()))

"""Length in the reward: a term for length, or a grader that likes long answers, is no bias of weights."""

from __future__ import annotations

import msgspec
import numpy as np

from audit.analyses.length_rows import LengthRows, centred
from audit.analyses.length_truncation import within_group_slope
from audit.facts.rows import dense
from audit.stats import Estimate, bootstrap, cluster_sums, estimate


class RewardLength(msgspec.Struct, frozen=True):
    """Reward against length within group; per token of the length's unit."""

    slope: Estimate
    """Reward per token of length, within group."""
    slope_equal: Estimate
    """The same among responses that are equally correct: what correctness cannot explain."""
    explained: Estimate
    """Share of the variance of the advantage within group that length alone explains (R²); by chance it is
    about 1 / n."""
    groups: int
    """Groups of two scored responses or more."""
    groups_alike: int | None
    """Those in which all are equally correct and rewards differ all the same; None where correctness is not
    known."""


@np.errstate(over="ignore", invalid="ignore")
def reward_length(data: LengthRows, advantage: np.ndarray | None) -> RewardLength:
    """Measure it; ``advantage`` of shape (R,), None where it cannot be formed (the reward stands in then)."""
    reward = data.rows.numpy("reward")
    scored = data.use & np.isfinite(reward)
    target = reward if advantage is None else advantage
    code, groups = dense(data.group[scored]), 0
    size = np.bincount(code) if len(code) else np.zeros(0, dtype=np.int64)
    groups = int((size >= 2).sum())
    known = scored & np.isfinite(data.correct)
    equal = Estimate(None, None, None, 0)
    if data.absolute:
        alike = dense(data.group, np.nan_to_num(data.correct, nan=-1.0))
        equal = within_group_slope(data, known, data.length, reward, alike)
    return RewardLength(
        slope=within_group_slope(data, scored, data.length, reward),
        slope_equal=equal,
        explained=_explained(data, scored & np.isfinite(target), target),
        groups=groups,
        groups_alike=_alike(data, scored, reward) if data.absolute else None,
    )


def _explained(data: LengthRows, use: np.ndarray, target: np.ndarray) -> Estimate:
    n = int(use.sum())
    if n < 3:
        return Estimate(None, None, None, n)
    x, y = centred(data.length[use], data.group[use]), centred(target[use], data.group[use])
    cluster = dense(data.cluster[use])
    sums = cluster_sums(np.column_stack([x * y, x * x, y * y]), cluster)
    return estimate(bootstrap(sums, _r_square), n)


def _r_square(totals: np.ndarray) -> np.ndarray:
    xy, xx, yy = (totals[..., at : at + 1] for at in range(3))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return np.asarray(xy * xy / (xx * yy))


def _alike(data: LengthRows, scored: np.ndarray, reward: np.ndarray) -> int:
    """Groups of one correctness with more than one reward."""
    code = dense(data.group[scored])
    if not len(code):
        return 0
    count = int(code.max()) + 1

    def span(values: np.ndarray) -> np.ndarray:
        low, high = np.full(count, np.inf), np.full(count, -np.inf)
        np.minimum.at(low, code, values)
        np.maximum.at(high, code, values)
        return np.asarray(high - low)

    side = np.nan_to_num(data.correct[scored], nan=-1.0)
    known = np.bincount(code, weights=side >= 0) == np.bincount(code)
    return int((known & (span(side) == 0) & (span(reward[scored]) > 0)).sum())

"""Which columns of a TRL completions file are rewards, and what they sum to.

The file has one column per reward function and then the columns of ``log_extra``, unmarked. The advantages
tell them apart: they follow from the total reward.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

_EXACT = 1e-3
"""Relative misfit below which the total explains the advantages (float32 and epsilon included)."""


class TotalReward(NamedTuple):
    """The reward that made the advantages, and its parts."""

    total: np.ndarray
    """float64, shape (R,); NaN where no reward function applied."""
    parts: dict[str, np.ndarray]
    note: str


def total_reward(
    columns: dict[str, np.ndarray], advantage: np.ndarray, group: np.ndarray | None, weights: Any
) -> TotalReward:
    """Sum the reward columns as TRL does: weighted, NaN left out, NaN where all are NaN.

    Parameters
    ----------
    columns : dict of ndarray, shape (R,)
        Numeric columns in file order; rewards come first.
    group : ndarray or None, shape (R,)
        Group of each row, to test a sum against the advantages.
    weights
        ``reward_weights`` of the config, or None: all 1.
    """
    names = list(columns)
    if not names:
        return TotalReward(np.full(len(advantage), np.nan), {}, "no reward column: rewards are unknown")
    given = _numbers(weights)
    counts = [len(given)] if given and len(given) <= len(names) else list(range(1, len(names) + 1))
    best: tuple[float, int, np.ndarray] | None = None
    for count in counts:
        use = np.column_stack([columns[name] for name in names[:count]])
        total = _weighted(use, given[:count] if given else [1.0] * count)
        misfit = _misfit(total, advantage, group)
        if best is None or misfit < best[0] - 1e-9:
            best = (misfit, count, total)
    assert best is not None
    misfit, count, total = best
    parts = {name: columns[name] for name in names[:count]}
    listed, others = " + ".join(names[:count]), ", ".join(names[count:])
    if misfit <= _EXACT:
        rest = f"; not rewards: {others}" if others else ""
        return TotalReward(total, parts, f"reward = {listed}, confirmed by the advantages{rest}")
    if len(names) == 1 or (given and len(given) == len(names)):
        return TotalReward(total, parts, f"reward = {listed}, not confirmed by the advantages")
    unknown = np.full(len(advantage), np.nan)
    note = (
        f"which of {', '.join(names)} are rewards, and with which weights, does not follow from the "
        "advantages: the reward is unknown; reward_weights in the config of run.json would say it"
    )
    return TotalReward(unknown, columns, note)


def _numbers(weights: Any) -> list[float] | None:
    """Reward weights as numbers; None where they are not a list of numbers."""
    if not isinstance(weights, list) or not all(isinstance(w, (int, float)) for w in weights):
        return None
    if not np.isfinite(np.asarray(weights, dtype=float)).all():
        return None
    return [float(w) for w in weights] or None


def _weighted(columns: np.ndarray, weights: list[float]) -> np.ndarray:
    total = np.nansum(columns * np.asarray(weights), axis=1)
    total[np.isnan(columns).all(axis=1)] = np.nan
    return np.asarray(total)


def _misfit(total: np.ndarray, advantage: np.ndarray, group: np.ndarray | None) -> float:
    """1 - |correlation| between advantages and rewards centred by group, over groups with signal."""
    if group is None:
        return np.inf
    finite = np.isfinite(total) & np.isfinite(advantage)
    if not finite.any():
        return np.inf
    code = group[finite]
    size = np.maximum(np.bincount(code), 1)
    centred = total[finite] - (np.bincount(code, weights=total[finite]) / size)[code]
    made = advantage[finite]
    scale = np.sqrt(np.bincount(code, weights=centred**2) / size)
    alive = scale[code] > 1e-6
    power = np.sqrt(np.bincount(code, weights=made**2) / size)
    if not alive.any() or np.any((power[code] > 1e-2) & ~alive):
        return np.inf
    a, b = centred[alive] / scale[code][alive], made[alive] / np.maximum(power[code][alive], 1e-12)
    return float(np.mean((a - b) ** 2))

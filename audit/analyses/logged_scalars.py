"""Scalars that a trainer logged, each held against the rows of the updates that it speaks of."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from audit.facts.rows import RunRows, dense
from audit.logs.metrics import Metrics

NAMES: dict[str, tuple[str, ...]] = {
    "loss": ("loss", "actor/pg_loss", "actor/loss", "policy_loss", "train/loss", "train/policy_loss"),
    "clip_low": ("clip_ratio/low_mean",),
    "clip_high": ("clip_ratio/high_mean",),
    "clip": ("clip_ratio/region_mean", "clip_ratio", "actor/pg_clipfrac", "ppo_clip_ratio", "clip_fraction"),
    "kl": ("kl", "actor/kl_loss", "train/kl"),
    "reward": ("reward", "critic/score/mean", "train/reward"),
    "learning_rate": ("learning_rate", "actor/lr", "actor_lr", "train/learning_rate", "lr"),
}
"""What is looked for → the names that trainers give it, the first that was logged is taken.

Read: TRL 1.16 grpo_trainer.py, verl 0.9 core_algos.py and metric_utils.py, OpenRLHF 0.10 ppo_actor.py.
"""
WITHOUT_KL = frozenset({"actor/pg_loss", "policy_loss", "train/policy_loss"})
"""Names of losses that hold the policy's part alone: a KL in the loss is logged beside them."""
_DECIMALS = (3, 4, 5, 6)


class Series(NamedTuple):
    """One scalar: W logged values, and the rows that each was taken over."""

    name: str
    """As it was logged."""
    value: np.ndarray
    """float64, shape (W,)."""
    key: np.ndarray
    """Step or update of each value, float64, shape (W,)."""
    window: np.ndarray
    """Index of the value that a row enters, int64, shape (R,); -1: none."""
    rounding: float
    """Half a unit of the last decimal that is logged; 0 where values look unrounded."""


def series(rows: RunRows, metrics: Metrics, what: str) -> Series | None:
    """Return the scalar of a name of :data:`NAMES`, or None where it was not logged.

    A value covers every update since the value before it (a trainer that logs every ten steps logs their
    mean). Windows that hold fewer updates than most are dropped: rows of them are missing.
    """
    name = next((name for name in NAMES[what] if name in metrics.names), None)
    if name is None:
        return None
    use = (metrics.name == name) & np.isfinite(metrics.value)
    by_update = rows.has("update") and not rows.table["update"].null_count
    given, logged = (
        (metrics.update, rows.numpy("update")) if by_update else (metrics.step, rows.numpy("step"))
    )
    if np.isnan(given[use]).any():
        given, logged = metrics.step, rows.numpy("step")
    use &= np.isfinite(given)
    if not use.any():
        return None
    of_slice = metrics.micro_batch[use]
    if np.isfinite(of_slice).all():
        window = _in_slice(rows, given[use], of_slice, logged)
        return _whole(name, metrics.value[use], given[use], window, rows.update)
    use[np.flatnonzero(use)[np.isfinite(of_slice)]] = False
    # The last value of a key counts: a resumed run logs a step again.
    key, at = np.unique(given[use][::-1], return_index=True)
    value = metrics.value[use][::-1][at]
    return _whole(name, value, key, _between(logged, key), rows.update)


def _in_slice(rows: RunRows, key: np.ndarray, of_slice: np.ndarray, logged: np.ndarray) -> np.ndarray:
    """Index of the value of each row's own micro-batch; -1 where there is none."""
    if not rows.has("micro_batch"):
        return np.full(rows.num_rows, -1)
    at = {pair: place for place, pair in enumerate(zip(key.tolist(), of_slice.tolist(), strict=True))}
    pairs = zip(logged.tolist(), rows.numpy("micro_batch").tolist(), strict=True)
    return np.array([at.get(pair, -1) for pair in pairs], dtype=np.int64)


def _between(logged: np.ndarray, key: np.ndarray) -> np.ndarray:
    """Index of the first key not below a row's; -1 past the last, and before what the first covers."""
    window = np.searchsorted(key, logged, side="left")
    reach = float(np.median(np.diff(key))) if len(key) > 1 else 1.0
    return np.where((window < len(key)) & (logged > key[0] - reach), window, -1)


def _whole(
    name: str, value: np.ndarray, key: np.ndarray, window: np.ndarray, update: np.ndarray
) -> Series | None:
    inside = window >= 0
    if not inside.any():
        return None
    code = dense(window[inside], update[inside])
    first = np.unique(code, return_index=True)[1]
    updates = np.bincount(window[inside][first], minlength=len(value))
    usual = np.bincount(updates[updates > 0]).argmax()
    kept = updates == usual
    new = np.where(kept, np.cumsum(kept) - 1, -1)
    return Series(name, value[kept], key[kept], np.where(inside, new[window], -1), _rounding(value[kept]))


def _rounding(value: np.ndarray) -> float:
    for decimals in _DECIMALS:
        if np.abs(value * 10**decimals - np.round(value * 10**decimals)).max(initial=0.0) < 1e-6:
            return 0.5 * 10.0**-decimals if np.any(value) else 0.0
    return 0.0

"""Logged scalars set beside what the rows give, update by update or step by step."""

from __future__ import annotations

import numpy as np

from audit.analyses.checks.look import Look
from audit.logs.metrics import read_metrics


def by_update(look: Look, name: str, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Pair each logged value with the sum of ``values`` over its update, or its step's mean over updates.

    Parameters
    ----------
    name : str
        A logged scalar.
    values : ndarray, shape (R,), float64
        Parts of a sum over the rows of an update.

    Returns
    -------
    tuple of ndarray
        Logged and own values, of the updates or steps that have both; a scalar that was logged every few
        steps is paired with the mean over the steps since the last.
    """
    logged = read_metrics(look.run)
    use = (logged.name == name) & np.isfinite(logged.value)
    update, rows = logged.update[use], look.rows
    code = rows.update
    total = np.bincount(code, weights=values)
    first = np.unique(code, return_index=True)[1]
    if look.run.columns >= {"update"} and np.isfinite(update).all() and len(update):
        own = rows.numpy("update")[first]
        return _paired(update, logged.value[use], own, total)
    of_step = rows.step[first]
    steps, place = np.unique(of_step, return_inverse=True)
    mean = np.bincount(place, weights=total) / np.bincount(place)
    at, value = logged.step[use], logged.value[use]
    known, where = np.unique(at[np.isfinite(at)], return_inverse=True)
    value = np.bincount(where, weights=value[np.isfinite(at)]) / np.maximum(np.bincount(where), 1)
    if len(known) > 1 and len(steps) > 1 and np.diff(known).min() > np.diff(steps).max():
        held = np.searchsorted(known, steps)
        inside = held < len(known)
        mean = np.bincount(held[inside], weights=mean[inside], minlength=len(known)) / np.maximum(
            np.bincount(held[inside], minlength=len(known)), 1
        )
        return value[1:], mean[1:]
    return _paired(known, value, steps.astype(float), mean)


def _paired(
    at: np.ndarray, value: np.ndarray, own_at: np.ndarray, own: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Mean of the logged values of each place that both have, beside the own one."""
    known, where = np.unique(at, return_inverse=True)
    mean = np.bincount(where, weights=value) / np.maximum(np.bincount(where), 1)
    _, left, right = np.intersect1d(known, own_at, return_indices=True)
    return mean[left], own[right]


def of_evaluation(name: str) -> bool:
    """Whether a scalar belongs to an evaluation by its section, as ``eval/reward`` does."""
    return any(part.startswith(("eval", "val", "test")) for part in name.lower().split("/"))


def rounding(values: np.ndarray) -> float:
    """Half the last decimal of values that were rounded to 3 to 6 of them; 0 where they were not."""
    for digits in (3, 4, 5, 6):
        if np.allclose(values, np.round(values, digits), rtol=0, atol=1e-9):
            return float(0.5 * 10.0**-digits)
    return 0.0


def closeness(logged: np.ndarray, own: np.ndarray, slack: float) -> float:
    """Root of Σ (logged - own)² / Σ logged², differences within ``slack`` not counted."""
    apart = np.maximum(np.abs(logged - own) - slack, 0.0)
    return float(np.sqrt((apart @ apart) / max(float(logged @ logged), 1e-300)))

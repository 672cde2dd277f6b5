"""Parts of the reward by name, and how they add up to it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from audit.analyses.samples import Samples
from audit.facts.rows import RunRows
from audit.objectives.arrays import silent

EXACT = 1e-5
"""Misfit, in standard deviations of the reward, up to which components make the reward; float32 rounding."""


@dataclass(frozen=True)
class Components:
    """C components of S samples, and the reward as a sum of them."""

    names: list[str]
    values: np.ndarray
    """Float64, shape (S, C); NaN where not given or not finite."""
    weights: np.ndarray
    """Shape (C,); NaN for a component that never varies: no weight can be told."""
    how: str
    """``sum``, ``fitted`` or ``fitted with misfit``."""
    alike: list[str]
    """Components that determine each other, so that their weights cannot be told apart."""

    @property
    def contributions(self) -> np.ndarray:
        """Weight times value, shape (S, C); 0 where not given, as where a trainer sums over what there is."""
        return np.asarray(np.nan_to_num(self.values) * np.nan_to_num(self.weights))


def component_values(rows: RunRows) -> dict[str, np.ndarray]:
    """Every logged component by name, float64, shape (R,), NaN where not given; names in order."""
    column = rows.run.responses(["reward_components"])["reward_components"]
    names = sorted({name for chunk in column.chunks for name in pc.unique(chunk.keys).to_pylist()})
    found = {}
    for name in names:
        parts = [
            pc.map_lookup(chunk, pa.scalar(name, pa.string()), "last").to_numpy(zero_copy_only=False)
            for chunk in column.chunks
        ]
        values = np.concatenate([np.zeros(0), *parts]).astype(np.float64)
        if not np.isnan(values).all():
            found[name] = values
    return found


@silent
def components_of(samples: Samples, values: dict[str, np.ndarray]) -> Components:
    """Bring components to samples, and find the weights by which they make the reward.

    Weights of 1 are tried first; where the plain sum is not the reward, least squares with an intercept.
    """
    names = list(values)
    table = np.column_stack([_per_sample(samples, values[name]) for name in names])
    given = np.nan_to_num(table)
    reward = samples.reward
    unit = float(reward.std()) if len(reward) else 0.0
    unit = unit or max(float(np.abs(reward).max(initial=0.0)), 1.0)
    varies = np.ptp(given, axis=0) > 0 if len(given) else np.zeros(len(names), dtype=bool)
    weights = np.where(varies, 1.0, np.nan)
    if float(np.abs(reward - given.sum(axis=1)).max(initial=0.0)) <= EXACT * unit:
        return Components(names, table, weights, "sum", [])
    design = np.column_stack([given[:, varies], np.ones(len(given))])
    scale = np.maximum(np.abs(design).max(axis=0, initial=0.0), 1e-300)
    solved, _, rank, _ = np.linalg.lstsq(design / scale, reward, rcond=1e-9)
    weights[varies] = (solved / scale)[:-1]
    # What is left of a weight of 0 by rounding would pass for a component that varies.
    small = np.abs(np.nan_to_num(weights)) * np.ptp(given, axis=0) <= EXACT * unit
    weights[small & varies] = 0.0
    misfit = float(np.abs(reward - design @ (solved / scale)).max(initial=0.0))
    how = "fitted" if misfit <= EXACT * unit else "fitted with misfit"
    tied = [name for name, on in zip(names, varies, strict=True) if on] if rank < design.shape[1] else []
    return Components(names, table, weights, how, tied)


def _per_sample(samples: Samples, values: np.ndarray) -> np.ndarray:
    """Mean over the rows of each sample that have a finite value."""
    use = (samples.of_row >= 0) & np.isfinite(values)
    count = np.bincount(samples.of_row[use], minlength=len(samples.reward))
    total = np.bincount(samples.of_row[use], weights=values[use], minlength=len(samples.reward))
    return np.asarray(np.divide(total, count, out=np.full(len(count), np.nan), where=count > 0))

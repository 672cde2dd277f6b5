"""How far apart runs came out: differences of their means in units of the noise between seeds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from audit.analyses.distances import DistanceMatrix, pairs_of, squared
from audit.analyses.outcomes import first_pass
from audit.analyses.run_fields import Configuration
from audit.analyses.run_outcomes import METRICS, RunOutcome, last_step
from audit.analyses.seed_noise import seed_noise
from audit.analyses.skipped import Skipped
from audit.facts.rows import RunRows
from audit.stats import bootstrap, cluster_sums


def outcome_distances(
    labels: Sequence[str],
    runs: Sequence[RunRows],
    outcomes: Sequence[RunOutcome],
    metrics: Sequence[str],
    groups: Sequence[Configuration],
) -> tuple[DistanceMatrix | None, list[Skipped]]:
    """Root mean square difference of the means of every pair of runs, in standard deviations between seeds.

    Returns
    -------
    matrix : DistanceMatrix or None
        None where no configuration has two seeds: then nothing says what a difference is to be held against.
    skipped : list of Skipped
    """
    noise, freedom = seed_noise(outcomes, metrics, groups)
    if not noise:
        return None, [Skipped("outcome distances", "two runs of one configuration, with different seeds")]
    used = list(noise)
    scale = np.array([noise[metric] for metric in used])
    last, pairs = last_step(runs), np.array(pairs_of(len(runs)), dtype=np.int64).reshape(-1, 2)
    blocks, prompts, n = [], [], 0
    for at, rows in enumerate(runs):
        use = first_pass(rows) & (rows.step <= last)
        columns = np.zeros((int(use.sum()), len(runs), len(used), 2))
        for k, metric in enumerate(used):
            values = METRICS[metric][0](rows)
            assert values is not None
            finite = np.isfinite(values[use])
            columns[:, at, k, 0] = np.where(finite, values[use], 0.0)
            columns[:, at, k, 1] = finite
        ids = np.array(rows.table["prompt_id"].to_pylist(), dtype=object).astype(str)[use]
        names, codes = np.unique(ids, return_inverse=True)
        blocks.append(cluster_sums(columns.reshape(len(ids), -1), codes))
        prompts.append(names)
        n += len(ids)
    _, codes = np.unique(np.concatenate(prompts), return_inverse=True)

    def statistic(totals: np.ndarray) -> np.ndarray:
        sums = totals.reshape(*totals.shape[:-1], len(runs), len(used), 2)
        with np.errstate(divide="ignore", invalid="ignore"):
            means = sums[..., 0] / sums[..., 1]
        gap = (means[..., pairs[:, 0], :] - means[..., pairs[:, 1], :]) / scale
        return np.asarray(np.sqrt((gap**2).mean(axis=-1)))

    interval = bootstrap(cluster_sums(np.vstack(blocks), codes), statistic)
    matrix = DistanceMatrix(
        measure=f"root mean square difference of {', '.join(used)}",
        unit="standard deviations between seeds",
        runs=list(labels),
        values=squared(interval, n, range(len(runs))),
        on=list(labels),
        n=n,
        note=f"noise between seeds from {freedom} degree{'s' if freedom != 1 else ''} of freedom",
    )
    return matrix, []

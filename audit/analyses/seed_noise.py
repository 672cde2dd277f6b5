"""How far the outcomes of runs scatter that differ in the seed alone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from audit.analyses.run_fields import Configuration
from audit.analyses.run_outcomes import RunOutcome
from audit.objectives.arrays import silent


@silent
def seed_noise(
    outcomes: Sequence[RunOutcome], metrics: Sequence[str], groups: Sequence[Configuration]
) -> tuple[dict[str, float], int]:
    """Standard deviation between seeds, pooled over configurations, and its degrees of freedom.

    Pooled variance: Σ within-configuration squared deviations / Σ (seeds - 1). A metric that does not vary
    between seeds is left out.
    """
    by_run = {outcome.run: outcome.means for outcome in outcomes}
    freedom = sum(len(group.runs) - 1 for group in groups)
    noise = {}
    for metric in metrics:
        squares = 0.0
        for group in groups:
            means = np.array([by_run[run][metric].value for run in group.runs], dtype=float)
            squares += float(((means - means.mean()) ** 2).sum())
        if freedom and squares > 0:
            noise[metric] = float(np.sqrt(squares / freedom))
    return noise, freedom

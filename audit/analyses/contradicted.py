"""At which steps the logged advantages are not those of the declared objective."""

from __future__ import annotations

import numpy as np

from audit.analyses.infer_problem import EXACT
from audit.errors import AuditError
from audit.facts.rows import RunRows
from audit.facts.weigh import coefficients_of
from audit.objectives.arrays import silent
from audit.objectives.objective import Aggregation, Objective


@silent
def contradicted_steps(rows: RunRows, declared: Objective) -> tuple[tuple[int, ...], int]:
    """Steps whose advantages the declared objective does not reproduce, ascending, and how many were asked.

    A step is contradicted where the misfit of its rows exceeds float32's, relative to the advantages of the
    run. Without any step where the declared advantages cannot be formed.
    """
    logged = rows.logged_advantage
    if logged is None:
        return (), 0
    try:
        # What scales the loss has no part in an advantage, and its constant may be unknown.
        plain = declared.replace(aggregation=Aggregation(scope=declared.aggregation.scope))
        own = np.asarray(coefficients_of(rows, plain).advantage)
    except AuditError:
        return (), 0
    use = ~rows.greedy & np.isfinite(logged) & np.isfinite(own)
    steps, at = np.unique(rows.step[use], return_inverse=True)
    # In units of the largest one, whose square is finite.
    unit = float(np.abs(logged[use]).max(initial=0.0)) or 1.0
    apart = np.bincount(at, weights=(logged[use] / unit - own[use] / unit) ** 2)
    apart = np.sqrt(apart / np.maximum(np.bincount(at), 1))
    size = np.sqrt(np.mean((logged[use] / unit) ** 2)) if use.any() else 0.0
    return tuple(int(step) for step in steps[apart > 10 * EXACT * size]), len(steps)


def since_words(steps: tuple[int, ...], asked: int) -> str:
    """Say which steps are contradicted, where others are not; empty where all of them are, or none."""
    if not steps or len(steps) == asked:
        return ""
    same = asked - len(steps)
    return f" At {same} of {asked} steps they are as declared; the first that differs is step {steps[0]}."

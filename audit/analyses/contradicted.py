"""At which steps, and in what, the logged advantages are not those of the declared objective."""

from __future__ import annotations

from typing import Any

import numpy as np

from audit.analyses.infer import Inference
from audit.analyses.infer_candidate import GROUPED_BY_ID, LEFT_OUT, Candidate
from audit.analyses.infer_problem import EXACT
from audit.errors import AuditError
from audit.facts.rows import RunRows
from audit.facts.weigh import coefficients_of
from audit.objectives.arrays import silent
from audit.objectives.objective import Aggregation, Objective, differing_fields

_FEW = 2
"""Fields that are told one by one; of more, the whole formula is."""


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


def advantages_in_words(inferred: Inference, declared: Objective | None) -> str:
    """Say which declared fields are not those of the advantages, else what fits these: ends a sentence."""
    if inferred.status != "fits" or inferred.best is None:
        return "; no candidate fits them either"
    fields = differing(inferred, declared)
    if not fields:
        return f"; they fit {inferred.best.describe()}"
    told = [f"{field} ({_value(was)} declared, {_value(now)} logged)" for field, was, now in fields]
    differ = "differs" if len(told) == 1 else "differ"
    return f": only {' and '.join(told)} {differ}; put what was trained into run.json"


def differing(inferred: Inference, declared: Objective | None) -> list[tuple[str, Any, Any]]:
    """(field, declared, logged) where few fields alone make the logged advantages; else empty.

    Of the candidates that fit, those nearest to the declaration; where they change different fields, or one
    field to different values, the log does not say which it is.
    """
    if declared is None or inferred.status != "fits":
        return []
    made = [c.objective(declared) for c in inferred.equivalent if _plain(c)]
    found = [fields for o in made if o is not None and (fields := differing_fields(declared, o))]
    least = min(map(len, found), default=_FEW + 1)
    nearest = [fields for fields in found if len(fields) == least]
    one = all(fields == nearest[0] for fields in nearest)
    # Of a part that is switched on, its kind alone is listed: the formula says the rest.
    on = any(field.endswith(".kind") and was == "none" for fields in nearest for field, was, _ in fields)
    return nearest[0] if least <= _FEW and one and not on else []


def _plain(candidate: Candidate) -> bool:
    """Whether an objective says all of a candidate."""
    counted = candidate.missing == LEFT_OUT and candidate.not_counted is None
    return counted and candidate.grouping == GROUPED_BY_ID


def _value(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else "none" if value is None else str(value)

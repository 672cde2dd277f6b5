"""The generation budget of a run, which some aggregations divide by."""

from __future__ import annotations

import msgspec
import numpy as np

from audit.facts.rows import RunRows
from audit.logs import Run
from audit.objectives.objective import Objective

_BUDGETS = ("max_completion_length", "max_new_tokens", "max_tokens", "response_length", "max_response_length")

_UNBOUNDED = 2**40
"""No response has as many tokens: a budget beyond it means that there is none."""


def with_budget(objective: Objective, rows: RunRows) -> tuple[Objective, str | None]:
    """Fill in the constant of a ``-norm`` aggregation from the run's generation budget.

    Without a budget in run.json the longest response of the log stands in, and the note says so: the
    direction of the weights is exact then, their scale is not.
    """
    aggregation = objective.aggregation
    if not aggregation.kind.endswith("-norm") or aggregation.constant is not None:
        return objective, None
    budget, note = generation_budget(rows.run), None
    if budget is None:
        longest = rows.length[~np.isnan(rows.length)]
        budget = float(longest.max(initial=1.0))
        note = (
            f"{objective.name} divides by a generation budget, which run.json does not give; the longest "
            f"response ({budget:g} tokens) stands in: the weights' direction is exact, their scale is not."
        )
    return objective.replace(aggregation=msgspec.structs.replace(aggregation, constant=budget)), note


def generation_budget(run: Run) -> float | None:
    """Longest response that the run allowed, in tokens, as run.json gives it; None where it does not."""
    for place in (run.manifest.sampling, run.manifest.config):
        for key in _BUDGETS:
            value = (place or {}).get(key)
            if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < _UNBOUNDED:
                return float(value)
    return None

"""An objective as a log can carry it: without what needs missing columns, complete with its budget."""

from __future__ import annotations

from audit.errors import BadManifest, BadObjective
from audit.facts.budget import with_budget
from audit.facts.chosen import chosen_objective
from audit.facts.rows import RunRows
from audit.objectives.needs import reduced
from audit.objectives.objective import Objective


def fitted(rows: RunRows, objective: Objective) -> tuple[Objective, list[str]]:
    """Return the objective to weigh a run with, and what had to be taken out or assumed."""
    objective, missing = reduced(objective, rows.run.columns)
    objective, note = with_budget(objective, rows)
    taken = [f"{part} taken out: the log has no {column}" for part, column in missing]
    return objective, [*taken, note] if note else taken


def own_objective(rows: RunRows) -> tuple[Objective | None, list[str]]:
    """The run's own objective and what was assumed; None, with the reason, where run.json gives none."""
    try:
        return chosen_objective(rows, None)
    except (BadObjective, BadManifest) as error:
        return None, [str(error)]

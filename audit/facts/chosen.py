"""The objective that an analysis uses: the one asked for, or the run's own as it was applied."""

from __future__ import annotations

from audit.errors import BadObjective
from audit.facts.budget import with_budget
from audit.facts.declared import declared_objective, label, undeclared
from audit.facts.rows import RunRows
from audit.facts.weigh import as_applied
from audit.objectives.objective import Objective


def chosen_objective(rows: RunRows, asked: Objective | None) -> tuple[Objective, list[str]]:
    """Return the objective to weigh a run with, complete with its constant, and what was assumed.

    The run's own objective is applied to the advantages that the trainer used, where they are logged; another
    objective recomputes them from the rewards.

    Raises
    ------
    BadObjective
        None was asked for and run.json declares none.
    BadManifest
        The declaration of run.json cannot be read.
    """
    notes: list[str] = []
    if asked is None:
        declared = declared_objective(rows.run)
        if declared is None:
            msg = f"{rows.run.path}: {undeclared(rows.run)}; name an objective with --objective."
            raise BadObjective(msg)
        notes += declared.notes
        own = declared.objective
        asked = as_applied(rows, own.replace(name=label(own)))
    objective, note = with_budget(asked, rows)
    return objective, [*notes, note] if note else notes

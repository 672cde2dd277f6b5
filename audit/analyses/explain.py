"""Why do two runs disagree? Declared, inferred, objective, data, numerics, timeline, verdict."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np

from audit.analyses.config_effect import config_causes
from audit.analyses.differences import differences, read_ahead
from audit.analyses.effect import ObjectiveEffect, describe_changes, objective_effects
from audit.analyses.findings import Cause, Effect
from audit.analyses.infer import Inference, infer
from audit.analyses.outcome_effect import outcome_effects
from audit.analyses.pair import Pair
from audit.analyses.skipped import Skipped
from audit.analyses.timeline import Timeline, timeline
from audit.analyses.verdict import Verdict, decide
from audit.errors import AuditError
from audit.facts.declared import DeclaredObjective, declared_objective
from audit.facts.rows import RunRows
from audit.logs import Run
from audit.objectives.objective import Baseline, Objective, Scale, differing_fields


class FieldDifference(msgspec.Struct, frozen=True):
    """One field in which the declared objectives differ."""

    field: str
    a: Any
    b: Any


class DeclaredPair(msgspec.Struct, frozen=True):
    """What both runs declare."""

    a: dict[str, Any] | None
    b: dict[str, Any] | None
    differs: list[FieldDifference]
    notes: list[str] = []


class InferredPair(msgspec.Struct, frozen=True):
    """What both logs say about their advantages."""

    a: Inference
    b: Inference


class RunId(msgspec.Struct, frozen=True):
    """A run under comparison."""

    id: str
    responses: int
    steps: int
    tier: int
    format: str = "rlaudit"
    """Format of the log that was read."""


class Explanation(msgspec.Struct, frozen=True):
    """The contract of ``rlaudit explain --json`` (schemas/explain.v1.schema.json)."""

    runs: list[RunId]
    declared: DeclaredPair
    inferred: InferredPair
    effects: list[ObjectiveEffect]
    outcomes: list[Effect]
    measured: list[Effect]
    """Data, tokens and log-probs of the two runs, compared; most are no cause."""
    notes: list[str]
    """Oddities of both runs, which explain no difference."""
    timeline: Timeline
    skipped: list[Skipped]
    verdict: Verdict
    schema: str = "rlaudit.explain.v1"


def explain(a: Run, b: Run) -> Explanation:
    """Compare two runs, from their declarations down to their tokens.

    Raises
    ------
    AuditError
        A log cannot be read.
    """
    rows_a, rows_b = RunRows.read(a), RunRows.read(b)
    for rows in (rows_a, rows_b):
        read_ahead(rows)
    pair = Pair(rows_a, rows_b)
    declared_a, note_a = _declared(a)
    declared_b, note_b = _declared(b)
    inferred_a = infer(rows_a, declared_a.objective if declared_a else None)
    inferred_b = infer(rows_b, declared_b.objective if declared_b else None)
    objective_a = _best_known(declared_a, inferred_a, declared_b)
    objective_b = _best_known(declared_b, inferred_b, declared_a)

    skipped = [
        Skipped(f"rows of {run.run_id} in {s.path.name}", f"a readable file of rollouts ({s.reason})")
        for run in (a, b)
        for s in run.skipped
    ]
    effects: list[ObjectiveEffect] = []
    if objective_a is None or objective_b is None:
        lacking = [run.run_id for run, known in ((a, objective_a), (b, objective_b)) if known is None]
        either = f"a declared objective, or logged advantages, of {' and '.join(lacking)}"
        skipped.append(Skipped("objective effect", either))
    else:
        skipped += [
            Skipped("objective effect beyond baseline and scale", f"a declared objective of {run.run_id}")
            for run, declared in ((a, declared_a), (b, declared_b))
            if declared is None
        ]
        effects, missing = objective_effects([rows_a, rows_b], objective_a, objective_b)
        skipped += missing
        skipped += [skip for effect in effects for skip in effect.not_compared]

    config, missing = config_causes(a, b)
    skipped += missing
    looked, missing = differences(pair, config)
    skipped += missing
    outcomes, missing = outcome_effects(pair)
    skipped = list(dict.fromkeys(skipped + missing))
    course = timeline(pair, (objective_a, objective_b))

    differs: list[FieldDifference] = []
    changes: dict[str, str] | None = None
    if declared_a and declared_b:
        fields = differing_fields(declared_a.objective, declared_b.objective)
        differs = [FieldDifference(field, va, vb) for field, va, vb in fields]
        changes = describe_changes(declared_a.objective, declared_b.objective)
    return Explanation(
        runs=[
            RunId(r.run.run_id, r.num_rows, len(np.unique(r.step)), r.run.tier, r.run.format)
            for r in (rows_a, rows_b)
        ],
        declared=DeclaredPair(
            a=declared_a.objective.to_dict() if declared_a else None,
            b=declared_b.objective.to_dict() if declared_b else None,
            differs=differs,
            notes=[note for note in (note_a, note_b) if note]
            + [note for d in (declared_a, declared_b) if d for note in d.notes],
        ),
        inferred=InferredPair(inferred_a, inferred_b),
        effects=effects,
        outcomes=outcomes,
        measured=looked.measured,
        notes=looked.notes,
        timeline=course,
        skipped=skipped,
        verdict=decide(
            effects,
            looked.causes,
            (inferred_a, inferred_b),
            outcomes,
            changes=changes,
            skipped=skipped,
            not_identifiable=looked.unseen,
            parted=course.parted,
            same_log=a.path.resolve() == b.path.resolve(),
        ),
    )


def _declared(run: Run) -> tuple[DeclaredObjective | None, str]:
    try:
        declared = declared_objective(run)
    except AuditError as error:
        return None, str(error)
    return declared, "" if declared else f"{run.run_id} declares no objective"


def _best_known(
    declared: DeclaredObjective | None, inferred: Inference, other: DeclaredObjective | None
) -> Objective | None:
    """The declared objective, its advantages corrected by what the log shows.

    Advantages show the baseline and the scale alone: without a declaration every other part is taken from
    the other run, so that what is unknown is not told as a difference.
    """
    if declared is not None and inferred.agrees is not False:
        return declared.objective
    if inferred.best is None or inferred.status != "fits":
        return declared.objective if declared is not None else None
    best = inferred.best
    seen = {
        "baseline": Baseline(kind=best.baseline),  # type: ignore[arg-type]
        "scale": Scale(kind=best.scale, ddof=best.ddof or 0, epsilon=best.epsilon or 0.0),  # type: ignore[arg-type]
    }
    if declared is not None:
        return declared.objective.replace(**seen)
    return (other.objective if other is not None else Objective()).replace(name="inferred", **seen)


__all__ = ["Cause", "Explanation", "explain"]

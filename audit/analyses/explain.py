"""Why do two runs disagree? Declared, inferred, objective, data, numerics, timeline, verdict."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from audit.analyses.config_effect import config_causes
from audit.analyses.differences import differences, read_ahead
from audit.analyses.effect import ObjectiveEffect, describe_changes, objective_effects
from audit.analyses.findings import Cause, Effect
from audit.analyses.first_difference import first_difference
from audit.analyses.infer import Inference, infer
from audit.analyses.infer_metrics import infer_metrics
from audit.analyses.known_parts import Side, still_open, unseen_parts, with_loss_parts
from audit.analyses.loss_inference import LossInference
from audit.analyses.outcome_effect import outcome_effects
from audit.analyses.overflow import overflow_notes
from audit.analyses.pair import Pair
from audit.analyses.reward_weights import explained, reward_weights, with_weights
from audit.analyses.skipped import Skipped
from audit.analyses.timeline import Timeline, timeline
from audit.analyses.verdict import Verdict, decide
from audit.errors import AuditError
from audit.facts.declared import DeclaredObjective, declared_objective
from audit.facts.rows import RunRows
from audit.logs import Run
from audit.logs.metrics import read_metrics
from audit.objectives.objective import Objective, differing_fields


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


class LossPair(msgspec.Struct, frozen=True):
    """What the scalars of both trainers say."""

    a: LossInference
    b: LossInference


class InferredPair(msgspec.Struct, frozen=True):
    """What both logs say about their advantages, and about the loss that was made of them."""

    a: Inference
    b: Inference
    metrics: LossPair


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
    first_difference: str | None = None
    """Where two logs of the same samples first differ, row by row; null where they never held the same."""
    schema: str = "rlaudit.explain.v1"


@dataclass(frozen=True)
class Known:
    """What one log says by itself: read once, however many runs it is compared with."""

    rows: RunRows
    declared: DeclaredObjective | None
    note: str
    """Why there is no declared objective; empty where there is."""
    inferred: Inference
    side: Side


def known(run: Run) -> Known:
    """Read what one log says by itself.

    Raises
    ------
    AuditError
        The log cannot be read.
    """
    rows = RunRows.read(run)
    read_ahead(rows)
    declared, note = _declared(run)
    inferred = infer(rows, declared.objective if declared else None)
    return Known(rows, declared, note, inferred, _side(rows, declared))


def explain(a: Run, b: Run) -> Explanation:
    """Compare two runs, from their declarations down to their tokens.

    Raises
    ------
    AuditError
        A log cannot be read.
    """
    return explain_known(known(a), known(b))


def explain_known(of_a: Known, of_b: Known) -> Explanation:
    """Compare two runs that have been read."""
    rows_a, rows_b = of_a.rows, of_b.rows
    a, b = rows_a.run, rows_b.run
    pair = Pair(rows_a, rows_b)
    declared_a, note_a = of_a.declared, of_a.note
    declared_b, note_b = of_b.declared, of_b.note
    inferred_a, inferred_b = of_a.inferred, of_b.inferred
    side_a, side_b = sides = of_a.side, of_b.side
    objectives = (
        best_known(declared_a, inferred_a, declared_b),
        best_known(declared_b, inferred_b, declared_a),
    )
    weights = reward_weights(pair)
    objective_a, objective_b = with_weights(with_loss_parts(objectives, sides), weights)

    skipped = [
        Skipped(f"rows of {run.run_id} in {s.path.name}", f"a readable file of rollouts ({s.reason})")
        for run in (a, b)
        for s in run.skipped
    ]
    skipped += [
        Skipped(
            f"scalars of {side.rows.run.run_id} in {s.path.name}", f"a readable file of metrics ({s.reason})"
        )
        for side in sides
        for s in side.metrics.skipped
    ]
    effects: list[ObjectiveEffect] = []
    if objective_a is None or objective_b is None:
        lacking = [run.run_id for run, known in ((a, objective_a), (b, objective_b)) if known is None]
        either = f"a declared objective, or logged advantages, of {' and '.join(lacking)}"
        skipped.append(Skipped("objective effect", either))
    else:
        skipped += [
            Skipped("objective effect beyond baseline and scale", f"a declared objective of {run_id}")
            for run_id in still_open(sides)
        ]
        effects, missing = objective_effects([rows_a, rows_b], objective_a, objective_b)
        skipped += missing
        skipped += [skip for effect in effects for skip in effect.not_compared]

    config, missing = config_causes(a, b, (side_a.metrics, side_b.metrics))
    skipped += missing
    looked, missing = differences(pair, config, (inferred_a, inferred_b))
    skipped += missing
    if weights is not None and effects and explained(pair, weights):
        # One fault, told once: the components of a text are the same, their weights are not.
        looked.causes = [cause for cause in looked.causes if cause.id != "data.reward"]
    looked.unseen += unseen_parts(sides)
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
        inferred=InferredPair(inferred_a, inferred_b, LossPair(side_a.loss, side_b.loss)),
        effects=effects,
        outcomes=outcomes,
        measured=looked.measured,
        notes=[*looked.notes, *_overflows(rows_a, rows_b)],
        first_difference=first_difference(pair),
        timeline=course,
        skipped=skipped,
        verdict=decide(
            effects,
            looked.causes,
            (inferred_a, inferred_b),
            outcomes,
            losses=(side_a.loss, side_b.loss),
            declared=(side_a.declared, side_b.declared),
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


def _overflows(*sides: RunRows) -> list[str]:
    return [f"{rows.run.run_id}: {note}" for rows in sides for note in overflow_notes(rows)]


def _side(rows: RunRows, declared: DeclaredObjective | None) -> Side:
    metrics = read_metrics(rows.run)
    objective = declared.objective if declared is not None else None
    return Side(rows, objective, infer_metrics(rows, metrics, objective), metrics)


def best_known(
    declared: DeclaredObjective | None, inferred: Inference, other: DeclaredObjective | None
) -> Objective | None:
    """The declared objective, its advantages corrected by what the log shows.

    Advantages show the baseline, the scale and what was done to the reward: without a declaration every other
    part is taken from the other run, so that what is unknown is not told as a difference.
    """
    if declared is not None and inferred.agrees is not False:
        return declared.objective
    if inferred.best is None or inferred.status != "fits":
        return declared.objective if declared is not None else None
    if declared is not None:
        return inferred.best.objective(declared.objective) or declared.objective
    seen = inferred.best.objective(other.objective if other is not None else Objective())
    return None if seen is None else seen.replace(name="inferred")


__all__ = ["Cause", "Explanation", "explain"]

"""Why do two runs disagree? Declared, inferred, objective effect, data effect, verdict."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np

from audit.analyses.config_effect import config_causes
from audit.analyses.data_effect import data_causes
from audit.analyses.effect import ObjectiveEffect, describe_changes, objective_effects
from audit.analyses.findings import Cause, Effect
from audit.analyses.infer import Inference, infer
from audit.analyses.outcomes import first_pass, truncated
from audit.analyses.skipped import Skipped
from audit.analyses.verdict import Verdict, decide
from audit.errors import AuditError
from audit.facts.declared import DeclaredObjective, declared_objective
from audit.facts.rows import RunRows
from audit.logs import Run
from audit.objectives.objective import Baseline, Objective, Scale, differing_fields
from audit.stats import FEW_CLUSTERS, bootstrap, cluster_sums, estimate


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

    data, missing = data_causes(rows_a, rows_b)
    skipped += missing
    config, missing = config_causes(a, b)
    skipped += missing
    outcomes, missing = _outcomes(rows_a, rows_b)
    skipped = list(dict.fromkeys(skipped + missing))

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
        skipped=skipped,
        verdict=decide(
            effects,
            [*data, *config],
            (inferred_a, inferred_b),
            outcomes,
            changes=changes,
            skipped=skipped,
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


def _outcomes(a: RunRows, b: RunRows) -> tuple[list[Effect], list[Skipped]]:
    """Differences in what came out; one run a side, so the interval does not cover seed noise."""
    measures: dict[str, tuple[np.ndarray | None, np.ndarray | None, str]] = {
        "reward": (a.numpy("reward"), b.numpy("reward"), "reward"),
        "length": (a.length, b.length, "token_ids or length"),
        "truncated share": (truncated(a), truncated(b), "finish_reason"),
    }
    effects: list[Effect] = []
    skipped: list[Skipped] = []
    for name, (in_a, in_b, column) in measures.items():
        if in_a is None or in_b is None or not (np.isfinite(in_a).any() and np.isfinite(in_b).any()):
            skipped.append(Skipped(name, column))
            continue
        effects.append(_difference(name, (a, in_a), (b, in_b)))
    return effects, skipped


def _difference(name: str, a: tuple[RunRows, np.ndarray], b: tuple[RunRows, np.ndarray]) -> Effect:
    columns, prompts, sizes = [], [], []
    # A longer run has had longer to learn: only the steps that both have are compared.
    last = min(int(rows.step.max(initial=0)) for rows, _ in (a, b))
    note = f"up to step {last}, which both runs reached" if _ends(a[0]) != _ends(b[0]) else ""
    for side, (rows, values) in enumerate((a, b)):
        use = first_pass(rows) & np.isfinite(values) & (rows.step <= last)
        block = np.zeros((int(use.sum()), 4))
        block[:, 2 * side], block[:, 2 * side + 1] = values[use], 1.0
        columns.append(block)
        prompts += np.asarray(rows.table["prompt_id"].to_pylist(), dtype=object)[use].tolist()
        sizes.append(int(use.sum()))
    _, cluster = np.unique(np.asarray(prompts, dtype=str), return_inverse=True)
    sums = cluster_sums(np.vstack(columns), cluster)

    def statistic(t: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore", invalid="ignore"):
            in_a, in_b = t[..., :1] / t[..., 1:2], t[..., 2:3] / t[..., 3:4]
        return np.concatenate([in_b - in_a, in_a, in_b], axis=-1)

    interval = bootstrap(sums, statistic)
    gap, in_a, in_b = (estimate(interval, sum(sizes), at) for at in range(3))
    if len(sums) < FEW_CLUSTERS:
        note = "; ".join(filter(None, [note, f"only {len(sums)} prompts: the interval is rough"]))
    return Effect(name, in_a.value, in_b.value, gap.value, gap.low, gap.high, sizes, note)


def _ends(rows: RunRows) -> int:
    return int(rows.step.max(initial=0))


__all__ = ["Cause", "Explanation", "explain"]

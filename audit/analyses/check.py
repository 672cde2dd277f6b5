"""Is this log valid, and did the run do what it declares?"""

from __future__ import annotations

import msgspec
import numpy as np

from audit.analyses.checks.look import FEW, Look
from audit.analyses.checks.registry import measures, run_checks
from audit.analyses.checks.token_batch import TokenLook
from audit.analyses.contradicted import contradicted_steps, since_words
from audit.analyses.infer import Inference, infer
from audit.analyses.skipped import Skipped
from audit.analyses.summary import skipped_checks
from audit.errors import AuditError
from audit.facts.declared import declared_objective, undeclared
from audit.facts.rows import RunRows
from audit.logs import Run, validate
from audit.objectives.objective import Objective
from audit.schema import Problem


class Coverage(msgspec.Struct, frozen=True):
    """What the log covers."""

    responses: int
    steps: int
    first_step: int | None
    last_step: int | None
    missing_steps: int
    """Steps between the first and the last, on the log's own grid, that hold no row."""
    columns: list[str]


class Check(msgspec.Struct, frozen=True):
    """The contract of ``rlaudit check --json``."""

    run: str
    problems: list[Problem]
    tier: int
    coverage: Coverage
    skipped: list[Skipped]
    inferred: Inference | None
    schema: str = "rlaudit.check.v1"


def check(run: Run) -> Check:
    """Collect every problem of a log, then hold its numbers against what the run declares.

    Numbers are only recomputed where the log has no error that would make them meaningless.
    """
    tokens = TokenLook(measures(run), characters="response" in run.columns)
    problems = list(validate(run, [tokens]))
    skipped = skipped_checks(run)
    inferred = None
    rows: RunRows | None = None
    try:
        rows = RunRows.read(run)
        declared, unread = _declared(run)
        problems += unread
        inferred = infer(rows, declared)
        problems += _advantages(rows, declared, inferred)
        found, left_out = run_checks(Look(run, rows, tokens, declared, inferred))
        problems += found
        skipped += left_out
    except AuditError as error:
        skipped.append(Skipped("recomputing anything from the tokens", str(error)))
    return Check(
        run=run.run_id,
        problems=sorted(problems, key=lambda p: ("error", "warning", "info").index(p.severity)),
        tier=run.tier,
        coverage=_coverage(run, rows),
        skipped=skipped,
        inferred=inferred,
    )


def _declared(run: Run) -> tuple[Objective | None, list[Problem]]:
    try:
        declared = declared_objective(run)
    except AuditError as error:
        problem = Problem(id="objective.unreadable", severity="warning", summary=str(error))
        return None, [problem]
    if declared is None:
        hint = "Add objective, or framework and config, to run.json; without them only inference is possible."
        problem = Problem(
            id="objective.undeclared",
            severity="info",
            summary=f"No objective is declared: {undeclared(run)}.",
            hint=hint,
        )
        return None, [problem]
    return declared.objective, []


def _advantages(rows: RunRows, declared: Objective | None, inferred: Inference) -> list[Problem]:
    if inferred.agrees is not False or inferred.best is None or declared is None:
        return []
    steps, asked = contradicted_steps(rows, declared)
    part = since_words(steps, asked)
    fit = "fit" if inferred.status == "fits" else "come closest to"
    summary = (
        f"The logged advantages are not those of the declared objective (relative misfit "
        f"{inferred.declared_residual:.2g}); they {fit} {inferred.best.describe()} "
        f"({inferred.best.residual:.2g})."
    )
    return [
        Problem(
            id="advantage.contradicts-declaration",
            severity="error",
            column="advantage",
            rows=inferred.n,
            steps=steps[:FEW] if part else None,
            summary=summary + part,
            certainty="certain" if inferred.status == "fits" else "likely",
            hint="The weights of `rlaudit weights` use the logged advantages; explain uses what they fit.",
        )
    ]


def _coverage(run: Run, rows: RunRows | None) -> Coverage:
    columns = sorted(run.columns)
    if rows is None or not rows.num_rows:
        return Coverage(run.num_rows, 0, None, None, 0, columns)
    steps = np.unique(rows.step)
    grid = int(np.gcd.reduce(np.diff(steps))) if len(steps) > 1 else 1
    missing = (int(steps[-1]) - int(steps[0])) // grid + 1 - len(steps)
    return Coverage(rows.num_rows, len(steps), int(steps[0]), int(steps[-1]), missing, columns)

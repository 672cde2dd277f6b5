"""Is this log valid, and did the run do what it declares?"""

from __future__ import annotations

import msgspec
import numpy as np

from audit.analyses.groups import groups_of
from audit.analyses.infer import Inference, infer
from audit.analyses.skipped import Skipped
from audit.analyses.summary import skipped_checks
from audit.errors import AuditError
from audit.facts.declared import declared_objective
from audit.facts.rows import RunRows
from audit.logs import Run, validate
from audit.objectives.objective import Objective
from audit.schema import Problem

NOISE = 1e-4
"""|log-ratio| below this is rounding, not another policy; heuristic."""


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
    problems = list(validate(run))
    skipped = skipped_checks(run)
    inferred = None
    rows: RunRows | None = None
    try:
        rows = RunRows.read(run)
        declared, unread = _declared(run)
        problems += unread
        inferred = infer(rows, declared)
        problems += [*_advantages(inferred), *_groups(rows, declared), *_ratio(rows, declared)]
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
            id="objective.undeclared", severity="info", summary="run.json declares no objective.", hint=hint
        )
        return None, [problem]
    return declared.objective, []


def _advantages(inferred: Inference) -> list[Problem]:
    if inferred.agrees is not False or inferred.best is None:
        return []
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
            summary=summary,
            certainty="certain" if inferred.status == "fits" else "likely",
            hint="The weights of `rlaudit weights` use the logged advantages; explain uses what they fit.",
        )
    ]


def _groups(rows: RunRows, declared: Objective | None) -> list[Problem]:
    if not rows.has("group_id"):
        return []
    groups = groups_of(rows)
    problems = []
    total, alone = int((groups.size > 0).sum()), int((groups.size == 1).sum())
    grouped = declared is None or declared.baseline.kind in ("group_mean", "leave_one_out")
    if alone and grouped:
        reward, advantage = rows.numpy("reward"), rows.logged_advantage
        raw = advantage is not None and np.allclose(
            advantage[groups.size[rows.sample] == 1], reward[groups.size[rows.sample] == 1], equal_nan=True
        )
        summary = f"{alone} of {total} groups have one response: no baseline can be formed in them."
        if raw:
            summary += " Their advantage is the raw reward."
        problems.append(
            Problem(
                id="group.singleton",
                severity="error" if raw else "warning",
                column="group_id",
                rows=int((groups.size[rows.sample] == 1).sum()),
                summary=summary,
                hint="A group key that is new for every response is the usual cause: group by prompt_id.",
            )
        )
    dead = float(groups.dead[groups.size > 0].mean()) if total else 0.0
    if dead > 0.5:
        problems.append(
            Problem(
                id="group.zero-signal",
                severity="info",
                column="reward",
                summary=f"{dead:.0%} of {total} groups carry no signal: all rewards equal.",
            )
        )
    return problems


def _ratio(rows: RunRows, declared: Objective | None) -> list[Problem]:
    """At the first inner pass of the first update the policy is still the old one."""
    facts = rows.facts
    if facts is None or not {"logp_theta", "logp_old"} <= rows.run.columns:
        return []
    largest = facts["log_ratio_max"]
    first = rows.update == rows.update[rows.epoch == rows.epoch.min()].min()
    off = int((largest[first] > NOISE).sum())
    if declared is not None and declared.ratio.denominator == "sampler":
        off = 0
    problems = []
    if off:
        problems.append(
            Problem(
                id="ratio.not-one-at-start",
                severity="warning",
                column="logp_old",
                rows=off,
                steps=tuple(int(s) for s in np.unique(rows.step[first])[:5]),
                summary=(
                    f"{off} responses of the first update have |log-ratio| up to {largest[first].max():.3g} "
                    "before any step was taken: logp_old is not the policy that is being updated."
                ),
                certainty="likely",
            )
        )
    if not (largest > NOISE).any():
        problems.append(
            Problem(
                id="ratio.always-one",
                severity="info",
                column="logp_theta",
                rows=rows.num_rows,
                summary="Every policy ratio is 1: clipping is inactive, and its settings make no difference.",
            )
        )
    return problems


def _coverage(run: Run, rows: RunRows | None) -> Coverage:
    columns = sorted(run.columns)
    if rows is None or not rows.num_rows:
        return Coverage(run.num_rows, 0, None, None, 0, columns)
    steps = np.unique(rows.step)
    grid = int(np.gcd.reduce(np.diff(steps))) if len(steps) > 1 else 1
    missing = (int(steps[-1]) - int(steps[0])) // grid + 1 - len(steps)
    return Coverage(rows.num_rows, len(steps), int(steps[0]), int(steps[-1]), missing, columns)

"""Verbs that break one run down: ``groups``, ``prompts``, ``rewards``, ``staleness``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from audit.cli.options import AsJson, ObjectiveOption, RunPath, SetOption, emit_json, objective_for

if TYPE_CHECKING:
    from audit.facts.rows import RunRows
    from audit.objectives.objective import Objective

GroupSizes = Annotated[
    list[int] | None,
    typer.Option(
        "--group-size",
        metavar="G",
        min=2,
        help="Estimate the share of groups without signal at this size too; may be repeated.",
    ),
]


def register(app: typer.Typer) -> None:
    """Add the verbs of this file."""
    app.command()(groups)
    app.command()(prompts)
    app.command()(rewards)
    app.command()(staleness)


def groups(
    path: RunPath,
    objective: ObjectiveOption = None,
    changes: SetOption = None,
    group_size: GroupSizes = None,
    as_json: AsJson = False,
) -> None:
    """Find groups without signal: how many, over steps, against success rates, at other sizes, at what cost.

    Example: rlaudit groups sample_logs/team/grpo-seed1
    """
    from audit.analyses.zero_groups import group_breakdown
    from audit.cli.progress import working
    from audit.facts.rows import RunRows
    from audit.importers import open_run

    run = open_run(path)
    with working(f"grouping {run.run_id}"):
        rows = RunRows.read(run)
        chosen, notes = _objective(rows, objective, changes)
        result = group_breakdown(rows, chosen, sizes=group_size or (), notes=notes)
    if as_json:
        emit_json(result)
        return
    from audit.report.text import show_groups

    show_groups(result)


def prompts(
    path: RunPath,
    objective: ObjectiveOption = None,
    changes: SetOption = None,
    top: Annotated[int, typer.Option("--top", min=0, help="How many of the heaviest prompts to list.")] = 10,
    as_json: AsJson = False,
) -> None:
    """Find which prompts carry the gradient: by success rate, prompt by prompt, and under other objectives.

    Example: rlaudit prompts sample_logs/team/grpo-seed1
    """
    from audit.analyses.prompts import prompt_breakdown
    from audit.cli.progress import working
    from audit.facts.rows import RunRows
    from audit.importers import open_run

    run = open_run(path)
    with working(f"weighing the prompts of {run.run_id}"):
        rows = RunRows.read(run)
        chosen, notes = _objective(rows, objective, changes)
        result = prompt_breakdown(rows, chosen, top=top, notes=notes)
    if as_json:
        emit_json(result)
        return
    from audit.report.text import show_prompts

    show_prompts(result)


def rewards(path: RunPath, as_json: AsJson = False) -> None:
    """Find what the reward is made of: components, saturation, what cancels, what drifts, what contradicts.

    Example: rlaudit rewards sample_logs/team/grpo-seed1
    """
    from audit.analyses.rewards import reward_breakdown
    from audit.cli.progress import working
    from audit.facts.rows import RunRows
    from audit.importers import open_run

    run = open_run(path)
    with working(f"reading the rewards of {run.run_id}"):
        result = reward_breakdown(RunRows.read(run))
    if as_json:
        emit_json(result)
        return
    from audit.report.text import show_rewards

    show_rewards(result)


def staleness(
    path: RunPath, objective: ObjectiveOption = None, changes: SetOption = None, as_json: AsJson = False
) -> None:
    """Find how stale the data were: version lag, what goes with it, and ratio drift over inner passes.

    Example: rlaudit staleness sample_logs/team/grpo-seed1
    """
    from audit.analyses.staleness import staleness as staleness_of
    from audit.cli.progress import working
    from audit.facts.rows import RunRows
    from audit.importers import open_run

    run = open_run(path)
    with working(f"measuring the lag of {run.run_id}"):
        rows = RunRows.read(run)
        chosen, notes = _objective(rows, objective, changes)
        result = staleness_of(rows, chosen, notes=notes)
    if as_json:
        emit_json(result)
        return
    from audit.report.text import show_staleness

    show_staleness(result)


def _objective(
    rows: RunRows, text: str | None, changes: list[str] | None
) -> tuple[Objective | None, list[str]]:
    """The objective asked for, else the run's own; None, with the reason, where the run declares none."""
    from audit.errors import BadManifest, BadObjective

    if text is not None or changes:
        return objective_for(rows, text, changes)
    try:
        return objective_for(rows, None, None)
    except (BadObjective, BadManifest) as error:
        return None, [str(error)]

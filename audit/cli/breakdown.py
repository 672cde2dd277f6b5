"""Verbs that break one run down: ``groups``, ``prompts``, ``rewards``, ``staleness``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from audit.cli.options import AsJson, ObjectiveOption, RunPath, SetOption, emit_json, own_or_asked

if TYPE_CHECKING:
    from audit.analyses.prompts import PromptBreakdown
    from audit.analyses.rewards import RewardBreakdown
    from audit.analyses.staleness import StalenessBreakdown
    from audit.analyses.zero_groups import GroupBreakdown
    from audit.logs import Run

    Breakdown = GroupBreakdown | PromptBreakdown | RewardBreakdown | StalenessBreakdown

CHARTS = (".svg", ".png", ".html", ".json")
GroupSizes = Annotated[
    list[int] | None,
    typer.Option(
        "--group-size",
        metavar="G",
        min=2,
        help="Estimate the share of groups without signal at this size too; may be repeated.",
    ),
]

ChartFile = Annotated[
    Path | None,
    typer.Option("-o", "--output", help="Also draw it: .svg, .png, .html, or .json (the Vega-Lite chart)."),
]


def register(app: typer.Typer) -> None:
    """Add the verbs of this file."""
    app.command()(groups)
    app.command()(prompts)
    app.command()(rewards)
    app.command()(staleness)


def groups(
    path: RunPath,
    *,
    objective: ObjectiveOption = None,
    changes: SetOption = None,
    group_size: GroupSizes = None,
    out: ChartFile = None,
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
    _check_output(out, run)
    with working(f"grouping {run.run_id}"):
        rows = RunRows.read(run)
        chosen, notes = own_or_asked(rows, objective, changes)
        result = group_breakdown(rows, chosen, sizes=group_size or (), notes=notes)
    from audit.report.text import show_groups

    _show(result, show_groups, out, as_json=as_json)


def prompts(
    path: RunPath,
    *,
    objective: ObjectiveOption = None,
    changes: SetOption = None,
    top: Annotated[int, typer.Option("--top", min=0, help="How many of the heaviest prompts to list.")] = 10,
    out: ChartFile = None,
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
    _check_output(out, run)
    with working(f"weighing the prompts of {run.run_id}"):
        rows = RunRows.read(run)
        chosen, notes = own_or_asked(rows, objective, changes)
        result = prompt_breakdown(rows, chosen, top=top, notes=notes)
    from audit.report.text import show_prompts

    _show(result, show_prompts, out, as_json=as_json)


def rewards(path: RunPath, out: ChartFile = None, as_json: AsJson = False) -> None:
    """Find what the reward is made of: components, saturation, what cancels, what drifts, what contradicts.

    Example: rlaudit rewards sample_logs/team/grpo-seed1
    """
    from audit.analyses.rewards import reward_breakdown
    from audit.cli.progress import working
    from audit.facts.rows import RunRows
    from audit.importers import open_run

    run = open_run(path)
    _check_output(out, run)
    with working(f"reading the rewards of {run.run_id}"):
        result = reward_breakdown(RunRows.read(run))
    from audit.report.text import show_rewards

    _show(result, show_rewards, out, as_json=as_json)


def staleness(
    path: RunPath,
    *,
    objective: ObjectiveOption = None,
    changes: SetOption = None,
    out: ChartFile = None,
    as_json: AsJson = False,
) -> None:
    """Find how stale the data were: version lag, what goes with it, and ratio drift over inner passes.

    Example: rlaudit staleness sample_logs/team/grpo-seed1
    """
    from audit.analyses.staleness import staleness as staleness_of
    from audit.cli.progress import working
    from audit.facts.rows import RunRows
    from audit.importers import open_run

    run = open_run(path)
    _check_output(out, run)
    with working(f"measuring the lag of {run.run_id}"):
        rows = RunRows.read(run)
        chosen, notes = own_or_asked(rows, objective, changes)
        result = staleness_of(rows, chosen, notes=notes)
    from audit.report.text import show_staleness

    _show(result, show_staleness, out, as_json=as_json)


def _check_output(out: Path | None, run: Run) -> None:
    """Refuse a place for the chart before any work is done."""
    if out is not None:
        from audit.logs.output import check_output

        check_output(out, CHARTS, (file.path for file in run.files))


def _show(result: Breakdown, show: Callable[[Any], None], out: Path | None, *, as_json: bool) -> None:
    """Draw the result where a file was asked for, and print it."""
    if out is not None:
        from audit.report.breakdown_charts import chart_of_breakdown
        from audit.report.charts import save_chart

        save_chart(chart_of_breakdown(result), out)
    if as_json:
        emit_json(result)
        return
    show(result)
    if out is not None:
        typer.echo(f"Chart written to {out}")

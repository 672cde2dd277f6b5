"""Verbs that break one run down: ``groups``, ``prompts``, ``rewards``, ``staleness``."""

from __future__ import annotations

from typing import Annotated

import typer

from audit.cli.one_run import ChartFile, measured, present
from audit.cli.options import AsJson, ObjectiveOption, RunPath, SetOption

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
    from audit.report.text import show_groups

    result = measured(
        path,
        out,
        "grouping",
        lambda rows, own, notes: group_breakdown(rows, own, sizes=group_size or (), notes=notes),
        objective=objective,
        changes=changes,
    )
    present(result, out, show_groups, as_json=as_json)


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
    from audit.report.text import show_prompts

    result = measured(
        path,
        out,
        "weighing the prompts of",
        lambda rows, own, notes: prompt_breakdown(rows, own, top=top, notes=notes),
        objective=objective,
        changes=changes,
    )
    present(result, out, show_prompts, as_json=as_json)


def rewards(path: RunPath, out: ChartFile = None, as_json: AsJson = False) -> None:
    """Find what the reward is made of: components, saturation, what cancels, what drifts, what contradicts.

    Example: rlaudit rewards sample_logs/team/grpo-seed1
    """
    from audit.analyses.rewards import reward_breakdown
    from audit.report.text import show_rewards

    result = measured(path, out, "reading the rewards of", lambda rows, *_: reward_breakdown(rows))
    present(result, out, show_rewards, as_json=as_json)


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
    from audit.report.text import show_staleness

    result = measured(
        path,
        out,
        "measuring the lag of",
        lambda rows, own, notes: staleness_of(rows, own, notes=notes),
        objective=objective,
        changes=changes,
    )
    present(result, out, show_staleness, as_json=as_json)

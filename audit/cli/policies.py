"""Verbs about the policies behind a run's tokens: ``clipping``, ``kl``, ``mismatch``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from audit.cli.options import AsJson, ObjectiveOption, RunPath, SetOption, emit_json, own_or_asked

if TYPE_CHECKING:
    from audit.facts.rows import RunRows

ChartOption = Annotated[
    Path | None,
    typer.Option("-o", "--output", help="Also draw a chart: .json (Vega-Lite), .html, .svg or .png."),
]
_CHARTS = (".json", ".html", ".svg", ".png")


def register(app: typer.Typer) -> None:
    """Add the verbs of this file."""
    app.command()(clipping)
    app.command()(kl)
    app.command()(mismatch)


def clipping(
    path: RunPath,
    objective: ObjectiveOption = None,
    changes: SetOption = None,
    out: ChartOption = None,
    as_json: AsJson = False,
) -> None:
    """Say what the trust region removed: where, which tokens, and what another one would have removed.

    Example: rlaudit clipping sample_logs/team/grpo-seed1
    """
    from audit.analyses.clipping import clipping as measure
    from audit.cli.progress import working

    rows = _rows(path, out)
    with working(f"counting clipped tokens of {rows.run.run_id}"):
        chosen, notes = own_or_asked(rows, objective, changes)
        result = measure(rows, chosen, notes)
    if out is not None:
        from audit.report.charts import save_chart
        from audit.report.policy_charts import stacked
        from audit.report.text.clipping import TITLES

        groups = {title: result.by.get(name, []) for name, title in TITLES.items()}
        chart = stacked({"clip-zeroed": result.steps}, groups, "clip-zeroed share", percent=True)
        save_chart(chart, out)
    if as_json:
        emit_json(result)
        return
    from audit.report.text.clipping import show_clipping

    show_clipping(result)


def kl(
    path: RunPath,
    objective: ObjectiveOption = None,
    changes: SetOption = None,
    out: ChartOption = None,
    as_json: AsJson = False,
) -> None:
    """Estimate the KL to the reference and to the old policy, and say what the run's own KL pulls on.

    Example: rlaudit kl sample_logs/team/grpo-seed1
    """
    from audit.analyses.kl_estimates import kl_report
    from audit.cli.progress import working

    rows = _rows(path, out)
    with working(f"estimating KLs of {rows.run.run_id}"):
        chosen, notes = own_or_asked(rows, objective, changes)
        result = kl_report(rows, chosen, notes)
    if out is not None:
        from audit.report.charts import save_chart
        from audit.report.policy_charts import stacked

        groups = {} if result.drift is None else {"drift by inner update": result.drift.by_update}
        save_chart(stacked(result.trends, groups, "nats per token"), out)
    if as_json:
        emit_json(result)
        return
    from audit.report.text.kl import show_kl

    show_kl(result)


def mismatch(
    path: RunPath,
    objective: ObjectiveOption = None,
    changes: SetOption = None,
    out: ChartOption = None,
    as_json: AsJson = False,
) -> None:
    """Compare the log-probs of the inference engine with the trainer's: size, tail, weights, corrections.

    A run whose engine has other numerics, to try it on: rlaudit testbed --sampler-noise 0.3 -o runs.

    Example: rlaudit mismatch sample_logs/team/grpo-seed1
    """
    from audit.analyses.mismatch import mismatch as compare
    from audit.cli.progress import working

    rows = _rows(path, out)
    with working(f"comparing log-probs of {rows.run.run_id}"):
        chosen, notes = own_or_asked(rows, objective, changes)
        result = compare(rows, chosen, notes)
    if out is not None:
        from audit.report.charts import save_chart
        from audit.report.policy_charts import stacked
        from audit.report.text.mismatch import TITLES

        groups = {title: result.by.get(name, []) for name, title in TITLES.items()}
        save_chart(stacked({"mismatch": result.steps}, groups, "mean |g|, nats per token"), out)
    if as_json:
        emit_json(result)
        return
    from audit.report.text.mismatch import show_mismatch

    show_mismatch(result)


def _rows(path: Path, out: Path | None) -> RunRows:
    from audit.facts.rows import RunRows
    from audit.importers import open_run
    from audit.logs.output import check_output

    run = open_run(path)
    if out is not None:
        check_output(out, _CHARTS, (file.path for file in run.files))
    return RunRows.read(run)

"""Verbs about the policies behind a run's tokens: ``clipping``, ``kl``, ``mismatch``."""

from __future__ import annotations

import typer

from audit.cli.one_run import ChartFile, measured, present
from audit.cli.options import AsJson, ObjectiveOption, RunPath, SetOption


def register(app: typer.Typer) -> None:
    """Add the verbs of this file."""
    app.command()(clipping)
    app.command()(kl)
    app.command()(mismatch)


def clipping(
    path: RunPath,
    objective: ObjectiveOption = None,
    changes: SetOption = None,
    out: ChartFile = None,
    as_json: AsJson = False,
) -> None:
    """Say what the trust region removed: where, which tokens, and what another one would have removed.

    Example: rlaudit clipping sample_logs/team/grpo-seed1
    """
    from audit.analyses.clipping import clipping as measure
    from audit.report.text import show_clipping

    result = measured(path, out, "counting clipped tokens of", measure, objective=objective, changes=changes)
    present(result, out, show_clipping, as_json=as_json)


def kl(
    path: RunPath,
    objective: ObjectiveOption = None,
    changes: SetOption = None,
    out: ChartFile = None,
    as_json: AsJson = False,
) -> None:
    """Estimate the KL to the reference and to the old policy, and say what the run's own KL pulls on.

    Example: rlaudit kl sample_logs/team/grpo-seed1
    """
    from audit.analyses.kl_estimates import kl_report
    from audit.report.text import show_kl

    result = measured(path, out, "estimating KLs of", kl_report, objective=objective, changes=changes)
    present(result, out, show_kl, as_json=as_json)


def mismatch(
    path: RunPath,
    objective: ObjectiveOption = None,
    changes: SetOption = None,
    out: ChartFile = None,
    as_json: AsJson = False,
) -> None:
    """Compare the log-probs of the inference engine with the trainer's: size, tail, weights, corrections.

    A run whose engine has other numerics, to try it on: rlaudit testbed --sampler-noise 0.3 -o runs.

    Example: rlaudit mismatch sample_logs/team/grpo-seed1
    """
    from audit.analyses.mismatch import mismatch as compare
    from audit.report.text import show_mismatch

    result = measured(path, out, "comparing log-probs of", compare, objective=objective, changes=changes)
    present(result, out, show_mismatch, as_json=as_json)

"""Every check, in the order in which a report lists them within a severity."""

from __future__ import annotations

import numpy as np

from audit.analyses.checks import (
    advantage_centre,
    advantage_sign,
    cancel,
    constant,
    coverage,
    ends,
    engine,
    group_sizes,
    huge_ratio,
    kept,
    kl_masked,
    length_weight,
    logged_kl,
    logged_loss,
    logged_reward,
    mismatch_shape,
    nan_spread,
    optimiser,
    permuted,
    placeholders,
    ratio,
    repeats,
    tool_output,
    trajectories,
    truncated,
    turn_ids,
    turns,
    untrainable,
    versions,
    zero_signal,
)
from audit.analyses.checks.look import Entry, Look
from audit.analyses.checks.token_batch import Measure
from audit.analyses.skipped import Skipped
from audit.errors import AuditError
from audit.logs import Run
from audit.schema import Problem

CHECKS: tuple[Entry, ...] = (
    coverage.CHECK,
    group_sizes.CHECK,
    trajectories.CHECK,
    nan_spread.CHECK,
    untrainable.CHECK,
    zero_signal.CHECK,
    constant.CHECK,
    cancel.CHECK,
    permuted.CHECK,
    advantage_sign.CHECK,
    advantage_centre.CHECK,
    ratio.CHECK,
    huge_ratio.CHECK,
    placeholders.CHECK,
    engine.CHECK,
    mismatch_shape.CHECK,
    optimiser.CHECK,
    logged_kl.CHECK,
    logged_loss.CHECK,
    logged_reward.CHECK,
    kl_masked.CHECK,
    tool_output.CHECK,
    ends.CHECK,
    truncated.CHECK,
    repeats.CHECK,
    length_weight.CHECK,
    kept.CHECK,
    versions.CHECK,
    turns.CHECK,
)


def measures(run: Run) -> list[Measure]:
    """What the checks have measured in the pass over the tokens of a run."""
    own = [entry.measure for entry in CHECKS if entry.measure is not None and not entry.lacking(run)]
    if "token_ids" in run.columns:
        own.append(ends.Ends(ends.declared_ends(run.manifest.config, run.manifest.sampling)))
    if {"trajectory_id", "turn", "token_ids"} <= run.columns:
        own.append(turn_ids.TurnIds())
    if not tool_output.CHECK.lacking(run):
        own.append(tool_output.ToolOutput())
    return own


@np.errstate(all="ignore")
def run_checks(look: Look) -> tuple[list[Problem], list[Skipped]]:
    """Run every check that the log can carry; the others with the columns that they need."""
    found: list[Problem] = []
    skipped: list[Skipped] = []
    for entry in CHECKS:
        lacking = entry.lacking(look.run)
        if lacking:
            skipped.append(Skipped(entry.question, ", ".join(lacking)))
            continue
        try:
            found += entry.find(look)
        except AuditError as error:
            skipped.append(Skipped(entry.question, str(error)))
    return found, skipped

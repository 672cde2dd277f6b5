"""What a run is: responses, groups, steps, tier, reward, length, zero-signal share."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np

from audit.analyses.groups import groups_of, zero_signal_share
from audit.analyses.outcomes import correctness, mean_of, truncated
from audit.analyses.overflow import overflow_notes
from audit.analyses.skipped import Skipped
from audit.errors import AuditError
from audit.facts.declared import declared_objective, undeclared
from audit.facts.rows import RunRows
from audit.logs import Run
from audit.stats import Estimate

NEEDS: dict[str, tuple[str, ...]] = {
    "length of responses": ("length", "token_ids"),
    "length bias by correctness": ("length", "token_ids"),
    "truncation": ("finish_reason",),
    "recomputing the advantages": ("advantage", "token_advantage"),
    "policy ratio and clip": ("logp_theta",),
    "policy ratio and clip (denominator)": ("logp_old",),
    "KL to the reference": ("logp_ref",),
    "micro-batch normalisers": ("micro_batch",),
}
"""Checks, and the columns of which any one is enough."""


class Source(msgspec.Struct, frozen=True):
    """Where the rows came from; rows_read + rows_rejected is what the files held."""

    format: str
    files: int
    rows_read: int
    rows_rejected: int
    files_skipped: list[str] = []
    rejected: dict[str, int] = {}


class Summary(msgspec.Struct, frozen=True):
    """The contract of ``rlaudit summary --json``, for one run or for several together."""

    runs: list[str]
    responses: int
    groups: int | None
    steps: int
    tokens: int | None
    tier: int
    skipped: list[Skipped]
    reward: Estimate
    length: Estimate | None
    zero_signal_share: Estimate | None
    objective: dict[str, Any] | None
    source: Source
    group_size: int | None = None
    truncated_share: Estimate | None = None
    correct_share: Estimate | None = None
    notes: list[str] = []
    schema: str = "rlaudit.summary.v1"


def summarise(run: Run, rows: RunRows | None = None) -> Summary:
    """Summarise one run.

    Parameters
    ----------
    rows : RunRows, optional
        The rows of the run, where they were read already.

    Raises
    ------
    AuditError
        The log cannot be read.
    """
    rows = RunRows.read(run) if rows is None else rows
    skipped = skipped_checks(run)
    notes = [*run.notes, *overflow_notes(rows)]
    groups = share = None
    if "group_id" in run.columns:
        groups, share = groups_of(rows), zero_signal_share(rows)
    else:
        skipped.append(Skipped("groups, zero-signal share", "group_id"))
    objective, declared_note = _objective(run)
    if declared_note:
        notes.append(declared_note)
    ended = truncated(rows)
    side, how = correctness(rows)
    two_sided = how != "reward above or below the group's mean"
    return Summary(
        runs=[run.run_id],
        responses=rows.num_rows,
        groups=None if groups is None else int((groups.size > 0).sum()),
        steps=len(np.unique(rows.step)),
        tokens=None if rows.facts is None else int(rows.facts["tokens"].sum()),
        tier=run.tier,
        skipped=skipped,
        reward=mean_of(rows, rows.numpy("reward")),
        length=mean_of(rows, rows.length) if np.isfinite(rows.length).any() else None,
        zero_signal_share=share,
        objective=objective,
        source=Source(
            format=run.format,
            files=len(run.files) if run.log_files is None else run.log_files,
            rows_read=rows.num_rows,
            rows_rejected=sum(run.rejected.values()),
            files_skipped=[f"{skip.path}: {skip.reason}" for skip in run.skipped],
            rejected=dict(run.rejected),
        ),
        group_size=None if groups is None else groups.typical_size,
        truncated_share=None if ended is None else mean_of(rows, ended),
        correct_share=mean_of(rows, side) if two_sided else None,
        notes=notes,
    )


def skipped_checks(run: Run) -> list[Skipped]:
    """Return the checks of :data:`NEEDS` that a log cannot carry, with the columns that would be enough."""
    return [
        Skipped(check, " or ".join(columns))
        for check, columns in NEEDS.items()
        if not set(columns) & run.columns
    ]


def _objective(run: Run) -> tuple[dict[str, Any] | None, str]:
    try:
        declared = declared_objective(run)
    except AuditError as error:
        return None, f"declared objective not read: {error}"
    if declared is None:
        return None, f"no objective is declared: {undeclared(run)}"
    return declared.objective.to_dict() | {"source": declared.source}, ""

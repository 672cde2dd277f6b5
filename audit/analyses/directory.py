"""Summaries of every run under a directory, or of one run."""

from __future__ import annotations

from pathlib import Path

import msgspec

from audit.analyses.skipped import Skipped
from audit.analyses.summary import Source, Summary, summarise
from audit.errors import AuditError, BadLog
from audit.importers import find_runs, open_run
from audit.logs.broken import BrokenRun
from audit.logs.places import is_directory
from audit.stats import Estimate


class DirectorySummary(msgspec.Struct, frozen=True):
    """The contract of ``rlaudit summary DIR --json`` for several runs: each run, and the totals."""

    runs: list[str]
    responses: int
    groups: int | None
    steps: int
    tokens: int | None
    tier: int
    """The lowest of all runs: what can be asked of every one of them."""
    skipped: list[Skipped]
    reward: Estimate
    length: Estimate | None
    zero_signal_share: Estimate | None
    """Pooled over responses, or groups; without an interval, since runs are no sample of anything."""
    objective: None
    source: Source
    per_run: list[Summary]
    broken: list[BrokenRun]
    schema: str = "rlaudit.summary.v1"


def summarise_path(path: Path) -> Summary | DirectorySummary:
    """Summarise one run, or every run under a directory; a broken run is listed, not raised.

    Raises
    ------
    BadLog
        Nothing is there, or no run under it can be read.
    """
    if not is_directory(path):
        return summarise(open_run(path))
    entries = find_runs(path)
    if len(entries) <= 1 and (not entries or entries[0].path.resolve() == path.resolve()):
        return summarise(open_run(path))
    done: list[Summary] = []
    broken: list[BrokenRun] = []
    for entry in entries:
        try:
            if entry.run is None:
                raise entry.error or BadLog(str(entry.path))
            done.append(summarise(entry.run))
        except AuditError as error:
            broken.append(BrokenRun(str(entry.path), str(error)))
    if not done:
        msg = f"{path}: none of its {len(broken)} runs can be read. {broken[0].error}"
        raise BadLog(msg)
    skipped = {(skip.check, skip.needs): skip for one in done for skip in one.skipped}
    return DirectorySummary(
        runs=[name for one in done for name in one.runs],
        responses=sum(one.responses for one in done),
        groups=_total([one.groups for one in done]),
        steps=sum(one.steps for one in done),
        tokens=_total([one.tokens for one in done]),
        tier=min(one.tier for one in done),
        skipped=list(skipped.values()),
        reward=_pooled([one.reward for one in done]) or Estimate(None, None, None, 0),
        length=_pooled([one.length for one in done]),
        zero_signal_share=_pooled([one.zero_signal_share for one in done]),
        objective=None,
        source=Source(
            format=", ".join(sorted({one.source.format for one in done})),
            files=sum(one.source.files for one in done),
            rows_read=sum(one.source.rows_read for one in done),
            rows_rejected=sum(one.source.rows_rejected for one in done),
            files_skipped=[skip for one in done for skip in one.source.files_skipped],
        ),
        per_run=done,
        broken=broken,
    )


def _total(counts: list[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


def _pooled(estimates: list[Estimate | None]) -> Estimate | None:
    known = [e for e in estimates if e is not None and e.value is not None]
    n = sum(e.n for e in known)
    if not n:
        return None
    return Estimate(sum((e.value or 0.0) * e.n for e in known) / n, None, None, n)

"""What a pass over the tokens of several runs did, run by run."""

from __future__ import annotations

import msgspec

from audit.logs.broken import BrokenRun


class RunPass(msgspec.Struct, frozen=True):
    """What was done for one run."""

    path: str
    run_id: str
    rows: int
    tokens: int
    """Tokens read now."""
    files: int
    computed: int
    """Files that were read now; the facts of the others were stored."""
    seconds: float
    tokens_per_second: float | None
    """None where no token was read."""
    stored: str | None
    """Folder that holds the facts; None: nowhere."""
    not_stored: str
    """Why not."""
    limited_by: str | None
    """What the pass spent most of its time on; None where nothing was computed, or where it does not tell."""


class FactsReport(msgspec.Struct, frozen=True):
    """The contract of ``rlaudit facts --json``."""

    runs: list[RunPass]
    broken: list[BrokenRun]
    schema: str = "rlaudit.facts.v1"

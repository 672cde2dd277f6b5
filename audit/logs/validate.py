"""Everything that is wrong with a log: collected over all of it, never raised."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import pyarrow as pa

from audit.errors import BadLog
from audit.logs.file_checks import file_problems
from audit.logs.row_checks import ROW_COLUMNS, row_problems, rows_to_check
from audit.logs.run import Run
from audit.logs.token_checks import TokenChecks
from audit.schema import TOKEN_LISTS, Problem

_ORDER = ("error", "warning", "info")


class Observer(Protocol):
    """Sees every batch in the one pass over the tokens."""

    columns: tuple[str, ...]
    """Columns that it needs beside those of the validation."""

    def see(self, batch: pa.RecordBatch) -> None:
        """Look at one canonical batch, in row order."""


def validate(run: Run, observers: Sequence[Observer] = ()) -> list[Problem]:
    """Check a whole log against the schema, and against itself.

    Reads every token once, in bounded memory.

    Parameters
    ----------
    run : Run
        Any run, native or imported.
    observers : sequence of Observer
        What else wants to see the tokens while they are read.

    Returns
    -------
    list of Problem
        Errors first; empty where the log is in order. A file that turns out to be damaged is one of the
        problems; the checks go on with the others.
    """
    more = [name for observer in observers for name in observer.columns]
    lists = [name for name in TOKEN_LISTS if name in run.columns]
    columns = list(dict.fromkeys([*ROW_COLUMNS, *lists, *more]))
    tokens = TokenChecks(run)
    rows: list[pa.RecordBatch] = []
    problems = file_problems(run)
    for part in run.parts:
        read = 0
        try:
            for batch in part.batches(columns, max_tokens=1_000_000):
                tokens.see(batch)
                rows.append(rows_to_check(batch))
                for observer in observers:
                    observer.see(batch)
                read += batch.num_rows
        except BadLog as error:
            problems.append(
                Problem(
                    id="file.damaged",
                    severity="error",
                    rows=part.num_rows - read,
                    summary=f"{part.num_rows - read} of {part.num_rows} responses cannot be read: {error}",
                )
            )
    problems += tokens.problems()
    problems += row_problems(run, rows)
    return sorted(problems, key=lambda problem: _ORDER.index(problem.severity))

"""Counting rows by what is wrong with them, and at which steps."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import msgspec
import numpy as np

from audit.schema import Problem


class _Count(msgspec.Struct):
    rows: int
    values: int
    steps: set[int]


class Tally:
    """Rows, values and steps per reason code and column, added up over batches."""

    FEW: ClassVar[int] = 5
    """Steps that a problem lists."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str | None], _Count] = {}

    def count(self, code: str, column: str | None, rows: np.ndarray, steps: Any, *, values: int = 0) -> None:
        """Add the rows that are marked.

        Parameters
        ----------
        code, column : str
            What is wrong, and where.
        rows : bool array, shape (R,)
        steps : pyarrow.Array of int64, shape (R,)
            Null where the step itself is missing.
        values : int
            Tokens concerned.
        """
        marked = int(rows.sum())
        if not marked:
            return
        here = steps.filter(rows).drop_null().unique().to_pylist()
        entry = self._counts.setdefault((code, column), _Count(0, 0, set()))
        entry.rows += marked
        entry.values += values
        entry.steps.update(here)

    def found(self) -> list[tuple[str, str | None]]:
        """Return the codes and columns with at least one row, in the order in which they were met."""
        return list(self._counts)

    def problem(
        self,
        code: str,
        column: str | None,
        *,
        severity: Literal["error", "warning", "info"],
        text: str,
        hint: str = "",
    ) -> Problem:
        """Build the problem for one entry; ``text`` may name ``{column}``, ``{rows}`` and ``{values}``."""
        entry = self._counts[code, column]
        return Problem(
            id=code,
            severity=severity,
            column=column,
            rows=entry.rows,
            steps=tuple(sorted(entry.steps)[: self.FEW]) or None,
            summary=text.format(column=column, rows=entry.rows, values=entry.values),
            hint=hint,
        )

"""What an analysis leaves out because the log does not hold it: the check, and the columns that it needs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from audit.analyses.skipped import Skipped
from audit.errors import AuditError
from audit.facts.rows import RunRows

T = TypeVar("T")


class Skips:
    """Collects skipped checks while an analysis runs."""

    def __init__(self, rows: RunRows) -> None:
        self._rows = rows
        self.found: list[Skipped] = []

    def add(self, check: str, needs: str) -> None:
        """Skip a check."""
        self.found.append(Skipped(check, needs))

    def lacks(self, check: str, *columns: str | Sequence[str]) -> bool:
        """Tell whether the log lacks a column of each of which one is needed, and skip the check then.

        Parameters
        ----------
        columns : str or sequence of str
            A column, or several of which any one is enough.
        """
        missing = []
        for column in columns:
            options = (column,) if isinstance(column, str) else tuple(column)
            if not set(options) & self._rows.run.columns:
                missing.append(" or ".join(options))
        if missing:
            self.add(check, " and ".join(missing))
        return bool(missing)

    def attempt(self, check: str, make: Callable[[], T]) -> T | None:
        """Return what ``make`` returns, or skip the check with the reason that it gives."""
        try:
            return make()
        except AuditError as error:
            self.found.append(Skipped.because(check, error))
        return None

"""An end to queries: after some seconds, or when somebody no longer waits for them."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Self

from audit.errors import AuditError

if TYPE_CHECKING:
    import duckdb

_AGAIN = 0.1
"""Seconds between two interrupts: one that falls between two steps of a query is forgotten."""


class TimeLimit:
    """Interrupts the queries of a connection when their time is up, or when another thread cancels them.

    Parameters
    ----------
    seconds : float
        From entering the context on.
    what : str
        What is stopped, for the message: ``the query``.
    hint : str
        What to do about it.
    """

    def __init__(self, seconds: float, what: str, hint: str) -> None:
        self._seconds, self._what, self._hint = seconds, what, hint
        self._connection: duckdb.DuckDBPyConnection | None = None
        self._why = ""
        self._over = threading.Event()
        self._timer = threading.Timer(max(0.0, seconds), self._late)
        self._timer.daemon = True

    def __enter__(self) -> Self:
        self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        self._over.set()

    def watch(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Name the connection that is interrupted."""
        self._connection = connection

    def cancel(self) -> None:
        """End what runs, or keep it from starting; from any thread."""
        self._stop(f"{self._what} was cancelled.")

    def check(self) -> None:
        """Raise :class:`~audit.errors.AuditError`, with the reason, if it was stopped."""
        if self._seconds <= 0:
            self._late()
        if self._why:
            raise AuditError(self._why)

    def _late(self) -> None:
        self._stop(f"{self._what} was stopped after {self._seconds:g} seconds. {self._hint}")

    def _stop(self, why: str) -> None:
        self._why = self._why or why
        threading.Thread(target=self._interrupt, daemon=True).start()

    def _interrupt(self) -> None:
        import duckdb

        while not self._over.is_set():
            if self._connection is not None:
                # It may have been closed meanwhile.
                with suppress(duckdb.Error):
                    self._connection.interrupt()
            self._over.wait(_AGAIN)

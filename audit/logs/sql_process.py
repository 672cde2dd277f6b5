"""SQL of people, run in a process of its own: it ends when its time is up, or when nobody waits any longer.

A thread would not do: DuckDB looks at its interrupts between the steps of a query only, and one step can make
a list of billions of numbers, outside of the memory that it counts.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time

import msgspec

from audit.errors import AuditError
from audit.logs.locked_sql import ROWS, SECONDS
from audit.logs.run import Run
from audit.logs.sql_check import check_text
from audit.logs.sql_child import FAREWELL, GRACE, MEMORY, Answer, Request
from audit.logs.sql_result import QueryResult

# -P: the directory that the program was started in may be a log, and must not be imported from.
_COMMAND = (sys.executable, "-P", "-m", "audit.logs.sql_child")
_START = 60.0
"""Seconds that a process may take beyond the time of its query: to start, and to return its rows."""


class RunningQuery:
    """One SELECT over the tables ``rollouts`` and ``metrics`` of a run; another thread can cancel it.

    Parameters
    ----------
    sql : str
        DuckDB's SQL; see :func:`audit.logs.locked_sql.query`.
    rows : int
        Most rows that are returned; the result says whether there are more.
    seconds : float
        The query is ended after this time.
    size : int, optional
        Most bytes that the rows may have; any number without it.
    """

    def __init__(
        self, run: Run, sql: str, *, rows: int = ROWS, seconds: float = SECONDS, size: int | None = None
    ) -> None:
        self._run = run
        self._request = Request(os.fsencode(str(run.place)), sql, max(1, rows), seconds, size)
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._cancelled = False

    def cancel(self) -> None:
        """End the query, or keep it from starting; from any thread."""
        with self._lock:
            self._cancelled = True
            if self._process is not None:
                self._process.kill()

    def run(self) -> QueryResult:
        """Run the query, once, and return its result.

        Raises
        ------
        AuditError
            As for :func:`audit.logs.locked_sql.query`; and where it was cancelled, or needs more memory
            than its process may hold.
        """
        started = time.monotonic()
        check_text(self._request.sql)
        with self._lock:
            if not self._cancelled:
                self._process = SPARE.take()
        if self._process is None:
            raise AuditError(_CANCELLED)
        with self._process as process:
            try:
                said, _ = process.communicate(
                    msgspec.json.encode(self._request) + b"\n", self._request.seconds + GRACE + _START
                )
            except subprocess.TimeoutExpired:
                said = b""
            finally:
                process.kill()
        if self._cancelled:
            raise AuditError(_CANCELLED)
        took = time.monotonic() - started
        try:
            answer = msgspec.msgpack.decode(said, type=Answer)
        except msgspec.MsgspecError:
            raise AuditError(self._why(process.returncode, took)) from None
        if answer.result is None:
            raise AuditError(answer.error)
        # An imported log is read from its import, which has another name.
        return msgspec.structs.replace(answer.result, run=self._run.run_id)

    def _why(self, status: int, took: float) -> str:
        if status == FAREWELL or took > self._request.seconds:
            return (
                f"the query was stopped after {self._request.seconds:g} seconds. "
                "Ask for fewer steps or columns."
            )
        return f"the query needs more than {MEMORY / 2**30:.0f} GB of memory, and was stopped."


_CANCELLED = "the query was cancelled."


class Spare:
    """A process that has made its imports, for the next query."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None

    def prepare(self) -> None:
        """Start a process now, so that the next query need not wait for it; it ends when it is not asked."""
        with self._lock:
            if self._process is None or self._process.poll() is not None:
                self._process = _start()

    def take(self) -> subprocess.Popen[bytes]:
        """Return the process that was prepared, or a new one."""
        with self._lock:
            process, self._process = self._process, None
        return process if process is not None and process.poll() is None else _start()


def _start() -> subprocess.Popen[bytes]:
    pipe = subprocess.PIPE
    return subprocess.Popen(_COMMAND, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL)


SPARE = Spare()

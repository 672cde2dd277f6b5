"""Answers one query in a process of its own, which can be ended at any moment and whose memory has a bound.

Started by :mod:`audit.logs.sql_process`: one line of JSON on stdin asks, MessagePack on stdout answers.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from pathlib import Path

import msgspec

from audit import counted
from audit.errors import AuditError
from audit.logs.catalogue import open_run
from audit.logs.locked_sql import query
from audit.logs.places import to_place
from audit.logs.sql_result import QueryResult

MEMORY = 4 * 2**30
"""Bytes that the process may hold: what DuckDB may use, and as much again for the rows that it returns."""
IDLE = 600.0
"""Seconds after which a process that was prepared and never asked ends."""
GRACE = 1.0
"""Seconds after its time in which a query is left to stop by itself."""
FAREWELL = 3
"""Exit status of a process that ended its query, or that nobody asked."""


class Request(msgspec.Struct, frozen=True):
    """What is asked."""

    place: bytes
    """Where the files of the run are; a path of this machine may be no text."""
    sql: str
    rows: int
    seconds: float
    size: int | None
    """Most bytes of the answer."""


class Answer(msgspec.Struct, frozen=True):
    """A result, or why there is none."""

    result: QueryResult | None = None
    error: str = ""


def main() -> None:
    """Answer the one query that comes on stdin."""
    # Imported before somebody asks.
    import duckdb  # noqa: F401

    idle = _end_after(IDLE)
    line = sys.stdin.buffer.readline()
    idle.cancel()
    if not line:
        return
    asked = msgspec.json.decode(line, type=Request)
    _bound_memory(MEMORY)
    # DuckDB does not look at its interrupts within one step, such as to make one long list.
    _end_after(asked.seconds + GRACE)
    sys.stdout.buffer.write(_answer(asked))
    sys.stdout.buffer.flush()


def _answer(asked: Request) -> bytes:
    try:
        run = open_run(Path(to_place(os.fsdecode(asked.place))))
        found = query(run, asked.sql, rows=asked.rows, seconds=asked.seconds)
        answer = msgspec.msgpack.encode(Answer(found))
        if asked.size is None or len(answer) <= asked.size:
            return answer
        said = (
            f"the answer has {counted.plural(found.n, 'row')} of together {len(answer) / 1e6:,.3g} MB, and "
            f"at most {asked.size / 1e6:,.3g} MB are shown here. Ask for fewer columns or rows, or for the "
            "beginning of a text: substr(response, 1, 100)."
        )
    except AuditError as error:
        said = str(error)
    except MemoryError:
        said = f"the query needs more than {MEMORY / 2**30:.0f} GB of memory, and was stopped."
    except Exception as error:
        # The end of this process: there is nobody else to say what happened.
        said = f"the query failed: {type(error).__name__}: {error}"
    # It may name a path that is no text.
    return msgspec.msgpack.encode(Answer(error=said.encode("utf-8", "backslashreplace").decode()))


def _end_after(seconds: float) -> threading.Timer:
    timer = threading.Timer(seconds, os._exit, [FAREWELL])
    timer.daemon = True
    timer.start()
    return timer


def _bound_memory(most: int) -> None:
    # Not on Windows; and where the system does not hold it, time still ends the query.
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        resource.setrlimit(resource.RLIMIT_DATA, (most, most))


if __name__ == "__main__":
    main()

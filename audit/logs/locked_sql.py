"""SQL of people over one run: one SELECT, in a database that can read this run and nothing else.

The order of locking is what makes it work: the views first, then the files of the run as the only paths that
may be opened, then no other access, then no change of that. See :mod:`audit.logs.sql_check` for what is
refused before DuckDB runs anything.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pyarrow as pa

from audit.errors import AuditError
from audit.logs.metrics import read_metrics
from audit.logs.parquet_part import ParquetPart
from audit.logs.places import is_remote
from audit.logs.run import Run
from audit.logs.sql_check import check_select, first_lines
from audit.logs.sql_result import QueryResult, result_of
from audit.logs.time_limit import TimeLimit
from audit.logs.view import escape_glob, quote_text

if TYPE_CHECKING:
    import duckdb

ROWS, SECONDS = 1000, 30.0
"""Rows that are returned, and seconds that a query may take, unless told otherwise."""
MEMORY, SPILL, THREADS = "2GB", "4GB", 2
"""What one query may use: memory, disk for what does not fit, threads."""


def query(run: Run, sql: str, *, rows: int = ROWS, seconds: float = SECONDS) -> QueryResult:
    """Run one SELECT over the tables ``rollouts`` and ``metrics`` of a run, in this process.

    What somebody typed or sent is run by :class:`audit.logs.sql_process.RunningQuery`: an interrupt does not
    reach into a single step of a query.

    Parameters
    ----------
    sql : str
        DuckDB's SQL. ``rollouts`` has the columns of the rollout schema, ``metrics`` the scalars that the
        trainer logged: ``name``, ``step``, ``update``, ``micro_batch``, ``value``.
    rows : int
        Most rows that are returned; the result says whether there are more.
    seconds : float
        The query is interrupted after this time.

    Raises
    ------
    AuditError
        Not a single SELECT, reads more than this run, fails, or takes too long.
    """
    import duckdb

    started = time.monotonic()
    rows = max(1, rows)
    limit = TimeLimit(seconds, "the query", "Ask for fewer steps or columns.")
    try:
        with limit, locked(run, sql) as connection:
            limit.watch(connection)
            limit.check()
            cursor = connection.execute(sql)
            fetched = cursor.fetchmany(rows + 1)
            limit.check()
            return result_of(
                run.run_id,
                sql,
                [(name, str(kind)) for name, kind, *_ in cursor.description or []],
                fetched[:rows],
                more=len(fetched) > rows,
                seconds=time.monotonic() - started,
            )
    except duckdb.Error as error:
        limit.check()
        raise AuditError(_in_words(error)) from None


@contextmanager
def locked(run: Run, sql: str) -> Iterator[duckdb.DuckDBPyConnection]:
    """Yield a database for ``sql`` that reads the views of one run, and closes behind it.

    It belongs to one call: threads that share a connection get each other's results and interrupts.

    Raises
    ------
    AuditError
        ``sql`` is not a single query that reads; checked before any file is opened.
    """
    import duckdb

    with duckdb.connect() as parser:
        check_select(parser, sql)
    connection = run.connect()
    try:
        connection.register("_metrics", _metrics(run))
        connection.execute("CREATE TEMP TABLE metrics AS SELECT * FROM _metrics")
        connection.unregister("_metrics")
        # The files, not their folder: nothing else that lies beside them can be read.
        paths = [
            str(part.file.path.absolute())
            for part in run.parts
            if isinstance(part, ParquetPart) and not is_remote(part.file.root)
        ]
        # DuckDB asks for the path as the view writes it, and for the file that it finds by it.
        files = [quote_text(path) for path in sorted({*paths, *map(escape_glob, paths)})]
        for setting in (
            f"memory_limit = '{MEMORY}'",
            f"max_temp_directory_size = '{SPILL}'",
            f"threads = {THREADS}",
            "python_enable_replacements = false",
            "autoload_known_extensions = false",
            "allow_community_extensions = false",
            f"allowed_paths = [{', '.join(files)}]",
            "enable_external_access = false",
            "lock_configuration = true",
        ):
            connection.execute(f"SET {setting}")
        yield connection
    finally:
        connection.close()


def _metrics(run: Run) -> pa.Table:
    held = read_metrics(run)
    columns = {"name": pa.array(held.name.tolist(), pa.string())}
    for name in ("step", "update", "micro_batch", "value"):
        # NaN is how the scalars say that a step was not given; in SQL that is NULL.
        columns[name] = pa.array(getattr(held, name), pa.float64(), from_pandas=name != "value")
    return pa.table(columns)


def columns_of(run: Run) -> list[tuple[str, str, str]]:
    """List what can be asked: (table, column, type), those of ``rollouts`` that hold values first.

    Types are the ones of the rollout schema.
    """
    from audit.schema import COLUMNS

    held = run.columns
    rollouts = [("rollouts", column.name, column.type) for column in COLUMNS if column.name in held]
    metrics = [("metrics", "name", "string")]
    metrics += [("metrics", name, "double") for name in ("step", "update", "micro_batch", "value")]
    return rollouts + metrics


def _in_words(error: Exception) -> str:
    import duckdb

    said = first_lines(error)
    if isinstance(error, duckdb.PermissionException):
        return "a query reads the tables rollouts and metrics of this run, and no other file or address."
    if isinstance(error, duckdb.OutOfMemoryException):
        return f"the query needs more than {MEMORY} of memory. Ask for fewer columns, or aggregate first."
    if "prepared statement" in said.lower() or "parameter" in said.lower():
        return f"{said} (a query has no parameters: write the values)"
    return said

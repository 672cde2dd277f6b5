"""Which SQL may run over a log: one query that reads, and nothing that DuckDB can do beside reading.

The type of a statement is not enough: ``WITH x AS (COPY … TO 'file') SELECT 1`` is a SELECT to DuckDB, and so
are table functions that run other SQL, read addresses of memory or change settings. The parsed tree is looked
through, and what is not known to read is refused.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from audit.errors import AuditError

if TYPE_CHECKING:
    import duckdb

_READING = frozenset({"SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE"})
_FUNCTIONS = frozenset(
    "range generate_series unnest repeat repeat_row json_each json_tree histogram histogram_values "
    "duckdb_columns duckdb_functions duckdb_views duckdb_tables duckdb_types".split()
)
"""Table functions that make rows of their arguments, or say what there is to ask."""
_SWELLING = frozenset({"repeat", "lpad", "rpad"})
"""Functions that make a value of any size of two numbers: in one step, which no time limit interrupts."""
_LONGEST = 100_000


def check_select(connection: duckdb.DuckDBPyConnection, sql: str) -> None:
    """Refuse everything but one query that only reads the views of this connection.

    Parameters
    ----------
    connection : DuckDBPyConnection
        Parses the query; does not run it.
    sql : str
        What somebody typed, or sent as a link.

    Raises
    ------
    AuditError
        Not SQL; several statements; a statement, a table function or a part of a WITH that does more than
        read.
    """
    import duckdb

    check_text(sql)
    try:
        statements = connection.extract_statements(sql)
    except duckdb.Error as error:
        raise AuditError(first_lines(error)) from None
    if not statements:
        msg = "no query was given. Example: select step, avg(reward) from rollouts group by step"
        raise AuditError(msg)
    if len(statements) > 1:
        kinds = ", ".join(str(each.type).rpartition(".")[2] for each in statements)
        msg = f"one statement at a time: this holds {len(statements)} ({kinds}). Only a single SELECT runs."
        raise AuditError(msg)
    kind = str(statements[0].type).rpartition(".")[2]
    if kind != "SELECT":
        # A PIVOT that asks the data for its columns is several statements to DuckDB.
        hint = " A PIVOT names its values: pivot … on x in (1, 2)." if kind == "MULTI" else ""
        raise AuditError(f"only SELECT runs here (also WITH … SELECT and FROM …), not {kind}.{hint}")
    for name in _refused(_tree(connection, statements[0].query)):
        raise AuditError(name)


def check_text(sql: str) -> None:
    """Refuse what is too long to be a query of a person, or no text.

    Raises
    ------
    AuditError
    """
    if len(sql) > _LONGEST:
        msg = f"the query has {len(sql):,} characters; at most {_LONGEST:,}."
        raise AuditError(msg)
    try:
        sql.encode()
    except UnicodeEncodeError as error:
        msg = f"the query is no UTF-8 text: character {error.start + 1:,} is {sql[error.start]!r}."
        raise AuditError(msg) from None


def _tree(connection: duckdb.DuckDBPyConnection, sql: str) -> Any:
    import duckdb

    try:
        row = connection.execute("SELECT json_serialize_sql(?)", [sql]).fetchone()
    except duckdb.Error as error:
        raise AuditError(first_lines(error)) from None
    try:
        tree = json.loads(row[0]) if row else {}
    except RecursionError:
        msg = "the query is nested too deeply to be checked, and is not run."
        raise AuditError(msg) from None
    if tree.get("error", True):
        msg = f"the query cannot be checked, and is not run: {tree.get('error_message', 'no parse tree')}"
        raise AuditError(msg)
    return tree["statements"]


def _refused(tree: Any) -> Iterator[str]:
    """Say what in a parsed query does more than read."""
    tables: set[int] = set()
    for node in _nodes(tree):
        kind = node.get("type")
        if not isinstance(kind, str):
            continue
        if kind.endswith("_NODE") and kind not in _READING:
            name = kind.removesuffix("_NODE").removesuffix("_QUERY")
            yield f"only SELECT runs here, also inside of WITH: not {name}."
        name = str(node.get("function_name", "")).lower()
        if kind == "FUNCTION" and name in _SWELLING and id(node) not in tables:
            yield f"{name}() is not allowed: what it makes has no bound."
        if kind == "TABLE_FUNCTION":
            called = node.get("function") or {}
            # The table function repeat() makes rows, which a time limit does interrupt.
            tables.add(id(called))
            name = str(called.get("function_name", "")).lower()
            if name not in _FUNCTIONS:
                yield (
                    f"{name}() is not allowed: a query reads the tables rollouts and metrics of this run, "
                    "and no file, address or setting."
                )


def _nodes(tree: Any) -> Iterator[dict[str, Any]]:
    """Every object of a JSON tree, without recursion: nested as deep as the query is."""
    waiting = [tree]
    while waiting:
        at = waiting.pop()
        if isinstance(at, dict):
            yield at
            waiting += at.values()
        elif isinstance(at, list):
            waiting += at


def first_lines(error: Exception) -> str:
    """Return what DuckDB says, without the lines that draw the query again."""
    said = str(error).split("\n\nLINE ")[0].split("\nLINE ")[0]
    return " ".join(said.split())

"""Finding responses by what they say and what is known of them; one page of hits at a time, in SQL."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import msgspec

from audit.errors import AuditError, MissingColumn
from audit.logs.run import Run
from audit.logs.search_marks import Pieces, pieces
from audit.logs.sql_check import first_lines
from audit.logs.time_limit import TimeLimit

if TYPE_CHECKING:
    import duckdb

SECONDS = 30.0
_LONGEST_PATTERN = 1000
Range = tuple[float | None, float | None]


class Search(msgspec.Struct, frozen=True, kw_only=True):
    """What is looked for; everything that is given must hold."""

    prompt: str = ""
    """Text that the prompt contains."""
    response: str = ""
    """Text that the response contains."""
    regex: bool = False
    """Whether the texts are regular expressions (RE2: linear time, no look-around)."""
    case: bool = False
    """Whether capitals count."""
    steps: Range = (None, None)
    """First and last step, both included; None is open."""
    rewards: Range = (None, None)
    correct: bool | None = None
    finish_reason: str = ""
    group: str = ""
    """A whole group_id."""
    prompt_id: str = ""
    """A whole prompt_id."""


class Hit(msgspec.Struct, frozen=True, kw_only=True):
    """One response that was found."""

    step: int
    epoch: int
    group_id: str
    sample_index: int
    prompt_id: str
    reward: float | None
    correct: bool | None
    finish_reason: str | None
    length: int | None
    prompt: Pieces
    """Around its first match, cut to a window; empty where prompts were not logged."""
    response: Pieces


class Facets(msgspec.Struct, frozen=True, kw_only=True):
    """What there is to choose from."""

    first_step: int | None
    last_step: int | None
    lowest_reward: float | None
    highest_reward: float | None
    finish_reasons: list[str]
    missing: list[str]
    """Columns that filters ask of and this log does not have."""


_FILTERS = ("prompt", "response", "correct", "finish_reason")


def facets(run: Run) -> Facets:
    """Return ranges and values of the columns that a search can filter by.

    Raises
    ------
    AuditError
        The log cannot be read.
    """
    sql = (
        "SELECT min(step), max(step), min(reward) FILTER (isfinite(reward)), "
        "max(reward) FILTER (isfinite(reward)) FROM rollouts"
    )
    with _asking(run, SECONDS) as connection:
        ranges = connection.execute(sql).fetchone() or (None,) * 4
        reasons = connection.execute(
            "SELECT finish_reason FROM rollouts WHERE finish_reason IS NOT NULL "
            "GROUP BY 1 ORDER BY count(*) DESC, 1 LIMIT 50"
        ).fetchall()
    missing = [name for name in _FILTERS if name not in run.columns]
    names = ("first_step", "last_step", "lowest_reward", "highest_reward")
    return Facets(
        **dict(zip(names, ranges, strict=True)),
        finish_reasons=[reason for (reason,) in reasons],
        missing=missing,
    )


def count_hits(run: Run, search: Search, *, seconds: float = SECONDS) -> int:
    """Return how many responses match.

    Raises
    ------
    MissingColumn
        The log does not have what is asked of.
    AuditError
        No regular expression, or it takes too long.
    """
    where, values = _where(run, search)
    with _asking(run, seconds) as connection:
        row = connection.execute(f"SELECT count(*) FROM rollouts WHERE {where}", values).fetchone()
    return int(row[0]) if row else 0


def find_hits(
    run: Run, search: Search, *, page: int = 1, size: int = 20, seconds: float = SECONDS
) -> list[Hit]:
    """Return one page of responses that match, by step, group and place in the group.

    Parameters
    ----------
    page : int
        From 1 on.
    size : int
        Hits per page.

    Raises
    ------
    MissingColumn, AuditError
        As for :func:`count_hits`.
    """
    where, values = _where(run, search)
    keys = "step, epoch, group_id, sample_index, prompt_id, reward, correct, finish_reason, length"
    marks, patterns = [], []
    for column in ("prompt", "response"):
        asked = getattr(search, column)
        marks.append(column)
        if asked:
            options = _options(search)
            # Cut by the engine that matched: Python's own expressions are others, and can take for ever.
            marks.append(f"regexp_split_to_array({column}, ?, '{options}')")
            marks.append(f"regexp_extract_all({column}, ?, 0, '{options}')")
            patterns += [asked, asked]
        else:
            marks += ["NULL", "NULL"]
    sql = (
        f"SELECT {keys}, {', '.join(marks)} FROM (SELECT {keys}, prompt, response, _file, _row FROM rollouts "
        f"WHERE {where} ORDER BY step, group_id, sample_index, _file, _row LIMIT ? OFFSET ?) "
        "ORDER BY step, group_id, sample_index, _file, _row"
    )
    bounds = [max(1, size), (max(1, page) - 1) * max(1, size)]
    with _asking(run, seconds) as connection:
        rows = connection.execute(sql, [*patterns, *values, *bounds]).fetchall()
    return [_hit(row, keys.split(", ")) for row in rows]


def _hit(row: tuple[Any, ...], names: list[str]) -> Hit:
    known = dict(zip(names, row[: len(names)], strict=True))
    prompt, response = row[len(names) : len(names) + 3], row[len(names) + 3 :]
    return Hit(**known, prompt=pieces(*prompt), response=pieces(*response))


def _where(run: Run, search: Search) -> tuple[str, list[Any]]:
    conditions, values = ["true"], list[Any]()

    def add(condition: str, value: Any, column: str) -> None:
        if column not in run.columns:
            raise MissingColumn.needed_for(column, "this search", run.columns)
        conditions.append(condition)
        values.append(value)

    for column in ("prompt", "response"):
        if asked := getattr(search, column):
            if len(asked) > _LONGEST_PATTERN:
                msg = f"the text to look for has {len(asked):,} characters; at most {_LONGEST_PATTERN:,}."
                raise AuditError(msg)
            add(f"regexp_matches({column}, ?, '{_options(search)}')", asked, column)
    for column, (low, high) in (("step", search.steps), ("reward", search.rewards)):
        if low is not None:
            add(f"{column} >= ?", low, column)
        if high is not None:
            add(f"{column} <= ?", high, column)
    if search.correct is not None:
        add("correct = ?", search.correct, "correct")
    for column, text in (
        ("finish_reason", search.finish_reason),
        ("group_id", search.group),
        ("prompt_id", search.prompt_id),
    ):
        if text:
            add(f"{column} = ?", text, column)
    return " AND ".join(conditions), values


def _options(search: Search) -> str:
    return ("c" if search.case else "i") + ("s" if search.regex else "l")


@contextmanager
def _asking(run: Run, seconds: float) -> Iterator[duckdb.DuckDBPyConnection]:
    """Yield the run's view; what DuckDB says becomes one clear error, and a timer ends what takes long."""
    import duckdb

    limit = TimeLimit(seconds, "the search", "Narrow it: fewer steps, or one group.")
    with limit, run.connect() as connection:
        limit.watch(connection)
        limit.check()
        try:
            yield connection
        except duckdb.InterruptException:
            limit.check()
            raise
        except duckdb.InvalidInputException as error:
            msg = (
                f"not a regular expression of RE2: {first_lines(error).removeprefix('Invalid Input Error: ')}"
            )
            raise AuditError(msg) from None
        except duckdb.Error as error:
            raise AuditError(first_lines(error)) from None

"""Queries of people that run beside the page, so that a button can end them."""

from __future__ import annotations

import threading
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import streamlit as st

from audit.errors import AuditError
from audit.logs import Run
from audit.logs.sql_process import SPARE, RunningQuery

AT_ONCE = 2
"""Queries of all users that run at the same time; the others wait for their turn."""
SIZE = 50_000_000
"""Bytes of the rows of one query; a session keeps them as long as it is open."""


@dataclass(frozen=True)
class Asked:
    """A query that was sent off, and where its result comes to."""

    key: tuple[Any, ...]
    """What was asked of which state of which run."""
    query: RunningQuery
    future: Future[Any]

    def result(self, seconds: float) -> Any:
        """Return the result, or the error as text; None where it still runs after some seconds."""
        done = threading.Event()
        self.future.add_done_callback(lambda _: done.set())
        return self.future.result() if done.wait(seconds) else None

    def cancel(self) -> None:
        """End it."""
        self.query.cancel()


@st.cache_resource(show_spinner=False)
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(AT_ONCE, thread_name_prefix="sql")


def ask(run: Run, sql: str, rows: int, key: tuple[Any, ...]) -> Asked:
    """Send a query off; every check is made where it runs."""
    query = RunningQuery(run, sql, rows=rows, size=SIZE)

    def answer() -> Any:
        try:
            return query.run()
        except AuditError as error:
            return str(error)
        finally:
            SPARE.prepare()

    return Asked(key, query, _pool().submit(answer))

"""Queries of people that run beside the page, so that a button can end them."""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import streamlit as st

from audit.errors import AuditError
from audit.logs import Run
from audit.logs.sql_process import SPARE, RunningQuery

AT_ONCE = 2
"""Queries of all users that run at the same time; the others wait for their turn."""
SIZE = 50_000_000
"""Bytes of the rows of one query; a session keeps them as long as it is open."""
LEFT = 20.0
"""Seconds after which a query waits for its turn no longer where no page has asked for its result."""


class Asked:
    """A query that was sent off, and where its result comes to."""

    def __init__(self, query: RunningQuery, key: tuple[Any, ...]) -> None:
        self.key = key
        """What was asked of which state of which run."""
        self._query = query
        self._looked = time.monotonic()
        self._future: Future[Any] = _pool().submit(self._answer)

    def result(self, seconds: float) -> Any:
        """Return the result, or the error as text; None where it still runs after some seconds."""
        self._looked = time.monotonic()
        done = threading.Event()
        self._future.add_done_callback(lambda _: done.set())
        if not done.wait(seconds):
            return None
        return "the query was cancelled." if self._future.cancelled() else self._future.result()

    def cancel(self) -> None:
        """End it, or take it out of those that wait."""
        self._future.cancel()
        self._query.cancel()

    def _answer(self) -> Any:
        if time.monotonic() - self._looked > LEFT:
            return "the query was not run: its page was left."
        try:
            return self._query.run()
        except AuditError as error:
            return str(error)
        finally:
            SPARE.prepare()


@st.cache_resource(show_spinner=False)
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(AT_ONCE, thread_name_prefix="sql")


def ask(run: Run, sql: str, rows: int, key: tuple[Any, ...]) -> Asked:
    """Send a query off; every check is made where it runs."""
    return Asked(RunningQuery(run, sql, rows=rows, size=SIZE), key)

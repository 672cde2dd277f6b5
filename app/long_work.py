"""Work that takes seconds goes on beside the page, which says how far it is and can stop it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple

import streamlit as st

from audit.report import format as fmt

THREADS = 64
"""Most of them idle: what was computed before takes one for a moment."""
QUICK, AGAIN = 0.2, 3.0
"""Seconds after which the page says what it waits for: at first, and while it shows an earlier result."""
LOOK = 0.25
"""Seconds between two looks at how far the work is; a page that is left ends at such a look."""


Asked = tuple[str, tuple[str, ...]]
"""Key of the work, and what its stages do."""


class Stage(NamedTuple):
    """One piece of work, and what the page says meanwhile; text of logs in it is shown as text."""

    text: str
    do: Callable[[], Any]


class _Work:
    """Stages in a thread of their own: once it is stopped, no further one begins."""

    def __init__(self, stages: Sequence[Stage]) -> None:
        self.stages = stages
        self.at = 0
        self.stopped = threading.Event()

    def run(self) -> Any:
        result = None
        for at, stage in enumerate(self.stages):
            if self.stopped.is_set():
                return None
            self.at = at
            result = stage.do()
        return result


@st.cache_resource(show_spinner=False)
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(THREADS, thread_name_prefix="work")


def finish(key: str, stages: Sequence[Stage]) -> Any:
    """Return what the last stage returns; meanwhile the page says how far the work is.

    Stages are cached functions: what one of them made is kept, and asking again goes on where work was
    stopped. A stage that has begun runs to its end.

    Parameters
    ----------
    key : str
        Of the work on its page: ``Stop`` holds until ``Go on`` is pressed or something else is asked.
    stages : stages, in order
    """
    asked = (key, tuple(stage.text for stage in stages))
    if st.session_state.get("stopped_work") == asked:
        _stopped(stages)
    work = _Work(stages)
    future = _pool().submit(work.run)
    seen = st.session_state.setdefault("seen_work", set())
    try:
        result = _wait(work, future, asked, AGAIN if asked in seen else QUICK)
        seen.add(asked)
        return result
    finally:
        # Reached as well where the page is left, or asked for something else meanwhile.
        work.stopped.set()


def _wait(work: _Work, future: Future[Any], asked: Asked, patience: float) -> Any:
    # There in every run of the page: what comes below keeps its place, and with it what was opened in it.
    place = st.empty()
    done = threading.Event()
    future.add_done_callback(lambda _: done.set())
    began, count = time.monotonic(), len(work.stages)
    while not done.wait(min(LOOK, patience)):
        place.empty()
        if time.monotonic() - began >= patience:
            break
    else:
        return future.result()
    with place.container(border=True):
        bar, said = st.empty(), st.empty()
        st.button("Stop", key=f"stop-{asked[0]}", icon=":material/stop:", on_click=_stop, args=(asked,))
    while True:
        at = work.at
        if count > 1:
            bar.progress(at / count)
        step = f"{at + 1} of {count}: " if count > 1 else ""
        said.text(f"{step}{fmt.visible(work.stages[at].text)}, {time.monotonic() - began:.0f} s")
        if done.wait(LOOK):
            break
    place.empty()
    return future.result()


def _stop(asked: Asked) -> None:
    st.session_state["stopped_work"] = asked


def _go_on() -> None:
    st.session_state.pop("stopped_work", None)


def _stopped(stages: Sequence[Stage]) -> None:
    """Say that nothing is being done, and stop the page."""
    st.info("Stopped. What was read so far is kept; the rest is not begun.", icon=":material/stop_circle:")
    st.text("\n".join(fmt.visible(stage.text) for stage in stages))
    st.button("Go on", key="go-on", icon=":material/play_arrow:", on_click=_go_on)
    st.stop()

"""Work beside the page: stages in order, none begins once it is stopped, errors are those of the page."""

from __future__ import annotations

import threading

import pytest
from audit.app.long_work import Stage, _Work
from streamlit.testing.v1 import AppTest


def script() -> None:
    """Two stages, the first of them slow enough to be told."""
    import time

    import streamlit as st
    from audit.app.long_work import Stage, finish

    def read() -> None:
        time.sleep(0.6)
        done.append("read")

    done = st.session_state.setdefault("done", [])
    stages = [Stage("Reading **a** <b>", read), Stage("Comparing", lambda: "the result")]
    st.text(str(finish("test", stages)))


def test_stages_run_in_order_and_their_traces_are_gone_at_the_end() -> None:
    at = AppTest.from_function(script, default_timeout=60).run()
    assert [text.value for text in at.text] == ["the result"]
    assert at.session_state["done"] == ["read"]
    assert not at.button


def test_stopped_work_is_not_begun_until_it_may_go_on() -> None:
    at = AppTest.from_function(script, default_timeout=60)
    at.session_state["stopped_work"] = ("test", ("Reading **a** <b>", "Comparing"))
    at.run()
    assert "Stopped." in at.info[0].value
    assert at.text[0].value == "Reading **a** <b>\nComparing"
    assert at.session_state["done"] == []
    at.button(key="go-on").click().run()
    assert [text.value for text in at.text] == ["the result"]


def test_what_is_asked_next_is_not_stopped() -> None:
    at = AppTest.from_function(script, default_timeout=60)
    at.session_state["stopped_work"] = ("test", ("Reading another", "Comparing"))
    at.run()
    assert [text.value for text in at.text] == ["the result"]


def test_no_stage_begins_once_it_is_stopped() -> None:
    begun, go_on = threading.Event(), threading.Event()
    later = []

    def first() -> None:
        begun.set()
        assert go_on.wait(10)

    work = _Work([Stage("first", first), Stage("second", lambda: later.append(1))])
    thread = threading.Thread(target=work.run)
    thread.start()
    assert begun.wait(10)
    work.stopped.set()
    go_on.set()
    thread.join(10)
    assert later == []


def test_an_error_is_raised_where_the_page_waits() -> None:
    def fail() -> None:
        from audit.app.long_work import Stage, finish

        def stage() -> None:
            raise ArithmeticError("of a stage")

        finish("test", [Stage("fails", stage)])

    at = AppTest.from_function(fail, default_timeout=60).run()
    assert [error.value for error in at.exception] == ["of a stage"]


@pytest.mark.parametrize("count", [1, 3])
def test_the_last_stage_gives_the_result(count) -> None:
    assert _Work([Stage(str(at), lambda at=at: at) for at in range(count)]).run() == count - 1

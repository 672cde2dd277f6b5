"""SQL: one SELECT over the rows of a run, which can read this run and nothing else."""

from __future__ import annotations

import streamlit as st
from audit.app import cached, cached_search, parts
from audit.app import context as ctx
from audit.app.sql_examples import EXAMPLES
from audit.app.sql_running import Asked, ask
from audit.app.sql_table import show_result

# Rows that a browser gets.
ROWS = 1000
SQL, ASKED = "sql", "asked_sql"

context = ctx.current()
listed = ctx.one_run(context)
ctx.title("SQL", listed)
left, right = st.columns([3, 1])
with right:
    held = cached_search.columns(context.root, listed)
    st.caption("What can be asked")
    if isinstance(held, str):
        parts.say(held)
    else:
        parts.table(
            [
                {"column": name if table == "rollouts" else f"{table}.{name}", "type": kind}
                for table, name, kind in held
            ],
            "columns",
            height=330,
        )


def take(example: str) -> None:
    """Put an example into the box, and run it."""
    st.session_state[SQL] = EXAMPLES[example]


with left:
    with st.container(horizontal=True):
        for name in EXAMPLES:
            st.button(name, key=f"example-{name}", type="tertiary", on_click=take, args=(name,))
    sql = st.text_area(
        "One SELECT over rollouts and metrics",
        next(iter(EXAMPLES.values())),
        key=SQL,
        height=190,
        max_chars=20_000,
        bind="query-params",
        help="DuckDB's SQL; Ctrl+Enter runs it. It reads this run and no file, address or setting; it is "
        "stopped after 30 seconds. The address of the page carries the query.",
    )
    with st.container(horizontal=True, vertical_alignment="center"):
        again = st.button("Run", key="run-sql", icon=":material/play_arrow:")
        status = st.empty()

key = (cached.key_of(listed), sql)
asked: Asked | None = st.session_state.get(ASKED)
if again or asked is None or asked.key != key:
    if asked is not None:
        asked.cancel()
    asked = ask(cached.opened(context.root, listed), sql or "", ROWS, key)
    st.session_state[ASKED] = asked
result = asked.result(1.0)
if result is None:

    @st.fragment(run_every=0.5)
    def wait() -> None:
        """Look whether the answer has come; a button ends the query."""
        running = st.session_state[ASKED]
        st.button("Cancel", key="cancel-sql", icon=":material/stop:", on_click=running.cancel)
        st.caption("Running…")
        if running.result(0) is not None:
            st.rerun()

    with left:
        wait()
else:
    # Beside the columns, and above them where there is no room beside.
    with left:
        if isinstance(result, str):
            st.error("Not run, or stopped:", icon=":material/block:")
            parts.say(result)
        else:
            show_result(result, status)

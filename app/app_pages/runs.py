"""Runs: every run of the directory in one table."""

from __future__ import annotations

import streamlit as st
from audit.app import cached
from audit.app import context as ctx
from audit.app.run_table import COLUMNS, row

from audit.report import format as fmt

context = ctx.current()
ctx.title("Runs")
if not context.listed:
    ctx.nothing_to_show(context)


def choose() -> None:
    """Take the rows that were clicked as the choice of runs."""
    picked = st.session_state["table"]["selection"]["rows"]
    st.session_state[ctx.RUNS] = [shown[place].name for place in picked if place < len(shown)]


shown = []
rows: list[dict[str, object]] = []
unreadable = [f"{fmt.visible(run.name)}: {fmt.visible(run.error)}" for run in context.listed if run.error]
for listed in context.readable.values():
    found = cached.summary(context.root, listed)
    if isinstance(found, str):
        unreadable.append(f"{fmt.visible(listed.name)}: {fmt.visible(found)}")
    else:
        shown.append(listed)
        rows.append(row(listed, found))
if rows:
    st.dataframe(
        {name: [each[name] for each in rows] for name in rows[0]},
        hide_index=True,
        key="table",
        on_select=choose,
        selection_mode="multi-row",
        column_config=COLUMNS,
        lazy=False,
    )
    st.caption("Reward: mean with its 95 % interval, resampling prompts; n: the responses behind it.")
if unreadable:
    st.subheader("Cannot be read")
    st.text("\n".join(unreadable))

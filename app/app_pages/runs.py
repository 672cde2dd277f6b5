"""Runs: every run of the directory in one table; what is picked there is what the other pages show."""

from __future__ import annotations

import time
from typing import Any

import streamlit as st
from audit.app import cached, links, look, run_table
from audit.app import context as ctx

TABLE, FILTER = "runs_table", "find"
ROW, TALLEST = 35, 700  # pixels
MOST = 50  # unreadable runs that are told one by one
PATIENCE = 0.8  # seconds between two looks at what was read so far
AT_FIRST = 0.15  # seconds after which the names alone are shown; on a first visit at once
VISITED = "runs_visited"

context = ctx.current()
ctx.title("Runs")
if not context.listed:
    ctx.nothing_to_show(context)
now = time.time()
written = {run.name: run.written for run in context.listed}


def rows_of(found: dict[str, Any]) -> list[dict[str, Any]]:
    """Rows of what was read so far, in the order of the directory."""
    made = []
    for run in context.readable.values():
        colour, at = context.colours[run.name], written[run.name]
        held = found.get(run.name)
        if held is None:
            made.append(run_table.pending(run, colour, at, run_table.READING))
        elif isinstance(held, str):
            made.append(run_table.pending(run, colour, at, run_table.UNREADABLE, held))
        else:
            made.append(run_table.row(run, colour, at, now, held))
    return made


bar = st.container(horizontal=True, vertical_alignment="center")
said = st.empty()
place = st.empty()
links_place = st.container()
found: dict[str, Any] = {}
# The browser fetches the table's code as soon as there is one: meanwhile the runs are read.
looked = time.monotonic() - PATIENCE + (AT_FIRST if VISITED in st.session_state else 0.0)
st.session_state[VISITED] = True
for count, run in enumerate(context.readable.values()):
    if time.monotonic() - looked > PATIENCE:
        looked = time.monotonic()
        if count:
            said.progress(
                count / len(context.readable),
                f"Reading {count + 1} of {len(context.readable)} runs; what was read stays when you leave",
            )
        seen = rows_of(found)
        place.dataframe(
            {name: [each[name] for each in seen] for name in run_table.order(seen)},
            hide_index=True,
            column_config=run_table.columns(seen),
            height=min(ROW * (len(seen) + 1) + 3, TALLEST),
            lazy=False,
            alt="Runs of the directory, while they are read",
        )
    found[run.name] = cached.overview(context.root, run)
said.empty()
rows = rows_of(found)

with bar:
    wanted = st.text_input(
        "Find",
        key=FILTER,
        bind="query-params",
        placeholder="find by name, framework, objective, problem…",
        label_visibility="collapsed",
        icon=":material/search:",
        width=340,
    )
shown = [each for each in rows if run_table.matches(each, wanted)]
names = [name for name, each in zip(context.readable, rows, strict=True) if each in shown]


def choose() -> None:
    """Take the ticked rows as the choice of runs; what the filter hides stays chosen."""
    ticked = [names[at] for at in st.session_state[TABLE]["selection"]["rows"] if at < len(names)]
    kept = [name for name in context.chosen if name not in names or name in ticked]
    links.choose([*kept, *(name for name in ticked if name not in kept)])


ticked = [names.index(name) for name in context.chosen if name in names]
held = st.session_state.get(TABLE)
if held is None or sorted(held["selection"]["rows"]) != sorted(ticked):
    st.session_state[TABLE] = {"selection": {"rows": ticked, "columns": [], "cells": []}}
if shown:
    with place:
        st.dataframe(
            {name: [each[name] for each in shown] for name in run_table.order(rows)},
            hide_index=True,
            key=TABLE,
            height=min(ROW * (len(shown) + 1) + 3, TALLEST),
            on_select=choose,
            selection_mode="multi-row",
            column_config=run_table.columns(rows),
            placeholder="",
            lazy=False,
            alt="Runs of the directory; ticked rows are the runs that the other pages show",
        )
elif rows:
    place.info("No run matches; the filter looks at names, frameworks, objectives and problems.")
chosen = list(context.chosen)
with bar:  # not at the right end: there the toolbar of the table lies over it
    several = len(chosen) > 1
    links.link("compare", label=f"Compare {len(chosen)}" if several else "Compare", disabled=not several)
    counted = f"{len(shown)} of {len(rows)}" if len(shown) < len(rows) else f"{len(rows)}"
    st.caption(f"{counted} runs, {len(chosen)} chosen" if rows else "", width="content")
with links_place:
    if chosen:
        with st.container(horizontal=True, vertical_alignment="center"):
            look.legend([(chosen[0], context.colours[chosen[0]], "")])
            links.single_run_links()
    elif rows:
        st.caption("Tick one run to open its pages, two or more to compare them.")
errors = [(run.name, run.error) for run in context.listed if run.error]
errors += [(name, held) for name, held in found.items() if isinstance(held, str)]
unreadable = [{"run": name, "why": why.removeprefix(f"{context.root / name}: ")} for name, why in errors]
if unreadable:
    st.subheader("Cannot be read")
    look.rows(unreadable[:MOST])
    if len(unreadable) > MOST:
        st.caption(f"and {len(unreadable) - MOST:,} more")


@st.fragment(run_every="30s")
def still_writing() -> None:
    """Run the page again once a run has fallen silent: nothing in the directory says so."""
    silent = time.time() - run_table.FRESH
    if any(at is not None and silent >= at > now - run_table.FRESH for at in written.values()):
        st.rerun()


still_writing()

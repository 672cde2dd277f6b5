"""Compare: why two runs differ, or how several do."""

from __future__ import annotations

import streamlit as st
from audit.app import compare_many, compare_two, links
from audit.app import context as ctx

from audit.report import format as fmt

PICKED = "to_compare"


def ask() -> None:
    """Let two or more runs be picked here; which ones to compare is nobody's guess."""
    st.info("Choose two runs to see why they differ, or several.")
    picked = st.multiselect(
        "Runs to compare",
        list(context.readable),
        list(context.chosen),
        key=PICKED,
        format_func=fmt.visible,
        placeholder="choose two or more",
    )
    st.button(
        "Compare",
        icon=":material/difference:",
        disabled=len(picked) < 2,
        on_click=links.choose,
        args=(picked,),
    )


context = ctx.current()
ctx.title("Compare")
if not context.readable:
    ctx.nothing_to_show(context)
if len(context.readable) < 2:
    st.info("Comparing takes two runs, and this directory has one. New runs appear by themselves.")
    st.stop()
if len(context.chosen) < 2:
    ask()
    st.stop()
runs = [context.run(name) for name in context.chosen]
named = ", ".join(fmt.visible(run.run_id) for run in runs[:3])
st.set_page_config(page_title=f"{named} · Compare · rlaudit")
if len(runs) == 2:
    compare_two.show(context, runs[0], runs[1])
else:
    compare_many.show(context, runs)

"""Compare: why two runs differ, or how several do."""

from __future__ import annotations

import streamlit as st
from audit.app import compare_many, compare_two
from audit.app import context as ctx

from audit.report import format as fmt

context = ctx.current()
runs = ctx.several_runs(context, 2)
ctx.title("Compare")
named = ", ".join(fmt.visible(run.run_id) for run in runs[:3])
st.set_page_config(page_title=f"{named} · Compare · rlaudit")
if len(runs) < 2:
    st.info("Comparing takes two runs, and this directory has one. New runs appear by themselves.")
    st.stop()
if len(context.chosen) < 2:
    st.caption("Fewer than two runs are chosen; the first of the directory stand in. Choose at the side.")
if len(runs) == 2:
    compare_two.show(context, runs[0], runs[1])
else:
    compare_many.show(context, runs)

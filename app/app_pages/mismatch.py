"""Mismatch: how far the engine's log-probs are from the trainer's on the same tokens."""

from __future__ import annotations

import streamlit as st
from audit.app import cached, parts
from audit.app import context as ctx

from audit.report.policy_charts import mismatch_chart

context = ctx.current()
listed = ctx.one_run(context)
ctx.title("Mismatch", listed)
result = parts.or_stop(cached.analysis(context.root, listed, "mismatch"))
parts.verdict(result.verdict)
if result.gap is not None:
    parts.chart(lambda: mismatch_chart(result), "Mean gap of log-probs over steps and by part", "mismatch")
if result.resets:
    st.caption(f"Falls back at steps {', '.join(map(str, result.resets))} (heuristic).")
parts.doubts_and_skips(result.doubts, result.skipped)

"""Groups and prompts: which groups carry no signal, and which prompts carry the gradient."""

from __future__ import annotations

import streamlit as st
from audit.app import cached, parts
from audit.app import context as ctx

from audit.report import format as fmt
from audit.report.breakdown_charts import factors_and_shares, zero_signal_over_steps

context = ctx.current()
listed = ctx.one_run(context)
ctx.title("Groups & prompts", listed)
result = parts.or_stop(cached.analysis(context.root, listed, "groups"))
zero = result.zero_signal
parts.numbers(
    {
        "groups without signal": zero.all,
        "all right": zero.right,
        "all wrong": zero.wrong,
    },
    percent=True,
)
st.caption(
    f"{fmt.count(result.groups)} groups of {result.group_size} on {fmt.count(result.prompts)} prompts; "
    f"correct is: {fmt.visible(zero.correct_is)}"
)
parts.chart(lambda: zero_signal_over_steps(result), "Share of groups without signal over steps", "zero")
prompts = cached.analysis(context.root, listed, "prompts")
if isinstance(prompts, str):
    st.text(fmt.visible(prompts))
else:
    st.subheader("Weight of a prompt")
    parts.chart(lambda: factors_and_shares(prompts), "Prompt weight by success rate, Lorenz curves", "shares")
parts.doubts_and_skips(result.notes, result.skipped)

"""Length: is length rewarded by accident, and did lengths move with it?"""

from __future__ import annotations

import streamlit as st
from audit.app import cached, parts
from audit.app import context as ctx

from audit.analyses.length_rows import SIDES
from audit.report import format as fmt
from audit.report.length_charts import drift_chart, push_chart
from audit.report.length_words import confounds, laws, legend

context = ctx.current()
listed = ctx.one_run(context)
ctx.title("Length", listed)
result = parts.or_stop(cached.analysis(context.root, listed, "length"))
parts.verdict(result.verdict)
st.caption(f"correct is: {fmt.visible(result.correct_is)}")
left, right = st.columns(2)
with left:
    st.subheader("Weight per token against length")
    parts.estimates(laws(result.slope), "laws", sign=True)
with right:
    st.subheader("Push and drift of length")
    rows = [
        {
            "": name,
            "push": fmt.estimate(getattr(result.pressure, name), sign=True),
            "drift": fmt.estimate(getattr(result.drift, name), sign=True),
            "n": getattr(result.drift, name).n,
        }
        for name in SIDES
    ]
    parts.table(rows, "push")
parts.chart(lambda: drift_chart(result), "Cumulative push and observed length over steps", "drift")
st.subheader("The same rollouts under other objectives")
parts.chart(lambda: push_chart(result), "Push on length of correct and wrong answers by objective", "pushes")
st.subheader("What else moves length")
parts.table([{"": name, "value": shown, "n": n} for name, shown, n in confounds(result)], "confounds")
parts.doubts_and_skips(result.doubts, result.skipped)
st.caption(fmt.visible(legend(result)))

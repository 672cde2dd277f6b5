"""Clipping: what the trust region removed, where, and what another one would have removed."""

from __future__ import annotations

import streamlit as st
from audit.app import cached, parts
from audit.app import context as ctx

from audit.report import format as fmt
from audit.report.policy_charts import clipping_chart

context = ctx.current()
listed = ctx.one_run(context)
ctx.title("Clipping", listed)
result = parts.or_stop(cached.analysis(context.root, listed, "clipping"))
parts.verdict(result.verdict)
parts.numbers(
    {
        "clip-zeroed share of loss tokens": result.share,
        "outside the band, kept": result.outside_kept,
    },
    percent=True,
)
if result.share is not None:
    st.caption(f"{fmt.count(result.zeroed)} of {fmt.count(result.tokens)} loss tokens were removed.")
    parts.chart(lambda: clipping_chart(result), "Clip-zeroed share over steps and by part", "clipping")
if result.bounds:
    st.subheader("Other trust regions on the same tokens")
    rows = [
        {
            "trust region of": ", ".join([each.objective, *each.also]),
            "removes a": each.unit,
            "clip-zeroed": fmt.percent_estimate(each.share),
            "gradient lost": fmt.percent_estimate(each.lost),
            "n": each.share.n,
        }
        for each in result.bounds
    ]
    parts.table(rows, "bounds")
if result.ids:
    st.subheader("Tokens removed most often")
    st.caption(fmt.visible(result.ids_are))
    rows = [
        {
            "id": each.id,
            "text": each.text or "",
            "removed": each.zeroed,
            "of": each.tokens,
            "share": fmt.percent_estimate(each.share),
            "lift": fmt.estimate(each.lift),
        }
        for each in result.ids
    ]
    parts.table(rows, "ids")
parts.doubts_and_skips(result.doubts, result.skipped)

"""KL: how far the policy is from its reference and its old self, and what the run's KL pulls on."""

from __future__ import annotations

import streamlit as st
from audit.app import cached, parts
from audit.app import context as ctx

from audit.report import format as fmt
from audit.report.policy_charts import kl_chart

context = ctx.current()
listed = ctx.one_run(context)
ctx.title("KL", listed)
result = parts.or_stop(cached.analysis(context.root, listed, "kl"))
parts.verdict(result.verdict)
if result.estimates:
    st.subheader("Estimates, nats")
    rows = [
        {
            "KL of": f"{each.of} ‖ ref",
            "per": each.per,
            "estimator": each.estimator + (" × ratio" if each.corrected else ""),
            "value [95 % interval]": fmt.estimate(each.value, sign=True),
            "n": each.value.n,
            "largest response holds": fmt.percent(each.heaviest),
        }
        for each in result.estimates
    ]
    parts.table(rows, "estimates")
    parts.chart(lambda: kl_chart(result), "KL estimates over steps, nats per token", "kl")
parts.doubts_and_skips(result.doubts, result.skipped)

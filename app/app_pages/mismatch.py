"""Mismatch: how far the engine's log-probs are from the trainer's on the same tokens."""

from __future__ import annotations

import streamlit as st
from audit.app import context as ctx
from audit.app import look, parts, single

from audit.report import format as fmt
from audit.report.mismatch_rows import gap_rows, tail_in_words, tail_rows, weight_rows
from audit.report.panels import parts_panel, trend_panel
from audit.report.text.mismatch import TITLES, does

SIZE = "mean |g|, nats per token"
context = ctx.current()
listed = ctx.one_run(context)
colour = context.colours[listed.name]
ctx.title("Mismatch", listed)
result = parts.or_stop(single.analysed(context, listed, "mismatch"))
look.lead(result.verdict)
if result.gap is None:
    parts.doubts_and_skips(result.doubts, result.skipped, opened=True)
    st.stop()
with single.cards():
    single.chart_card(
        "Over steps",
        lambda: trend_panel(result.steps, colour, SIZE),
        "steps",
        f"Falls back at steps {', '.join(map(str, result.resets[:10]))} (heuristic)."
        if result.resets
        else "",
        about="g = log pi_old - log pi_sampler on a sampled token of the first inner pass.",
    )
    with single.card("Per loss token"):
        look.rows(
            [
                {"": name, "nats [95 %]": fmt.estimate(e), "n": fmt.count(e.n)}
                for name, e in gap_rows(result.gap)
            ],
            right=("nats [95 %]", "n"),
        )
    for name, title in TITLES.items():
        buckets = result.by.get(name, [])
        if len(buckets) > 1:
            single.chart_card(
                title,
                lambda b=buckets: parts_panel(b, colour, SIZE, whole=result.gap.size.value),
                f"by-{name}",
            )
    if result.tail is not None:
        with single.card("The tail"):
            look.rows(tail_rows(result.tail))
            parts.caption(tail_in_words(result.tail))
    if result.weights is not None:
        with single.card("Importance weights, pi_old / pi_sampler"):
            look.rows([{"": name, "value [95 %]": shown} for name, shown in weight_rows(result.weights)])
            parts.caption(f"n = {fmt.plural(result.weights.responses, 'response')}.")
if result.corrections:
    with single.card("What corrections would do to the same tokens"):
        look.rows(
            [
                {
                    "": each.name,
                    "does": does(each),
                    "tokens touched [95 %]": fmt.percent_estimate(each.touched),
                    "responses [95 %]": fmt.NOTHING
                    if each.responses is None
                    else fmt.percent_estimate(each.responses),
                    "mean weight [95 %]": fmt.estimate(each.mean_weight),
                    "n": fmt.count(each.touched.n),
                }
                for each in result.corrections
            ],
            right=("n",),
        )
if result.grids:
    with single.card("How log-probs are stored"):
        look.rows(
            [
                {
                    "on the grid of": grid.column,
                    "bfloat16": fmt.percent(grid.bfloat16, decimals=1),
                    "float16": fmt.percent(grid.float16, decimals=1),
                    "of": fmt.count(grid.tokens),
                }
                for grid in result.grids
            ],
            right=("bfloat16", "float16", "of"),
        )
parts.doubts_and_skips(result.doubts, result.skipped)

"""What if: one step of a run under another objective, next to what the run itself did."""

from __future__ import annotations

import json

import streamlit as st
from audit.app import cached_step, look, objective_form, parts, single
from audit.app import context as ctx
from audit.app.steps import pick_step

from audit.objectives.catalogue import CATALOGUE, named
from audit.report import format as fmt
from audit.report.step_charts import MEASURES, OTHER, OWN, TITLES, betas_chart, parts_chart
from audit.report.step_words import headline, rows_of

context = ctx.current()
listed = ctx.one_run(context)
ctx.title("What if", listed)
own, why = cached_step.own(context.root, listed)

at, begin, again = st.columns([2, 2, 1], vertical_alignment="bottom")
with at:
    step = pick_step(context, listed)
with begin:
    names = [*([OWN] if own is not None else []), *CATALOGUE]
    first = 0 if own is not None else names.index("grpo")
    start = st.selectbox(
        "Start from",
        names,
        index=first,
        key="from",
        bind="query-params",
        help="The objective that the fields below change.",
    )
again.button("Reset", on_click=objective_form.reset, icon=":material/restart_alt:", width="stretch")
base = own if own is not None and start == OWN else named(start)
if own is None:
    st.info("The run's own objective is not known; the step is compared with the one you start from.")
    parts.say(why)
wanted = objective_form.ask(base)
answer = st.container()
if wanted is None:
    st.stop()

before, called = (own, OWN) if own is not None else (base, start)
result = parts.or_stop(cached_step.one_step(context.root, listed, step, before, wanted))
with answer:
    look.lead(headline(result))
    if not result.distance.value:
        parts.caption("Change a part above, or start from another objective.")
with single.card("Side by side [95 %]"):
    rows = rows_of(result, called)
    look.rows(rows, right=(called, OTHER, "change", "n"))
shown = st.segmented_control(
    "Measure",
    list(MEASURES),
    default="share of the gradient",
    required=True,
    key="measure",
    bind="query-params",
    label_visibility="collapsed",
)
measure = MEASURES[shown]
colour = context.colours[listed.name]
with single.cards():
    for kind, title in TITLES.items():
        single.chart_card(
            f"{shown[:1].upper()}{shown[1:]} by {title.partition(',')[0]}",
            lambda k=kind: parts_chart(result, k, measure, colour, own=called),
            f"by-{kind}",
        )
    single.chart_card(
        "Effective beta by success rate",
        lambda: betas_chart(result, colour, own=called),
        "betas",
        about="What the coefficient of the KL counts next to the reward: exact, for rewards 0 and 1.",
    )
parts.caption(
    f"{fmt.count(result.responses)} responses, {fmt.count(result.tokens)} loss tokens. Intervals: 95 %, "
    "resampling prompts; n counts responses. Gradient: sum of |policy weight|, the KL in the loss left out."
)
with st.expander("The objective as JSON, for --objective FILE", icon=":material/data_object:"):
    st.code(json.dumps(result.b.objective | {"name": "what-if"}, indent=1), language="json", height=320)
parts.doubts_and_skips(result.notes, result.skipped)

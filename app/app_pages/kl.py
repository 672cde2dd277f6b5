"""KL: how far the policy is from its reference and its old self, and what the run's KL pulls on."""

from __future__ import annotations

import streamlit as st
from audit.app import context as ctx
from audit.app import look, parts, single

from audit.report import format as fmt
from audit.report.kl_words import HELP, meanings, named, paired
from audit.report.panels import GREY, HEIGHT, parts_panel
from audit.report.policy_panels import beta_panel, kl_panel

context = ctx.current()
listed = ctx.one_run(context)
colour = context.colours[listed.name]
ctx.title("KL", listed)
result = parts.or_stop(single.analysed(context, listed, "kl"))
look.lead(result.verdict)
with single.cards():
    if any(name.endswith("_ref_k3") for name in result.trends):
        of = "theta" if "theta_ref_k3" in result.trends else "old"
        single.chart_card(
            f"KL({of} ‖ ref) over steps",
            lambda: kl_panel(result, (f"{of}_ref_k3", f"{of}_ref_k1"), ("k3", "k1"), (colour, GREY)),
            "to-reference",
            "Two estimators of one KL: where they part, one of them is not to be trusted. Bands: 95 %, cut "
            "where they go far beyond the lines.",
            about=HELP,
        )
    if "drift_k3" in result.trends:
        single.chart_card(
            "KL(old ‖ theta) over steps",
            lambda: kl_panel(result, ("drift_k3",), ("k3",), (colour,)),
            "drift",
            "How far updates moved the policy from the one that was sampled.",
        )
    if result.drift is not None and len(result.drift.by_update) > 1:
        single.chart_card(
            "Drift by inner update",
            lambda: parts_panel(result.drift.by_update, colour, "nats per token", height=HEIGHT),
            "by-update",
        )
    if result.placement is not None and result.placement.by_rate:
        single.chart_card(
            "Weight of the KL next to the reward",
            lambda: beta_panel(result.placement.by_rate, colour, result.placement.coefficient),
            "betas",
            "Exact, for rewards 0 and 1. Dashed: the coefficient as it is written.",
        )
if result.start:
    with single.card("Start of the run"):
        look.items(
            [
                (
                    f"KL({start.of} ‖ ref) at step {start.step:,}",
                    f"k3 {fmt.estimate(start.k3)} · mean |d| {fmt.estimate(start.size)} · "
                    f"n = {fmt.count(start.size.n)}",
                    start.meaning,
                )
                for start in result.start
            ]
        )
if result.estimates:
    with single.card("Estimates, nats [95 %]", about=HELP):
        look.rows(
            [
                {
                    "": f"{first.of} ‖ ref",
                    "by": named(first),
                    **{
                        name: shown
                        for per in ("token", "sequence")
                        for name, shown in (
                            (f"per {per}", fmt.estimate(pers[per].value, sign=True) if per in pers else ""),
                            (f"largest holds, {per}", fmt.percent(pers[per].heaviest) if per in pers else ""),
                        )
                    },
                    "n": fmt.count(first.value.n),
                }
                for first, pers in paired(result.estimates)
            ],
            right=("per token", "largest holds, token", "per sequence", "largest holds, sequence", "n"),
            whole=("", "by"),
        )
        if result.correction is not None:
            k = result.correction
            parts.caption(
                f"Weights of × ratio per sequence: ESS {fmt.percent_estimate(k.ess)}, Pareto k "
                f"{fmt.number(k.pareto_k)}, reliable below {k.reliable_k:.2f}."
            )
    with st.expander("What each estimator means", icon=":material/menu_book:"):
        look.items(meanings())
if result.pulls:
    with single.card("What each estimator does as a loss on these tokens"):
        look.rows(
            [
                {
                    "": each.form,
                    "h": each.h,
                    "mean h [95 %]": fmt.estimate(each.mean, sign=True),
                    "alignment [95 %]": fmt.estimate(each.alignment, sign=True),
                    "n": fmt.count(each.mean.n),
                    "pulls towards": each.effect,
                }
                for each in result.pulls
            ],
            right=("mean h [95 %]", "alignment [95 %]", "n"),
            whole=("", "h"),
        )
        parts.caption(
            "h: gradient of the estimator to log pi of a token. Alignment: cosine with d, the pull of "
            "reverse KL."
        )
parts.doubts_and_skips(
    result.doubts, result.skipped, opened=not (result.trends or result.start or result.estimates)
)

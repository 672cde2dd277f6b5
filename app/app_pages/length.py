"""Length: is length rewarded by accident, and did lengths move with it?"""

from __future__ import annotations

import streamlit as st
from audit.app import cached_single, look, parts, single
from audit.app import context as ctx

from audit.analyses.length_rows import SIDES
from audit.report import format as fmt
from audit.report.length_panels import ecdf_panel, lengths_panel, push_panel, pushes_panel
from audit.report.length_words import confounds, laws, legend, moved_with

context = ctx.current()
listed = ctx.one_run(context)
ctx.title("Length", listed)
result = parts.or_stop(single.analysed(context, listed, "length"))
look.lead(result.verdict)


def push_and_drift() -> None:
    """What the weights push for, and how lengths moved."""
    with single.cards():
        single.chart_card(
            "Cumulative push of the weights",
            lambda: push_panel(result),
            "push",
            "Summed from the first bin of steps. The learning rate that scales it is unknown: compare sign "
            "and shape with the lengths beside it.",
        )
        courses = parts.or_stop(cached_single.courses(context.root, listed))
        single.chart_card(
            "Observed length",
            lambda: lengths_panel(courses),
            "drift",
            "Since the first bin, prompts held fixed: a change of the prompts that come up is no drift.",
        )
    push, drift, slope = "push [95 %]", f"drift, {result.unit} [95 %]", "slope [95 %]"
    with single.card("Push against drift"):
        both = result.push_and_drift
        look.rows(
            [
                {
                    "": name,
                    push: fmt.estimate(getattr(result.pressure, name), sign=True),
                    drift: fmt.estimate(getattr(result.drift, name), sign=True),
                    "length": "" if both is None else moved_with(getattr(both, name)),
                    "n": fmt.count(getattr(result.drift, name).n),
                }
                for name in SIDES
            ],
            right=(push, drift, "n"),
        )
        parts.caption(
            f"Push: {result.unit} per unit of mean |weight|. Drift: least-squares change from the first step "
            "to the last, prompts held fixed. n counts responses."
        )
    with single.card("Weight of a token against length"):
        look.rows(
            [
                {"": name, slope: fmt.estimate(e, sign=True), "n": fmt.count(e.n)}
                for name, e in laws(result.slope)
            ],
            right=(slope, "n"),
        )
        parts.caption(
            "Of log weight per token on log length: -1 is division by the response's length, 0 none."
        )


def distributions() -> None:
    """How long the answers are, early and late."""
    found = cached_single.lengths(context.root, listed)
    if isinstance(found, str):
        parts.say(found)
        return
    with single.cards():
        for side in ("correct", "wrong"):
            single.chart_card(
                f"Length of {side} responses", lambda s=side: ecdf_panel(found, s), f"ecdf-{side}"
            )
    look.rows(
        [
            {
                "": each.side,
                "third of the steps": each.third,
                "steps": f"{each.first_step:,}–{each.last_step:,}",
                "median": fmt.number(each.median),
                "longest": fmt.number(each.length[-1]),
                "n": fmt.count(each.n),
            }
            for each in found.curves
        ],
        right=("median", "longest", "n"),
    )
    parts.caption(
        "Shares of the responses that were logged: of other prompts in each third, where prompts changed."
    )


def objectives() -> None:
    """The same rollouts under the catalogue."""
    single.chart_card(
        "Push of every objective on the same rollouts",
        lambda: pushes_panel(result),
        "pushes",
        "One row for objectives that do the same. Above 0: longer answers of that side are made more likely.",
    )


def others() -> None:
    """What else moves length."""
    with single.card("What else moves length"):
        look.rows(
            [{"": name, "value": shown, "n": fmt.count(n)} for name, shown, n in confounds(result)],
            right=("n",),
        )


single.show_view(
    {
        "Push & drift": push_and_drift,
        "Distributions": distributions,
        "Objectives": objectives,
        "Confounds": others,
    }
)
parts.doubts_and_skips(result.doubts, result.skipped)
with st.expander("How to read this", icon=":material/menu_book:"):
    st.text(fmt.visible(f"Correct is: {result.correct_is}.\n{legend(result)}"))

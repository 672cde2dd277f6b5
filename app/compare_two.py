"""Two runs side by side: the verdict, then one view at a time of what it rests on."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import streamlit as st
from audit.app import compare_texts, compare_time, compare_weights, links, long_work, look, parts
from audit.app.cached import explained, key_of, known_of
from audit.app.context import Context
from audit.app.listing import Listed
from audit.app.long_work import Stage

from audit.analyses.explain import Explanation
from audit.analyses.findings import Cause, Effect
from audit.report import format as fmt
from audit.report.consequences import cause_in_words
from audit.report.told import told_differences
from audit.report.waterfall_chart import waterfall_chart
from audit.report.words import caveats, inferred_in_words, moved, on_rollouts

VIEW = "view"
_GAP = "B − A [95 %]"


def show(context: Context, a: Listed, b: Listed) -> None:
    """Draw the whole comparison."""
    place = st.empty()
    with place.container():
        look.legend([(a.name, context.colours[a.name], "A"), (b.name, context.colours[b.name], "B")])
        x: Explanation = parts.or_stop(long_work.finish("compare", _stages(context, a, b)))
    with place.container():
        _header(context, a, b, x)
    look.lead(x.verdict.text + "".join(f" ({each})" for each in caveats(x)))
    views: dict[str, Callable[[], None]] = {
        "Causes": lambda: _causes(x),
        "Over steps": lambda: compare_time.show_two(context, a, b, x.timeline),
        "Weights": lambda: compare_weights.show(context, a, b),
        "Same prompts": lambda: compare_texts.show(context, a, b),
    }
    view = st.segmented_control(
        "View", list(views), default="Causes", key=VIEW, bind="query-params", label_visibility="collapsed"
    )
    views[view or "Causes"]()
    _limits(x)


def _stages(context: Context, a: Listed, b: Listed) -> list[Stage]:
    """Each run by itself, for it may be known from another comparison; then both."""
    root = str(context.root)
    return [
        *(Stage(f"Reading {each.name}", partial(known_of, root, key_of(each))) for each in (a, b)),
        Stage("Weighing the same rollouts under both objectives", partial(explained, context.root, a, b)),
    ]


def _header(context: Context, a: Listed, b: Listed, x: Explanation) -> None:
    said = []
    for letter, listed, run, declared in zip("AB", (a, b), x.runs, (x.declared.a, x.declared.b), strict=True):
        facts = f"{fmt.plural(run.responses, 'response')}, {fmt.plural(run.steps, 'step')}, tier {run.tier}"
        about = f"{letter} · {fmt.objective_name(declared)} · {facts}"
        said.append((listed.name, context.colours[listed.name], about))
    left, right = st.columns([6, 1], vertical_alignment="center")
    with left:
        look.legend(said)
    with right:
        st.button(
            "Swap",
            icon=":material/swap_vert:",
            type="tertiary",
            key="swap",
            help="Call the second run A",
            on_click=links.choose,
            args=([b.name, a.name],),
        )


def _causes(x: Explanation) -> None:
    left, right = st.columns([4, 5])
    with left, st.container(border=True, height="stretch"):
        st.markdown("**What turns the weights**")
        _waterfall(x)
    with right, st.container(border=True, height="stretch"):
        st.markdown("**Causes, ranked**")
        if x.verdict.causes:
            look.items([_cause(cause) for cause in x.verdict.causes])
            parts.caption(
                "share: of the difference in direction, with its 95 % interval; confidence: heuristic."
            )
        else:
            parts.caption("None beyond noise in what these logs can show.")
    with st.container(border=True):
        st.markdown("**Objectives as declared, and what the difference does**")
        _declared(x)
    left, right = st.columns([2, 1])
    with left, st.container(border=True, height="stretch"):
        st.markdown("**Outcomes**")
        look.rows([_effect(effect) for effect in x.outcomes], right=("A", "B", "n"), whole=(_GAP, "apart?"))
        if not x.outcomes:
            parts.caption("Nothing came out that both logs hold.")
    with right, st.container(border=True, height="stretch"):
        st.markdown("**What the logged advantages fit**")
        look.rows(
            [
                {"": letter, "fit": inferred_in_words(found)}
                for letter, found in zip("AB", (x.inferred.a, x.inferred.b), strict=True)
            ]
        )
    if x.measured:
        with st.expander(f"Everything that was compared ({len(x.measured)})", icon=":material/list_alt:"):
            look.rows(
                [_effect(effect) | {"note": effect.note} for effect in x.measured], right=("A", "B", "n")
            )


def _waterfall(x: Explanation) -> None:
    whole = max(x.effects, key=lambda effect: (len(effect.parts), len(effect.on)), default=None)
    if whole is None:
        parts.caption("The objectives are the same, or these logs cannot say how they differ.")
        return
    parts.chart(
        lambda: waterfall_chart(whole, look.ink()), "Parts of 1 - cosine between the weights", "waterfall"
    )
    on = on_rollouts(whole, x.runs)
    parts.caption(
        f"Both objectives on the rollouts of {'both runs' if on == 'both' else on}; exact Shapley values, "
        f"95 % by prompt, n = {fmt.count(whole.distance.n)} responses, once for each inner pass, "
        f"{fmt.count(whole.tokens)} tokens. "
        f"Size of B's weights: {fmt.factor_estimate(whole.log_scale)}."
    )


def _declared(x: Explanation) -> None:
    told = told_differences(x.declared)
    if told:
        look.items([(each.field, f"{each.a} → {each.b}", each.consequence) for each in told])
        return
    both = x.declared.a is not None and x.declared.b is not None
    parts.caption("No difference." if both else "Not both runs declare one.")


def _effect(effect: Effect) -> dict[str, object]:
    decimals = fmt.decimals_for(effect.difference, effect.low, effect.high)
    return {
        "": effect.name,
        "A": fmt.number(effect.a, decimals=decimals),
        "B": fmt.number(effect.b, decimals=decimals),
        _GAP: fmt.interval(effect.difference, effect.low, effect.high, sign=True),
        "n": " / ".join(map(fmt.count, effect.n)),
        "apart?": moved(effect),
    }


def _cause(cause: Cause) -> tuple[str, str, str]:
    n = cause.evidence.get("responses")
    told = [f"confidence {fmt.confidence(cause.confidence)}"]
    if cause.share is not None:
        share = f"{fmt.percent(cause.share)} {fmt.percent_interval(cause.low, cause.high)}"
        told.insert(0, share.removesuffix(fmt.NOTHING).strip())
    if isinstance(n, int):
        told.append(f"n = {fmt.count(n)}")
    about = cause_in_words(cause)
    # What was found says more than what such a cause does; of a part of the objective both are told.
    return cause.id, " · ".join(told), about if cause.share is not None else f"{cause.summary} ({about})"


def _limits(x: Explanation) -> None:
    """What cannot be told from these logs, and what was odd in both."""
    unseen = x.verdict.not_identifiable
    if unseen:
        with st.expander(f"Not identifiable from these logs ({len(unseen)})", icon=":material/help_center:"):
            look.rows([{"cause": each.cause, "would be shown by": each.needs} for each in unseen])
    parts.doubts_and_skips([*x.notes, *x.declared.notes], [*x.skipped, *x.timeline.unseen])

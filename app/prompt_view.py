"""The prompts of a run: the list of the heaviest, and one of them over steps with what was answered."""

from __future__ import annotations

import html
from urllib.parse import urlencode

import streamlit as st
from audit.app import cached_single, compared, look, parts, single
from audit.app.context import RUNS, Context
from audit.app.listing import Listed

from audit.analyses.prompt_course import PromptCourse
from audit.analyses.prompt_responses import Response, Visit
from audit.analyses.prompts import PromptBreakdown
from audit.report import format as fmt
from audit.report.prompt_panels import course_panel

PROMPT, AT = "prompt", "at"
"""Keys, and parameters of the URL."""
TOP = 100
"""Prompts in the list."""
_EXCERPT = 90
_LINE = "border-bottom:1px solid rgba(128,128,128,.22)"


def show(context: Context, listed: Listed, prompts: PromptBreakdown) -> None:
    """Show the list, and below it the prompt that is picked."""
    known = {row.prompt_id: row for row in prompts.heaviest}
    if not known:
        st.info("No prompt has a trained response with a finite reward.")
        return
    asked = [st.session_state.get(PROMPT), st.query_params.get(PROMPT)]
    # A prompt beyond the list can be named by the address.
    options = [*known, *dict.fromkeys(name for name in asked if name and name not in known)]

    def pick() -> None:
        ticked = st.session_state["prompts"]["selection"]["rows"]
        if ticked and ticked[0] < len(known):
            st.session_state[PROMPT] = list(known)[ticked[0]]

    parts.table(
        [
            {
                "prompt": row.prompt_id,
                "text": (row.prompt or "")[:_EXCERPT],
                "share of the gradient": row.share,
                "share of the samples": row.samples_share,
                "success": row.success,
                "reward": row.reward,
                "length": row.length,
                "without signal": row.zero_signal,
                "visits": row.visits,
            }
            for row in prompts.heaviest
        ],
        "prompts",
        on_select=pick,
        selection_mode="single-row",
        height=280 if len(known) > 7 else "content",
        column_config={
            name: st.column_config.NumberColumn(format="percent")
            for name in ("share of the gradient", "share of the samples", "success", "without signal")
        }
        | {name: st.column_config.NumberColumn(format="%.3g") for name in ("reward", "length")},
    )
    under = f"under {fmt.visible(prompts.objective)}" if prompts.objective else "by samples"
    st.text(
        f"The {len(known)} heaviest of {prompts.visits.prompts:,} prompts, {under}. Tick one to look into it."
    )
    prompt = st.selectbox(
        "Prompt",
        options,
        index=None,
        key=PROMPT,
        format_func=fmt.visible,
        bind="query-params",
        placeholder="choose a prompt",
    )
    if prompt:
        _one(context, listed, prompt)


def _one(context: Context, listed: Listed, prompt: str) -> None:
    course: PromptCourse = parts.or_stop(cached_single.course(context.root, listed, prompt))
    if not course.steps:
        st.info("This run never drew this prompt.")
        return
    left, right = st.columns(2)
    with left:
        single.chart_card(
            "Success over steps",
            lambda: course_panel(course, context.colours[listed.name]),
            "prompt-course",
            "Samples of one step, with Wilson's 95 % interval."
            + (
                ""
                if len(course.steps) == course.of
                else f" The last {len(course.steps):,} of {course.of:,} visits."
            ),
        )
        with single.card("Visits"):
            look.rows(
                [
                    {
                        "step": fmt.count(at.step),
                        "success": fmt.percent_estimate(at.success) if at.success else fmt.NOTHING,
                        "reward": fmt.number(at.reward),
                        "length": fmt.number(at.length),
                        "n": fmt.count(at.samples),
                    }
                    for at in course.steps[-12:]
                ],
                right=("step", "reward", "length", "n"),
                whole=("success",),
            )
    with right, st.container(border=True, height="stretch"):
        steps = [at.step for at in course.steps]
        if st.session_state.get(AT) not in (None, *steps):
            del st.session_state[AT]
        step = (
            st.select_slider("Rollouts of step", steps, steps[-1], key=AT, bind="query-params")
            if len(steps) > 1
            else steps[0]
        )
        visit: Visit = parts.or_stop(compared.visit(context.root, listed, prompt, step=int(step)))
        if visit.prompt is not None:
            look.texts([("prompt", visit.prompt)])
        _responses(listed, visit)
        if visit.of > len(visit.responses):
            st.caption(f"The best {len(visit.responses)} of {visit.of:,} responses.")


def _responses(listed: Listed, visit: Visit) -> None:
    """Show the responses, each with a link to its tokens; every text of the log is escaped."""
    st.html("".join(_response(listed, visit, each) for each in visit.responses))


def _response(listed: Listed, visit: Visit, each: Response) -> str:
    told = [f"reward {fmt.number(each.reward)}"]
    told += [f"{fmt.count(each.length)} long"] if each.length is not None else []
    told += [f"ended by {each.finish_reason}"] if each.finish_reason else []
    told += ["cut here"] if each.cut else []
    text = '<i style="opacity:.65">the log holds no text of it</i>'
    if each.text is not None:
        shown = html.escape(fmt.visible_lines(each.text))
        text = (
            '<pre style="white-space:pre-wrap;overflow-wrap:anywhere;max-height:10em;overflow:auto;margin:0;'
            f'font-size:.8rem;line-height:1.45">{shown}</pre>'
        )
    about = html.escape(fmt.visible(" · ".join(told)))
    link = ""
    if each.group_id is not None:
        place = {RUNS: listed.name, "step": visit.step, "group": each.group_id, "sample": each.sample_index}
        address = html.escape(f"tokens?{urlencode(place)}")
        link = f'<a href="{address}" target="_blank" rel="noopener" style="color:inherit">tokens</a>'
    return (
        f'<div style="padding:.4em 0;{_LINE}"><div style="display:flex;justify-content:space-between;'
        f'font-size:.75rem"><span style="opacity:.65">{about}</span>{link}</div>{text}</div>'
    )

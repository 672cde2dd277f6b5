"""Tokens: a step, a group of it, a response of that, and what each of its tokens weighs."""

from __future__ import annotations

import streamlit as st
from audit.app import cached_step, parts, token_map
from audit.app import context as ctx
from audit.app.steps import pick_step

from audit.objectives.catalogue import CATALOGUE, named
from audit.objectives.objective import from_dict
from audit.report import format as fmt
from audit.report.token_words import SCALES

OWN = "the run's own"
UNDER = ("grpo", "dr_grpo", "rloo")
BUTTONS = 128
"""Responses of a group that have a button each; a browser takes minutes to draw tens of thousands."""
context = ctx.current()
listed = ctx.one_run(context)
own, why = cached_step.own(context.root, listed)
known = {**({OWN: own} if own is not None else {}), **{name: named(name) for name in CATALOGUE}}
ctx.title("Tokens", listed)


def keep(key: str, options: list[str]) -> None:
    """Forget a choice that was made elsewhere and is none here."""
    if key in st.session_state and st.session_state[key] not in options:
        del st.session_state[key]


at_step, at_group, at_weights = st.columns([1, 2, 2])
with at_step:
    step = pick_step(context, listed)
groups, begin = parts.or_stop(cached_step.groups(context.root, listed, step))
if not groups:
    st.info("The rows of this step have no group_id, so there is nothing to put side by side.")
    st.stop()
with at_group:
    keep("group", groups)
    group = st.selectbox("Group", groups, begin, key="group", format_func=fmt.visible, bind="query-params")
with at_weights:
    start = st.selectbox("Weights under", list(known), key="from", bind="query-params")
with st.expander("Advantages under", icon=":material/compare_arrows:"):
    under = st.multiselect(
        "Objectives",
        list(known),
        default=[name for name in (OWN, *UNDER) if name in known],
        key="under",
        bind="query-params",
        label_visibility="collapsed",
    )

view = parts.or_stop(
    cached_step.group(context.root, listed, step, group, {name: known[name] for name in under})
)
if view.prompt is not None:
    st.code(token_map.lines(view.prompt), language=None, wrap_lines=True)
labels = [response.label for response in view.responses]


def choose() -> None:
    """Take the row that was clicked as the response to look into."""
    rows = st.session_state["responses"]["selection"]["rows"]
    if rows and rows[0] < len(labels):
        st.session_state["sample"] = labels[rows[0]]
        st.session_state["token"] = None
        st.session_state["page"] = 1


parts.table(
    [
        {
            "sample": response.label,
            "reward": response.reward,
            "right": response.correct,
            "length": response.length,
            "ended by": response.finish_reason or "",
            **{f"A · {name}": response.advantages[name] for name in under},
            "response": (response.text or "")[:300],
        }
        for response in view.responses
    ],
    "responses",
    on_select=choose,
    selection_mode="single-row",
    height="content" if len(labels) <= 16 else 480,
)
keep("sample", labels)
at_response, at_colour = st.columns(2)
with at_response:
    if len(labels) <= BUTTONS:
        sample = st.segmented_control(
            "Response", labels, default=labels[0], required=True, key="sample", bind="query-params"
        )
    else:
        sample = st.selectbox("Response", labels, key="sample", bind="query-params")
response = view.responses[labels.index(sample)]
found = cached_step.tokens(context.root, listed, step, response.row, known[start])
if isinstance(found, str):
    st.info("Its tokens cannot be weighed:")
    parts.say(found)
    if response.text:
        st.code(token_map.lines(response.text), language=None, wrap_lines=True)
    st.stop()

# The address holds what a person reads.
measures = {SCALES[name].title: name for name in found.view.measures}
keep("colour", list(measures))
with at_colour:
    colour = st.segmented_control(
        "Colour", list(measures), default="weight", required=True, key="colour", bind="query-params"
    )
texts, how = cached_step.texts(context.root, listed)
place = {"run": fmt.visible(listed.name), "step": step, "group": fmt.visible(group), "sample": sample}
place |= {"from": start, "colour": colour}
token_map.show(found, from_dict(found.objective), measures[colour], texts, place)
st.caption(f"{fmt.visible(how[:1].upper() + how[1:])}. Colours are the same for every response and run.")
parts.doubts_and_skips([*view.skipped, *found.notes], [])

"""Search: responses by what they say and by what is known of them, each with its tokens one click away."""

from __future__ import annotations

import math

import streamlit as st
from audit.app import cached_search, parts
from audit.app import context as ctx
from audit.app.hits import show_hit

from audit.logs.search import Search
from audit.report import format as fmt

# Hits of one page.
SIZE = 20
PAGE = "hits"
# A slider counts in doubles: rewards in hundredths up to the former, steps up to the latter.
FAR, LAST = 1e12, 2**53 - 1
ANY, RIGHT, WRONG = "any", "right", "wrong"

context = ctx.current()
listed = ctx.one_run(context)
ctx.title("Search", listed)
facets = parts.or_stop(cached_search.facets_of(context.root, listed))


def first_page() -> None:
    """Show the first hits of another search."""
    st.session_state.pop(PAGE, None)


at_response, at_prompt = st.columns(2)
with at_response:
    response = st.text_input(
        "Response contains",
        key="q",
        max_chars=1000,
        bind="query-params",
        on_change=first_page,
        disabled="response" in facets.missing,
        placeholder="this log holds no texts" if "response" in facets.missing else "any text",
    )
with at_prompt:
    prompt = st.text_input(
        "Prompt contains",
        key="in_prompt",
        max_chars=1000,
        bind="query-params",
        on_change=first_page,
        disabled="prompt" in facets.missing,
        placeholder="this log holds no prompts" if "prompt" in facets.missing else "any text",
    )
with st.container(horizontal=True, vertical_alignment="center"):
    regex = st.toggle(
        "Regular expression",
        key="regex",
        bind="query-params",
        on_change=first_page,
        help="RE2: no look-around and no back-references, and never slow.",
    )
    case = st.toggle("Match capitals", key="capitals", bind="query-params", on_change=first_page)

columns = st.columns([3, 3, 2, 2, 2, 2], vertical_alignment="bottom")
steps: tuple[float | None, float | None] = (None, None)
rewards: tuple[float | None, float | None] = (None, None)
with columns[0]:
    if facets.first_step is not None and facets.first_step < facets.last_step:
        whole = (facets.first_step, facets.last_step)
        if max(map(abs, whole)) > LAST:
            st.caption("Steps beyond 2^53: no slider.")
        else:
            chosen = st.slider("Steps", *whole, whole, key="steps", bind="query-params", on_change=first_page)
            steps = (None, None) if chosen == whole else chosen
with columns[1]:
    if facets.lowest_reward is not None and facets.lowest_reward < facets.highest_reward:
        if max(-facets.lowest_reward, facets.highest_reward) > FAR:
            st.caption(f"Rewards beyond {fmt.number(FAR)} in size: no slider.")
        else:
            lowest, highest = 100 * facets.lowest_reward, 100 * facets.highest_reward
            ends = (math.floor(lowest) / 100, math.ceil(highest) / 100)
            between = st.slider(
                "Reward", *ends, ends, step=0.01, key="rewards", bind="query-params", on_change=first_page
            )
            rewards = (None, None) if between == ends else between
with columns[2]:
    right = st.selectbox(
        "Correct",
        (ANY, RIGHT, WRONG),
        key="right",
        bind="query-params",
        on_change=first_page,
        disabled="correct" in facets.missing,
        help="This log does not say which are." if "correct" in facets.missing else None,
    )
with columns[3]:
    reason = st.selectbox(
        "Ended by",
        (ANY, *facets.finish_reasons),
        key="ended",
        format_func=fmt.visible,
        bind="query-params",
        on_change=first_page,
        disabled=not facets.finish_reasons,
    )
with columns[4]:
    group = st.text_input("Group id", key="in_group", bind="query-params", on_change=first_page)
with columns[5]:
    prompt_id = st.text_input("Prompt id", key="of_prompt", bind="query-params", on_change=first_page)

search = Search(
    prompt=prompt or "",
    response=response or "",
    regex=regex,
    case=case,
    steps=steps,
    rewards=rewards,
    correct=None if right == ANY or "correct" in facets.missing else right == RIGHT,
    finish_reason="" if reason == ANY else reason,
    group=(group or "").strip(),
    prompt_id=(prompt_id or "").strip(),
)
found = parts.or_stop(cached_search.count(context.root, listed, search))
if not found:
    st.info("No response matches all of that.", icon=":material/search_off:")
    st.stop()
pages = math.ceil(found / SIZE)
with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"):
    said = st.empty()
    if pages > 1 and not 1 <= st.session_state.get(PAGE, 1) <= pages:
        st.session_state.pop(PAGE, None)
    page = st.pagination(pages, key=PAGE, bind="query-params") if pages > 1 else 1
first = (page - 1) * SIZE + 1
said.markdown(f"**{fmt.plural(found, 'response')}**, {first:,} to {min(first + SIZE - 1, found):,}")
for place, hit in enumerate(parts.or_stop(cached_search.hits(context.root, listed, search, page, SIZE))):
    show_hit(hit, listed.name, f"hit{place}")

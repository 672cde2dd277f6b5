"""What two runs answered to the same prompt, side by side; every text is shown as text."""

from __future__ import annotations

import streamlit as st
from audit.app import compared, look, parts
from audit.app.context import Context
from audit.app.listing import Listed

from audit.analyses.prompt_responses import Response, Visit
from audit.analyses.shared_prompts import SharedPrompt, SharedPrompts
from audit.report import format as fmt

PROMPT, PICKED = "prompt", "shared_prompt"
_EXCERPT = 80


def show(context: Context, a: Listed, b: Listed) -> None:
    """Pick a prompt, the ones that ended furthest apart first, and show both runs' responses to it."""
    found = compared.prompts(context.root, a, b)
    if isinstance(found, str):
        st.info("These logs cannot be compared prompt by prompt:")
        parts.say(found)
        return
    result: SharedPrompts = found
    if not result.prompts:
        st.info(
            f"The runs drew no prompt in common: {fmt.count(result.only_a)} prompts only in A, "
            f"{fmt.count(result.only_b)} only in B."
        )
        return
    _sum_up(result)
    by_id = {each.prompt_id: each for each in result.prompts}
    chosen = _pick(by_id)
    parts.caption(_told(by_id[chosen]))
    visits = [compared.visit(context.root, run, chosen, until=result.last_step) for run in (a, b)]
    texts = [visit.prompt for visit in visits if isinstance(visit, Visit) and visit.prompt]
    if texts:
        look.texts([("prompt", texts[0])])
    for column, run, visit in zip(st.columns(2), (a, b), visits, strict=True):
        with column:
            _side(context, run, visit, chosen, result.last_step)


def _pick(by_id: dict[str, SharedPrompt]) -> str:
    """Let a prompt be picked by its text; the address carries its id, so it is not bound to the picker."""
    asked = st.query_params.get(PROMPT)
    if PICKED not in st.session_state and asked in by_id:
        st.session_state[PICKED] = asked
    if st.session_state.get(PICKED) not in by_id:
        st.session_state.pop(PICKED, None)
    chosen = st.selectbox(
        "Prompt, those that ended furthest apart first",
        list(by_id),
        key=PICKED,
        format_func=lambda prompt_id: _named(by_id[prompt_id]),
    )
    st.query_params[PROMPT] = chosen
    return chosen


def _named(prompt: SharedPrompt) -> str:
    text = " ".join((prompt.text or "").split())
    if not text:
        return fmt.visible(prompt.prompt_id)
    cut = f"{text[:_EXCERPT]}…" if len(text) > _EXCERPT else text
    return fmt.visible(f"{cut} · {prompt.prompt_id}")


def _sum_up(result: SharedPrompts) -> None:
    reward = result.reward
    shared = f"{fmt.count(result.shared)} prompts in both runs"
    others = f"{fmt.count(result.only_a)} only in A, {fmt.count(result.only_b)} only in B"
    gap = ""
    if reward is not None:
        moved = fmt.interval(reward.difference, reward.low, reward.high, sign=True)
        gap = (
            f" Mean reward on those that are shared: {fmt.number(reward.a)} in A, {fmt.number(reward.b)} "
            f"in B, B − A {moved}, n = {' / '.join(map(fmt.count, reward.n))}."
        )
    parts.caption(f"{shared}, {others}; up to step {fmt.count(result.last_step)}.{gap}")


def _told(prompt: SharedPrompt) -> str:
    rewards = f"{fmt.number(prompt.reward_a)} in A, {fmt.number(prompt.reward_b)} in B"
    return (
        f"Mean reward on this prompt: {rewards}; n = {prompt.n[0]} / {prompt.n[1]} responses, of one prompt: "
        "no interval."
    )


def _side(context: Context, run: Listed, visit: Visit | str, prompt_id: str, until: int) -> None:
    look.legend([(run.name, context.colours[run.name], "")])
    if isinstance(visit, str):
        parts.say(visit)
        return
    steps = [at for at in visit.steps if at <= until] or visit.steps
    if len(steps) > 1:
        picked = st.select_slider(
            "Step of the visit", steps, value=visit.step, key=f"visit-{run.name}-{prompt_id}"
        )
        if picked != visit.step:
            other = compared.visit(context.root, run, prompt_id, step=picked)
            visit = other if isinstance(other, Visit) else visit
    elif visit.step is not None:
        parts.caption(f"At step {fmt.count(visit.step)}, the only visit.")
    if not visit.responses:
        parts.caption("No response to this prompt.")
    look.texts([(_about(response), response.text) for response in visit.responses])
    if visit.of > len(visit.responses):
        parts.caption(f"{len(visit.responses)} of {fmt.count(visit.of)} responses, the best first.")


def _about(response: Response) -> str:
    length = "" if response.length is None else f" · {fmt.count(response.length)} tokens"
    ended = f" · {response.finish_reason}" if response.finish_reason else ""
    cut = " · cut here, the rest is in the log" if response.cut else ""
    return f"reward {fmt.number(response.reward)}{length}{ended}{cut}"

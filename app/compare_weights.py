"""Where the objectives of two runs put their weight, on the same rollouts."""

from __future__ import annotations

import streamlit as st
from audit.app import compared, look, parts
from audit.app.context import Context
from audit.app.listing import Listed

from audit.analyses.weight_shifts import Shift, WeightShifts
from audit.report import format as fmt
from audit.report.shift_chart import shift_chart

_MOST = 6
_GAP = "B − A, points"


def show(context: Context, a: Listed, b: Listed) -> None:
    """Draw the shares by length, by difficulty and by sign."""
    found = compared.shifts(context.root, a, b)
    if isinstance(found, str):
        st.info("These logs cannot say where the weight falls:")
        parts.say(found)
        return
    result: WeightShifts = found
    runs = (a.name, b.name)
    panels = {
        "length": ("By length of the response", "tokens", result.by_length),
        "difficulty": ("By success rate of the prompt", "success rate", result.by_difficulty),
        "sign": ("By sign of the push", "sign of the weight", result.by_sign),
    }
    held = {key: panel for key, panel in panels.items() if panel[2]}
    with st.grid(2, min_column_width=330):
        for key, (title, of, shifts) in held.items():
            with st.container(border=True):
                st.markdown(f"**{title}**")
                parts.chart(
                    lambda shifts=shifts, of=of: shift_chart(shifts, runs, context.colours, of),  # type: ignore[misc]
                    f"Share of the weight, {title.lower()}",
                    f"shift-{key}",
                )
        if held:
            with st.container(border=True):
                st.markdown("**What moves most from A to B**")
                _most([(of, shift) for _, of, shifts in held.values() for shift in shifts])
    on = "both runs" if len(result.on) > 1 else "one run"
    parts.caption(
        f"Each colour is the objective of that run, both weigh the rollouts of {on}: "
        f"n = {fmt.count(result.n)} responses, in their first inner pass; whiskers: 95 %, resampling "
        "prompts. The success rate of a prompt is estimated without the response's own group."
    )
    parts.doubts_and_skips([], result.skipped)


def _most(shifts: list[tuple[str, Shift]]) -> None:
    """The parts whose share moves beyond its interval, the most moved first."""
    sure = [(of, shift) for of, shift in shifts if shift.moved.excludes(0.0)]
    sure.sort(key=lambda each: -abs(each[1].moved.value or 0.0))
    if not sure:
        parts.caption("No part gains or loses beyond its interval.")
        return
    look.rows(
        [
            {
                "": f"{shift.name} {of}" if of == "tokens" else shift.name,
                "A → B": f"{fmt.percent(shift.a.value)} → {fmt.percent(shift.b.value)}",
                _GAP: fmt.interval(*(None if end is None else 100 * end for end in _ends(shift)), sign=True),
            }
            for of, shift in sure[:_MOST]
        ],
        right=("A → B", _GAP),
        whole=("",),
    )


def _ends(shift: Shift) -> tuple[float | None, float | None, float | None]:
    return shift.moved.value, shift.moved.low, shift.moved.high

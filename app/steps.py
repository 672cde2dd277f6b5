"""The picker of a step, shared by the pages of one step."""

from __future__ import annotations

import streamlit as st
from audit.app import cached_step, parts
from audit.app.context import Context
from audit.app.listing import Listed

STEP = "step"
"""Key of the picker, and parameter of the URL."""


def pick_step(context: Context, listed: Listed) -> int:
    """Return the step that is looked at; the last one at first. Stops the page where a run has none."""
    steps = parts.or_stop(cached_step.steps(context.root, listed))
    if not steps:
        st.info("This run has no rows yet.")
        st.stop()
    # A step of another run, kept from before, is none here.
    if STEP in st.session_state and st.session_state[STEP] not in steps:
        del st.session_state[STEP]
    picked = st.selectbox(
        "Step", steps, index=len(steps) - 1, key=STEP, bind="query-params", help="Of the run's own count."
    )
    return int(picked)

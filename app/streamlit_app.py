"""The frame of the dashboard: the directory, the choice of runs, the pages.

Started by ``rlaudit dashboard DIR``. Text from logs is shown in tables and as plain text only, never as
Markdown or HTML. Nothing is computed here or in the pages: they call ``audit`` and draw.
"""

from __future__ import annotations

import streamlit as st
from audit.app import access, cached
from audit.app import context as ctx
from audit.app.icon import ICON
from audit.app.pages import pages

st.set_page_config(page_title="rlaudit", page_icon=ICON, layout="wide")
# Streamlit leaves a tenth of a usual screen empty around each page.
st.html("<style>[data-testid='stMainBlockContainer']{padding:4.5rem clamp(1rem,3vw,3rem) 4rem}</style>")
if st.context.theme.type == "dark":
    # Streamlit writes white on the light blue of what was picked; nobody can read that.
    st.html("<style>[data-testid='stMultiSelect'] span[title]{color:#0f1115}</style>")
access.admit()
page = st.navigation(pages(), position="sidebar", expanded=True)
context = ctx.begin(page.url_path, page.title)
st.session_state["context"] = context


@st.fragment(run_every=f"{cached.REFRESH}s")
def watch() -> None:
    """Look at the directory again, and run the page again where something was written."""
    if ctx.listing(str(context.root)) != context.listed:
        st.rerun()


watch()
page.run()

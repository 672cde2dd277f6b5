"""Report: what was found, of which files, by which versions, as a file to hand around."""

from __future__ import annotations

import streamlit as st
from audit.app import cached, parts
from audit.app import context as ctx
from audit.app.report_making import file_name, made

from audit.report import format as fmt
from audit.report.run_report import SECTIONS
from audit.report.run_report_page import report_html, report_json, report_markdown

# Bytes up to which files are hashed unless somebody says otherwise.
SMALL = 2 * 2**30

context = ctx.current()
runs = ctx.several_runs(context)
ctx.title("Report", *runs)
if not context.chosen:
    st.caption("The first run of the directory; choose others, or several, at the side.")
possible = [name for name in SECTIONS if name != "explain" or len(runs) > 1]
sections = st.pills(
    "Sections",
    possible,
    selection_mode="multi",
    default=possible,
    key="sections",
    bind="query-params",
)
size = sum(run.size for run in runs)
with st.container(horizontal=True, vertical_alignment="center"):
    begin = st.button("Make the report", icon=":material/description:", disabled=not sections)
    hashed = st.toggle(
        "Hash the files",
        size <= SMALL,
        key="hash",
        bind="query-params",
        help=f"Reads all {size / 2**20:,.0f} MiB for their SHA-256, so that others can tell whether "
        "they have the same files.",
    )
key = (tuple(cached.key_of(run) for run in runs), tuple(sections), hashed)
held = st.session_state.get("report")
if begin:
    held = (key, made(context, runs, sections, hashed))
    st.session_state["report"] = held
if held is None or held[0] != key:
    st.info("Every number of the sections, with its interval and n; the files that they come from.")
    st.stop()
report = held[1]
if isinstance(report, str):
    st.error("No report was made:")
    parts.say(report)
    st.stop()
with st.container(horizontal=True):
    for label, ending, mime, make in (
        ("HTML", "html", "text/html", report_html),
        ("Markdown", "md", "text/markdown", report_markdown),
        ("JSON", "json", "application/json", report_json),
    ):
        st.download_button(
            label,
            lambda make=make: make(report).encode(),
            file_name(report, ending),
            mime,
            key=f"download-{ending}",
            icon=":material/download:",
            on_click="ignore",
        )
files = sum(len(run.files) for run in report.runs)
st.caption(
    f"{fmt.plural(len(report.sections), 'section')} on {fmt.plural(len(report.runs), 'run')}, "
    f"{fmt.plural(files, 'file')}; HTML opens without a network and runs no scripts."
)
st.dataframe(
    {
        "section": [section.title for section in report.sections],
        "run": [fmt.visible(", ".join(section.runs)) for section in report.sections],
        "": [
            fmt.visible(section.failed) if section.failed else "in the report" for section in report.sections
        ],
    },
    hide_index=True,
    key="contents",
    lazy=False,
    height="content",
    alt="Sections of the report",
)

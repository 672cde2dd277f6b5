"""The frame of the dashboard: the runs of one directory, side by side.

Started by ``rlaudit dashboard DIR``. Text from logs is shown in tables and as plain text only, never as
Markdown or HTML.
"""

from __future__ import annotations

import sys
from pathlib import Path

import streamlit as st
from audit.app.listing import Fingerprint, Listed, directory, open_listed, runs_under

from audit.analyses.summary import Summary, summarise
from audit.errors import AuditError
from audit.report import format as fmt


@st.cache_data(max_entries=256, show_spinner="Reading the log…")
def summary_of(root: Path, name: str, fingerprint: Fingerprint) -> Summary | str:
    """Return the summary of a run, or its error; ``fingerprint`` makes the cache notice new files."""
    del fingerprint
    try:
        return summarise(open_listed(root, name))
    except AuditError as error:
        return str(error)


def row(listed: Listed, found: Summary) -> dict[str, str | int]:
    """Return one row of the table; counts stay numbers, so that columns sort."""
    source = found.source
    left_out = [
        fmt.plural(n, noun) + " left out"
        for n, noun in ((source.rows_rejected, "row"), (len(source.files_skipped), "file"))
        if n
    ]
    return {
        "run": fmt.visible(listed.run_id),
        "format": source.format,
        "framework": fmt.visible(listed.framework),
        "objective": fmt.objective_name(found.objective),
        "responses": found.responses,
        "steps": found.steps,
        "tier": found.tier,
        "reward": fmt.estimate(found.reward),
        "n": found.reward.n,
        "problems": ", ".join(left_out),
    }


st.set_page_config(page_title="rlaudit", layout="wide")
st.title("Runs")

logs = directory(sys.argv[1:])
if logs is None:
    st.info("No directory was given. Start the dashboard with one:")
    st.code("rlaudit dashboard DIR", language=None)
    st.stop()

st.text(fmt.visible(logs))
try:
    runs = runs_under(logs)
except AuditError as error:
    st.error("This directory cannot be read:")
    st.text(fmt.visible(error))
    st.stop()
if not runs:
    st.info(
        "No runs here yet. A run is a directory with a run.json or rollouts/*.parquet, or a log of a trainer "
        "that rlaudit reads. New runs appear when the page is reloaded."
    )
    st.stop()

rows: list[dict[str, str | int]] = []
unreadable: list[str] = []
for listed in runs:
    found = listed.error or summary_of(logs, listed.name, listed.fingerprint)
    if isinstance(found, str):
        unreadable.append(f"{fmt.visible(listed.name)}: {fmt.visible(found)}")
    else:
        rows.append(row(listed, found))
if rows:
    numbers = {
        name: st.column_config.NumberColumn(format="localized") for name in ("responses", "steps", "n")
    }
    st.dataframe(
        {name: [each[name] for each in rows] for name in rows[0]},
        hide_index=True,
        key="runs",
        column_config=numbers,
    )
    st.caption("Reward: mean with its 95 % interval, resampling prompts; n: the responses behind it.")
if unreadable:
    st.subheader("Cannot be read")
    st.text("\n".join(unreadable))

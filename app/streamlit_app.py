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


def row(root: Path, listed: Listed) -> dict[str, str | int | None]:
    """Return one row of the table; numbers stay numbers, so that columns sort."""
    shown: dict[str, str | int | None] = {"run": fmt.visible(listed.run_id)}
    found = listed.error or summary_of(root, listed.name, listed.fingerprint)
    if isinstance(found, str):
        return shown | {"problems": fmt.visible(found)}
    source = found.source
    left_out = [
        fmt.plural(n, noun) + " left out"
        for n, noun in ((source.rows_rejected, "row"), (len(source.files_skipped), "file"))
        if n
    ]
    return shown | {
        "format": source.format,
        "objective": fmt.objective_name(found.objective),
        "from": fmt.visible((found.objective or {}).get("source", "")),
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

rows = [row(logs, listed) for listed in runs]
columns = list(dict.fromkeys(name for each in rows for name in each))
st.dataframe(
    {name: [each.get(name) for each in rows] for name in columns},
    hide_index=True,
    key="runs",
    column_config={"n": st.column_config.NumberColumn("n", help="Responses behind the reward.")},
)
st.caption("Reward: mean with its 95 % interval, resampling prompts.")

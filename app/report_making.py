"""A report of the chosen runs, from results that the pages have made already where there are any."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import streamlit as st
from audit.app import cached
from audit.app.compared import explained_many
from audit.app.context import Context
from audit.app.listing import Listed

from audit.errors import AuditError
from audit.logs import Run
from audit.report.format import visible
from audit.report.run_report import RunReport, run_report


def made(context: Context, runs: Sequence[Listed], sections: Sequence[str], hashed: bool) -> Any:
    """Return the report, or the error as text; says meanwhile what is being done."""
    try:
        opened = {id(run): (run, each) for each in runs for run in [cached.opened(context.root, each)]}
    except AuditError as error:
        return str(error)

    def measure(section: str, of: Sequence[Run]) -> Any:
        listed = [opened[id(run)][1] for run in of]
        if section != "explain":
            return cached.analysis(context.root, listed[0], section)
        if len(listed) == 2:
            return cached.explained(context.root, *listed)
        return explained_many(context.root, listed)

    with st.status("Making the report…") as status:
        try:
            return run_report(
                [run for run, _ in opened.values()],
                sections,
                measure=measure,
                hashed=hashed,
                # Ids of runs are text of a log, and a label is Markdown.
                progress=lambda doing: status.text(visible(doing)),
            )
        except AuditError as error:
            return str(error)
        finally:
            status.update(label="Done", state="complete")


def file_name(report: RunReport, ending: str) -> str:
    """Return a name that every file system takes."""
    named = re.sub(r"[^A-Za-z0-9._-]+", "-", "-".join(run.run for run in report.runs[:3])).strip("-.")
    return f"rlaudit-{named[:80] or 'runs'}.{ending}"

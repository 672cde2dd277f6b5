"""One run as one row of the table of runs."""

from __future__ import annotations

from typing import Any

import streamlit as st
from audit.app.listing import Listed

from audit.analyses.summary import Summary
from audit.report import format as fmt

COLUMNS: dict[str, Any] = {
    name: st.column_config.NumberColumn(format="localized") for name in ("responses", "steps", "tokens", "n")
}


def row(listed: Listed, found: Summary) -> dict[str, object]:
    """Return the row; counts stay numbers, so that columns sort."""
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

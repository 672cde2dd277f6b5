"""The rows of a query as a table: text stays text, large cells are cut and say so."""

from __future__ import annotations

from typing import Any

import streamlit as st

from audit.logs.sql_result import QueryResult, cell
from audit.report import format as fmt
from audit.report.text.sql import rows_in_words

_LONGEST = 2000


def show_result(result: QueryResult, status: Any) -> None:
    """Show rows, how many there are, and whether there are more."""
    said = rows_in_words(result)
    if result.more:
        said += "; rlaudit sql --csv --rows N gives all"
    status.caption(said)
    if not result.rows:
        st.info("The query has no rows.")
        return
    shown = {
        _name(place, column.name, result): [_shown(row[place]) for row in result.rows]
        for place, column in enumerate(result.columns)
    }
    st.dataframe(
        shown, hide_index=True, key="rows", lazy=False, height=min(38 + 35 * result.n, 560), alt="Rows"
    )


def _name(place: int, name: str, result: QueryResult) -> str:
    # Two columns of one name are two columns.
    same = sum(column.name == name for column in result.columns[:place])
    return fmt.visible(name) + (f" ({same + 1})" if same else "")


def _shown(value: Any) -> Any:
    if value is None or isinstance(value, (bool, int, float)):
        return value
    text = fmt.visible(cell(value), whole=True)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}… ({len(text):,} characters)"

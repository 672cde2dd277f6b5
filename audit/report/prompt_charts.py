"""Tables of exact numbers as charts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from audit.analyses.effective_batch import EffectiveBatch
from audit.analyses.effective_beta import EffectiveBeta
from audit.analyses.prompt_factor import Factor
from audit.analyses.prompt_tables import Column, Table, titles_of
from audit.errors import AuditError
from audit.report.charts import batch_chart, beta_chart, factor_chart, save_chart, zero_signal_chart

if TYPE_CHECKING:
    import altair as alt

_SCHEMA = {"curve": pl.String, "rate": pl.Float64, "value": pl.Float64}


def frame_of(table: Table) -> pl.DataFrame:
    """Return what a chart draws: one row per curve and success rate, columns curve, rate, value."""
    titles = titles_of(table.columns, table)
    rows = [
        (title, rate, value)
        for title, column in zip(titles, table.columns, strict=True)
        for rate, value in _points(column)
    ]
    return pl.DataFrame(rows, schema=_SCHEMA, orient="row")


def chart_of(table: Table) -> alt.Chart | alt.LayerChart:
    """Return the chart of a table.

    Raises
    ------
    AuditError
        The table holds one number per objective: there is nothing to draw.
    """
    if table.rewards:
        msg = "--reward gives one number per objective: there is nothing to draw."
        raise AuditError(msg)
    return _CHARTS[table.kind](frame_of(table))


def save_chart_of(table: Table, out: Path) -> None:
    """Draw a table into a file.

    Raises
    ------
    AuditError
    """
    save_chart(chart_of(table), out)


def _points(column: Column) -> Iterator[tuple[float | None, float | None]]:
    if isinstance(column.rows, EffectiveBatch):
        yield from ((prompt.rate, prompt.pull) for prompt in column.rows.prompts)
        return
    for row in column.rows:
        if isinstance(row, Factor):
            yield row.rate, row.factor
        elif isinstance(row, EffectiveBeta):
            yield row.rate, row.beta
        else:
            yield row.rate, row.no_advantage


_CHARTS: dict[str, Callable[[pl.DataFrame], alt.Chart | alt.LayerChart]] = {
    "factor": factor_chart,
    "zero-signal": zero_signal_chart,
    "effective-batch": batch_chart,
    "effective-beta": beta_chart,
}

"""Heat map of the distances between runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import altair as alt
import polars as pl

from audit.analyses.distances import DistanceMatrix
from audit.report.charts import nothing_to_draw
from audit.report.curves_chart import PADDING
from audit.report.format import estimate, number, visible
from audit.report.tooltips import told

_CELL = 34
NUMBERS = 20
"""Up to so many runs each cell carries its number."""


def matrix_frame(matrix: DistanceMatrix, order: Sequence[str], names: Mapping[str, str]) -> pl.DataFrame:
    """One row a cell: a, b, value (null where the runs cannot be compared), shown, text, n."""
    rows = []
    for a in order:
        for b in order:
            held = matrix.values[matrix.runs.index(a)][matrix.runs.index(b)]
            rows.append(
                {
                    "a": visible(names.get(a, a)),
                    "b": visible(names.get(b, b)),
                    "value": None if held is None else held.value,
                    "shown": "cannot be compared" if held is None else estimate(held),
                    "text": "×" if held is None else number(held.value, decimals=2),
                    "n": None if held is None else held.n,
                }
            )
    schema = {"a": pl.String, "b": pl.String, "value": pl.Float64, "shown": pl.String, "text": pl.String}
    return pl.DataFrame(rows, schema={**schema, "n": pl.Int64})


def matrix_chart(
    matrix: DistanceMatrix, order: Sequence[str], names: Mapping[str, str] | None = None
) -> alt.LayerChart:
    """Draw the matrix with its runs in ``order``; the darker, the further apart.

    Parameters
    ----------
    names : mapping, optional
        What to call a run; its name in the matrix without it.

    Raises
    ------
    AuditError
        It has no run.
    """
    order = [run for run in order if run in matrix.runs]
    if not order:
        raise nothing_to_draw("no distance between runs")
    frame = matrix_frame(matrix, order, names or {})
    listed = list(dict.fromkeys(frame["a"].to_list()))
    most = max((v for v in frame["value"].to_list() if v is not None), default=0.0)
    axis = alt.Axis(labelLimit=160, labelOverlap=False, ticks=False, domain=False)
    base = alt.Chart(frame).encode(
        x=alt.X(
            "b:N",
            title=None,
            sort=listed,
            axis=alt.Axis(labelAngle=-45, labelLimit=120, labelOverlap=False, ticks=False),
        ),
        y=alt.Y("a:N", title=None, sort=listed, axis=axis),
        tooltip=told(
            "a:N",
            "b:N",
            alt.Tooltip("shown:N", title=f"{matrix.measure}, 95 %"),
            alt.Tooltip("n:Q", format=","),
        ),
    )
    scale = alt.Scale(scheme="blues", domain=[0, most or 1.0])
    cells = base.mark_rect(stroke="#88888844").encode(
        color=alt.Color("value:Q", title=matrix.measure, scale=scale, legend=None)
    )
    layers = [cells]
    if len(listed) <= NUMBERS:
        dark = alt.datum.value > 0.6 * (most or 1.0)
        layers.append(
            base.mark_text(fontSize=11).encode(
                text="text:N", color=alt.when(dark).then(alt.value("white")).otherwise(alt.value("#222222"))
            )
        )
    return alt.layer(*layers).properties(height=_CELL * len(listed) + 110, padding=PADDING)

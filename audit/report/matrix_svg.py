"""Heat map of distances between runs as inline SVG. Numbers in, geometry out; no text of a log gets in."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from markupsafe import Markup

from audit.analyses.distances import DistanceMatrix

_CELL = 28.0
_MARGIN = 22.0


def heat_map(matrix: DistanceMatrix, order: Sequence[str]) -> Markup:
    """Draw the matrix with its runs in ``order``, numbered from 1 along both edges.

    A cell is the darker the further its runs lie apart; a pair that cannot be compared is hatched out by a
    cross. The number of a cell stands in its title, for a pointer or a screen reader.
    """
    at = [matrix.runs.index(run) for run in order]
    values = matrix.array()[np.ix_(at, at)]
    most = float(np.nanmax(values)) if np.isfinite(values).any() else 0.0
    size = _MARGIN + _CELL * len(at)
    parts = [_edge(number) for number in range(len(at))]
    for i in range(len(at)):
        for j in range(len(at)):
            parts.append(_cell(i, j, float(values[i, j]), most))
    label = f"Heat map of {len(at)} by {len(at)} distances, at most {most:.3g}"
    box = f'viewBox="0 0 {size:g} {size:g}" style="max-width:{min(size * 1.4, 900):.0f}px" role="img"'
    return Markup(f'<svg class="heat" {box} aria-label="{label}">{"".join(parts)}</svg>')


def _edge(number: int) -> str:
    middle = _MARGIN + _CELL * (number + 0.5)
    top = f'<text x="{middle:g}" y="{_MARGIN - 7:g}" text-anchor="middle">{number + 1}</text>'
    return f'{top}<text x="{_MARGIN - 6:g}" y="{middle + 4:g}" text-anchor="end">{number + 1}</text>'


def _cell(i: int, j: int, value: float, most: float) -> str:
    x, y = _MARGIN + _CELL * j, _MARGIN + _CELL * i
    place = f'x="{x:g}" y="{y:g}" width="{_CELL - 1:g}" height="{_CELL - 1:g}"'
    if not np.isfinite(value):
        end = _CELL - 1
        cross = f'<path d="M{x:g} {y:g}l{end:g} {end:g}m0 {-end:g}l{-end:g} {end:g}"/>'
        title = f"<title>{i + 1} and {j + 1}: cannot be compared</title>"
        return f'<g class="none">{title}<rect {place}/>{cross}</g>'
    shade = 0.0 if most <= 0 else value / most
    title = f"<title>{i + 1} and {j + 1}: {value:.3g}</title>"
    side = "over" if shade > 0.7 else "under"
    middle = f'x="{x + (_CELL - 1) / 2:g}" y="{y + _CELL / 2 + 3:g}" text-anchor="middle"'
    number = f'<text class="{side}" {middle}>{_short(value)}</text>'
    return f'<g>{title}<rect class="cell" {place} fill-opacity="{shade:.3f}"/>{number}</g>'


def _short(value: float) -> str:
    """Two digits, without the leading zero: what fits into a cell."""
    if value == 0:
        return "0"
    text = f"{value:.2f}" if value < 9.95 else f"{value:.0f}"
    return text.removeprefix("0") if value < 1 else text[:4]

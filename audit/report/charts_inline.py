"""Charts as SVG inside a page: in the page's own ink, so that they are read in the light and in the dark."""

from __future__ import annotations

import re
from importlib.util import find_spec
from typing import Any

from markupsafe import Markup, escape

from audit.report.charts import Chart
from audit.report.format import visible

WIDTH, WIDE = 350, 720
"""Pixels of a chart: what a phone shows without scrolling, and what a page holds."""
_PLACE, _DECIMALS = re.compile(r' (?:d|transform)="[^"]*"'), re.compile(r"(\.\d\d)\d+")
"""Geometry, in which a hundredth of a pixel is enough: half of the size of a chart."""
_INK = "currentColor"
_CONFIG: dict[str, Any] = {
    # One label for the picture: the numbers of its marks stand in the text.
    "aria": False,
    "background": None,
    # What vl-convert measures texts in; the others are as wide.
    "font": "Liberation Sans, Arial, Helvetica, sans-serif",
    "view": {"stroke": None},
    "axis": {
        **dict.fromkeys(("labelColor", "titleColor", "domainColor", "tickColor", "gridColor"), _INK),
        "gridOpacity": 0.15,
        "domainOpacity": 0.4,
        "tickOpacity": 0.4,
        "labelFontSize": 11,
        "titleFontSize": 11,
        "titleFontWeight": "normal",
    },
    "legend": {**dict.fromkeys(("labelColor", "titleColor"), _INK), "labelFontSize": 11},
    "title": {"color": _INK},
}


def can_draw() -> bool:
    """Whether the package that draws without a browser is there."""
    return find_spec("vl_convert") is not None


def inline_svg(chart: Chart, title: str, *, wide: bool = False) -> Markup:
    """Return a chart as an ``<svg>`` without script or style; texts of a log in it are escaped.

    Parameters
    ----------
    title : str
        What it shows, for those who hear the page.

    Raises
    ------
    AuditError
        There is nothing to draw.
    """
    import vl_convert

    spec: dict[str, Any] = chart.to_dict() | {
        "width": WIDE if wide else WIDTH,
        "autosize": {"type": "fit-x", "contains": "padding"},
        "padding": {"left": 4, "right": 8, "top": 4, "bottom": 4},
        "config": _CONFIG,
    }
    svg = _PLACE.sub(lambda place: _DECIMALS.sub(r"\1", place[0]), vl_convert.vegalite_to_svg(spec))
    return Markup(svg.replace("<svg ", f'<svg role="img" aria-label="{escape(visible(title))}" ', 1))

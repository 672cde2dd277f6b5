"""Light and dark variants of a figure: the same marks on another ground."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import altair as alt

FONT = "Helvetica Neue, Helvetica, Arial, Liberation Sans, sans-serif"


@dataclass(frozen=True)
class Theme:
    """Colours of one variant."""

    name: str
    ground: str
    text: str
    grid: str
    series: tuple[str, ...]
    """Colours that tell series apart, also for the colour-blind (after Okabe & Ito 2008)."""
    ordered: tuple[str, ...]
    """Colours of an ordered series, first to last."""


LIGHT = Theme(
    name="light",
    ground="#ffffff",
    text="#1f2328",
    grid="#e4e7eb",
    series=("#0072b2", "#c4500a", "#007f5c", "#9a4fb0"),
    ordered=("#8abde3", "#4797cc", "#1f6fae", "#0a3d73"),
)
DARK = Theme(
    name="dark",
    ground="#0d1117",
    text="#e6edf3",
    grid="#2b323b",
    series=("#58b0f0", "#f0a050", "#3fd0a0", "#d59bf0"),
    ordered=("#4a7fb8", "#6ea6df", "#a3cdf5", "#e2f0ff"),
)
THEMES = (LIGHT, DARK)


def themed(chart: alt.HConcatChart, theme: Theme) -> Any:
    """Return the chart on the ground of a theme."""
    return (
        chart.configure(background=theme.ground, font=FONT, padding=14)
        .configure_view(stroke=None)
        .configure_axis(
            labelColor=theme.text,
            titleColor=theme.text,
            gridColor=theme.grid,
            domainColor=theme.text,
            tickColor=theme.text,
            labelFontSize=12,
            titleFontSize=13,
            titleFontWeight="normal",
        )
        .configure_legend(
            labelColor=theme.text,
            titleColor=theme.text,
            labelFontSize=12,
            labelLimit=320,
            orient="bottom",
            direction="vertical",
            symbolStrokeWidth=2.5,
            symbolOpacity=1.0,
        )
        .configure_title(
            color=theme.text,
            subtitleColor=theme.text,
            fontSize=15,
            subtitleFontSize=12,
            anchor="start",
            offset=12,
        )
        .configure_concat(spacing=84)
    )

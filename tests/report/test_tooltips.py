"""What tooltips show: names as they are, counts whole, other numbers with the digits that count."""

from __future__ import annotations

import altair as alt

from audit.report.tooltips import told


def test_numbers_have_formats_and_names_have_none() -> None:
    shown = {tip.shorthand: tip.to_dict().get("format") for tip in told("name:N", "value:Q", "n:Q", "rate:O")}
    assert shown == {"name:N": None, "value:Q": ",.5~r", "n:Q": ",", "rate:O": None}


def test_a_tooltip_of_its_own_stays() -> None:
    own = alt.Tooltip("level:Q", format=".1%")
    assert told("n:Q", own)[1] is own

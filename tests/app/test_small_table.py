"""Small tables: every cell is text, and a table is laid out anew where its columns do not fit."""

from __future__ import annotations

import re

from audit.app.small_table import table

HOSTILE = "<img src=x onerror=alert(1)> \u202e\x00"


def width(made: str) -> int:
    """Pixels below which rows stand one below the other."""
    (found,) = re.findall(r"@container \(max-width:(\d+)px\)", made)
    assert f'<table class="rl-{found}">' in made
    return int(found)


def test_names_and_cells_are_text() -> None:
    made = table([{HOSTILE: HOSTILE, "n": 3}], ("n",), ())
    assert "<img" not in made
    assert made.count("&lt;img src=x onerror=alert(1)&gt;") == 3
    assert not set("\u202e\x00") & set(made)


def test_a_number_with_its_interval_stays_on_one_line_and_a_text_does_not() -> None:
    made = table([{"": "all wrong", "share": "11.0 [7.1, 16.2] %", "what": "equal, of both"}], (), ())
    classes = {text: kind for kind, text in re.findall(r'<td class="([^"]*)"[^>]*>([^<]*)</td>', made)}
    assert classes == {"all wrong": "", "11.0 [7.1, 16.2] %": "w", "equal, of both": ""}


def test_more_columns_and_longer_numbers_take_more_room() -> None:
    short = {"": "a", "value": "1 [0, 2]", "n": "3"}
    long = {"": "a", "value": "+0.207 [+0.171, +0.253]", "n": "3"}
    assert width(table([short], (), ())) < width(table([long], (), ()))
    assert width(table([long], (), ())) < width(table([long | {"more": "+0.207 [+0.171, +0.253]"}], (), ()))
    # A text wraps, however long.
    assert width(table([short | {"": "word " * 40}], (), ())) < 400

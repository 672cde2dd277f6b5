"""The heat map shows hostile tokens as text, and all of what is there."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit.report.token_html import LONGEST, Token, heat_map, legend, shown

HOSTILE = (
    "<img src=x onerror=alert(1)>",
    "</a><script>alert(1)</script>",
    '" onmouseover="alert(1)',
    "**bold** $x^2$ :red[x] [a](javascript:alert(1))",
    "\u202eevil\u202c",
    "a\x00b\x1b[2J",
    "\u200b\ufeff\u2066",
    "\ud800",
    "&lt;b&gt; &amp;",
    "e\u0301\u0301\u0301",
    "\n\r\n\t \u00a0",
)
ALLOWED = {"div", "a", "br", "wbr"}


class Reader(HTMLParser):
    """Collects tags, attributes and text as a browser reads them."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.texts: list[str] = []

    def handle_starttag(self, tag, attrs) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data) -> None:
        self.texts.append(data)


def read(html: str) -> Reader:
    reader = Reader()
    reader.feed(html)
    reader.close()
    return reader


@pytest.mark.parametrize("text", HOSTILE)
def test_a_token_is_text_and_nothing_else(text) -> None:
    made = read(heat_map([Token(text, 0.5, text, f"?token={text}", removed=True, masked=True)], 1.0))
    assert set(made.tags) <= ALLOWED
    assert {name for name, _ in made.attributes} == {"href", "style", "title"}
    assert "".join(made.texts) == shown(text)
    assert dict(made.attributes)["title"] == text.replace("\r\n", "\r\n")


@given(st.lists(st.text(max_size=12), max_size=6))
def test_any_text_comes_back_as_it_is_shown(texts) -> None:
    made = read(heat_map([Token(text, None, "", "?") for text in texts], 1.0))
    assert set(made.tags) <= ALLOWED
    assert made.tags.count("a") == len(texts)
    assert "".join(made.texts) == "".join(map(shown, texts))


@given(st.text(max_size=50))
def test_nothing_that_cannot_be_seen_is_left(text) -> None:
    made = shown(text)
    assert all(character.isprintable() and not character.isspace() for character in made)


def test_white_space_controls_and_directions_are_visible() -> None:
    assert shown("a b\n\tc") == "a␣b⏎⇥c"
    assert shown("\x00\u202e\u200b") == "␀\\u202e\\u200b"
    # A mark alone would sit on the token before it.
    assert shown("\u0301") == "◌\u0301"


def test_a_token_of_a_megabyte_is_cut_and_says_so() -> None:
    text = "<" * 2**20
    html = heat_map([Token(text, 0.0, "", "?")], 1.0)
    assert len(html) < 3_000
    assert f"…(+{2**20 - LONGEST:,} characters)" in html


def test_colours_are_symmetric_fixed_and_stop_at_the_scale() -> None:
    def colour(value: float) -> str:
        (_, style) = next(
            pair
            for pair in read(heat_map([Token("x", value, "", "?")], 2.0)).attributes[1:]
            if pair[0] == "style"
        )
        return style.partition("background-color:")[2].partition(";")[0]

    assert colour(2.0) == colour(50.0) == "rgba(213,94,0,0.75)"
    assert colour(-2.0) == "rgba(0,114,178,0.75)"
    assert colour(1.0) == "rgba(213,94,0,0.38)"
    assert colour(float("nan")) == ""
    assert "rgba(0,114,178,0.75)" in legend(2.0, "<nats>")
    assert "&lt;nats&gt;" in legend(2.0, "<nats>")


def test_removed_and_masked_are_told_without_colour() -> None:
    plain, removed, masked = (
        heat_map([Token("x", None, "", "?", removed=r, masked=m)], 1.0)
        for r, m in ((False, False), (True, False), (False, True))
    )
    assert "wavy" in removed
    assert "repeating-linear-gradient" in masked
    assert "wavy" not in plain + masked
    assert "repeating" not in plain + removed


def test_lines_break_where_the_response_breaks() -> None:
    html = heat_map([Token("a\n", None, "", "?"), Token("b", None, "", "?")], 1.0)
    assert html.count("<br>") == 1
    assert html.index("<br>") < html.index(">b<")

"""A small table that fits what holds it: side by side where there is room, else one row below the other."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping, Sequence

import streamlit as st

from audit.report import format as fmt

_GREY = "rgba(128,128,128,.22)"
_CHARACTER, _PADDING = 6.2, 17.0  # pixels of the font below; 1em is 14
_SHORT = 26
"""Characters of a value that stays on one line: a number with its interval has no more."""
_WORDS = 16
"""Characters of text that one line should have room for."""
_BASE = (
    ".rl-fit{container-type:inline-size;overflow-x:auto}"
    ".rl-fit table{border-collapse:collapse;width:100%;font-size:14px}"
    ".rl-fit th,.rl-fit td{text-align:left;padding:.35em .55em;vertical-align:top;"
    f"border-bottom:1px solid {_GREY}}}"
    ".rl-fit th{opacity:.7;font-weight:400}"
    ".rl-fit .r{text-align:right}.rl-fit td.w{white-space:nowrap}"
)
_STACKED = (
    "@container (max-width:{width}px){{"
    ".rl-fit .rl-{width} thead{{display:none}}"
    ".rl-fit .rl-{width} tbody,.rl-fit .rl-{width} tr{{display:block}}"
    f".rl-fit .rl-{{width}} tr{{{{padding:.4em 0;border-bottom:1px solid {_GREY}}}}}"
    ".rl-fit .rl-{width} td{{display:flex;justify-content:space-between;gap:1.2em;border:0;padding:.1em 0;"
    "text-align:right;white-space:normal}}"
    ".rl-fit .rl-{width} td::before{{content:attr(data-name);opacity:.7;font-weight:400;text-align:left}}"
    ".rl-fit .rl-{width} td:first-child{{font-weight:600;justify-content:flex-start;text-align:left}}"
    ".rl-fit .rl-{width} td[data-name='']::before{{content:none}}"
    ".rl-fit .rl-{width} td:empty{{display:none}}"
    "}}"
)
_NUMBER = re.compile(r"[-+×<>✓✗–]*\s*\.?\d|[–✓✗]?$")


def table(entries: Sequence[Mapping[str, object]], right: Sequence[str], whole: Sequence[str]) -> str:
    """Return the table as HTML; every cell is escaped.

    Parameters
    ----------
    entries : rows of equal columns, in order
    right : columns of numbers, which stand to the right
    whole : columns whose text stays on one line; values with an interval do so anyway
    """
    shown = [{fmt.visible(name): fmt.visible(value) for name, value in entry.items()} for entry in entries]
    lines = {
        name: name in whole or name in right or _is_short([row[name] for row in shown]) for name in shown[0]
    }
    width = round(sum(_width(name, [row[name] for row in shown], lines[name]) for name in lines))
    kinds = {name: " ".join(["r"] * (name in right) + ["w"] * lines[name]) for name in lines}
    head = "".join(f'<th class="{kinds[name]}">{html.escape(name)}</th>' for name in lines)
    body = "".join(
        "<tr>"
        + "".join(
            f'<td class="{kinds[name]}" data-name="{html.escape(name)}">{html.escape(value)}</td>'
            for name, value in row.items()
        )
        + "</tr>"
        for row in shown
    )
    style = f"<style>{_BASE}{_STACKED.format(width=width)}</style>"
    made = f'<table class="rl-{width}"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
    # What scrolls must be reachable by keyboard.
    return f'{style}<div class="rl-fit" tabindex="0" role="region" aria-label="table">{made}</div>'


def show(
    entries: Sequence[Mapping[str, object]], *, right: Sequence[str] = (), whole: Sequence[str] = ()
) -> None:
    """Show it; nothing where there are no rows. See :func:`table`."""
    if entries:
        st.html(table(entries, right, whole))


def _is_short(values: Sequence[str]) -> bool:
    return all(len(value) <= _SHORT and _NUMBER.match(value) for value in values)


def _width(name: str, values: Sequence[str], one_line: bool) -> float:
    """Pixels that a column needs: all of a line, or some words of a text."""
    longest = max(map(len, values), default=0)
    word = max((len(each) for value in [name, *values] for each in value.split()), default=0)
    needed = max(word, longest if one_line else min(longest, _WORDS))
    return needed * _CHARACTER + _PADDING

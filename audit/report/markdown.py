"""Foreign strings in Markdown: shown as they are, also in a table, never as markup."""

from __future__ import annotations

import re

from audit.report.format import visible

_SPECIAL = re.compile(r"([\\`*_\[\]|<>$~&])|^(\s*)([-+#=]|\d+(?=[.)]))")
_LINKS = ((re.compile("://"), "&#58;//"), (re.compile(r"www\."), "www&#46;"), (re.compile("@"), "&#64;"))


def escaped(text: object) -> str:
    """Return text in which no character acts: no emphasis, link, mention, formula, table cell or HTML."""
    shown = _SPECIAL.sub(_escape, visible(text))
    for pattern, entity in _LINKS:
        shown = pattern.sub(entity, shown)
    return shown


def _escape(match: re.Match[str]) -> str:
    anywhere, space, at_start = match.groups()
    if anywhere:
        return f"\\{anywhere}"
    # A number needs its dot escaped; written as an entity, the digit does as well.
    return f"{space}&#{ord(at_start[0])};{at_start[1:]}" if at_start.isdigit() else f"{space}\\{at_start}"


def code(text: object) -> str:
    """Return a code span for use in a table."""
    shown = visible(text).replace("|", "\\|")
    longest = max((len(run) for run in re.findall("`+", shown)), default=0)
    fence = "`" * (longest + 1)
    space = " " if shown.startswith("`") or shown.endswith("`") else ""
    return f"{fence}{space}{shown}{space}{fence}" if shown else ""

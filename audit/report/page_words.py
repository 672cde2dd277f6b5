"""What an analysis says, in the words of a page: which has no flags; its directory stands at the side."""

from __future__ import annotations

import re
from pathlib import Path

from audit.report.format import visible

HOW = 'in run.json ("objective": "grpo"), or look at the page What if'
_COMMAND = re.compile(r"(rlaudit [a-z][^.;\n]*)")
_FLAGS = (
    (
        re.compile(r"an objective(?:: name one with|(?:: declared)? in run\.json, or) --objective(?: NAME)?"),
        f"an objective: declare one {HOW}",
    ),
    (re.compile(r"name an objective with --objective"), f"declare an objective {HOW}"),
    (re.compile(r"--set (\S+=\S*[^\s.,;])"), r"\1 (page What if)"),
    (re.compile(r"--set (?=\S+: )"), ""),
)
_NUMBER_AND_UNIT = re.compile(r"(?<=\d|\]) (?=%)")


def on_page(text: object, root: Path | None = None) -> str:
    """Return what an analysis or an error says, for a page; what does not print is made visible.

    A hint that names a flag of the command line names what a page offers instead; a path below the
    directory loses what every path of the page begins with.

    Parameters
    ----------
    root : Path, optional
        The directory of the dashboard.
    """
    said = str(text)
    if root is not None:
        said = said.removeprefix(f"{root}: ")
    return unbroken(visible(_in_page_words(said, "" if root is None else f"{root}/")))


def unbroken(text: str) -> str:
    """Return a text in which no line breaks between a number and its ``%``."""
    return _NUMBER_AND_UNIT.sub("\N{NO-BREAK SPACE}", text)


def _in_page_words(text: str, above: str) -> str:
    # A whole command is for the terminal and says so: it stays. Every second piece is one.
    pieces = _COMMAND.split(text)
    for pattern, words in _FLAGS:
        pieces[::2] = [pattern.sub(words, piece) for piece in pieces[::2]]
    pieces[::2] = [piece.replace(above, "") if above else piece for piece in pieces[::2]]
    return "".join(pieces)

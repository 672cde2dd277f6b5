"""A report as a file: HTML to hand around, Markdown for a pull request, JSON for a script."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from markupsafe import Markup

from audit.errors import AuditError
from audit.logs.output import check_output
from audit.report import text
from audit.report.as_json import as_json
from audit.report.charts_inline import can_draw, inline_svg
from audit.report.colours import PALETTE
from audit.report.pages import render, write_page
from audit.report.run_report import RunReport, Section
from audit.report.section_panels import Panel, panels_of
from audit.report.terminal_lines import SLIM, WIDTH, Lines, as_html, as_plain, lines_of

ENDINGS = (".html", ".md", ".json")


def report_html(report: RunReport) -> str:
    """Return one self-contained page: no scripts, nothing from the network."""
    return render(
        "report.html.j2", report, shown=_shown_html, charts_of=_charts(report), can_draw=can_draw(), slim=SLIM
    )


def report_markdown(report: RunReport) -> str:
    """Return Markdown in which no text of a log acts as markup."""
    return render("report.md.j2", report, shown=_fenced)


report_json = as_json


def write_run_report(report: RunReport, path: Path) -> None:
    """Write a report by the ending of the name; whole or not at all.

    Raises
    ------
    AuditError
        Another ending, or a place where no file can be.
    """
    check_output(path, ENDINGS)
    make = {".html": report_html, ".md": report_markdown, ".json": report_json}[path.suffix.lower()]
    write_page(path, make(report))


def _lines(section: Section, width: int = WIDTH) -> Lines:
    name = section.section
    if name == "explain":
        name = "explanation" if hasattr(section.result, "verdict") and len(section.runs) == 2 else "many"
    return lines_of(getattr(text, f"show_{name}"), section.result, width)


def _shown_html(section: Section, width: int = WIDTH) -> Markup:
    # Escaped piece by piece, where the styles are known.
    return Markup(as_html(_lines(section, width)))


def _fenced(section: Section) -> str:
    shown = as_plain(_lines(section))
    longest = max((len(run) for run in re.findall("`+", shown)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}text\n{shown}\n{fence}"


class _Drawn(NamedTuple):
    """A chart of a section, or why there is none."""

    panel: Panel
    svg: Markup
    failed: str


def _charts(report: RunReport) -> Callable[[Section], list[_Drawn]]:
    """What draws a section: a run has one colour in all of them."""
    places = {mark.run: place for place, mark in reversed([*enumerate(report.runs)])}

    def draw(section: Section) -> list[_Drawn]:
        if not can_draw():
            return []
        # Runs of one name are told apart where all are compared.
        every = len(section.runs) == len(report.runs)
        at = range(len(section.runs)) if every else [places[run] for run in section.runs]
        return [_draw(panel) for panel in panels_of(section.result, [PALETTE[i % len(PALETTE)] for i in at])]

    return draw


def _draw(panel: Panel) -> _Drawn:
    try:
        return _Drawn(panel, inline_svg(panel.draw(), panel.title, wide=panel.wide), "")
    except AuditError as error:
        return _Drawn(panel, Markup(""), str(error))

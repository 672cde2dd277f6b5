"""A report as a file: HTML to hand around, Markdown for a pull request, JSON for a script."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from markupsafe import Markup

from audit.errors import AuditError
from audit.logs.output import check_output
from audit.report import text
from audit.report.as_json import as_json
from audit.report.pages import render, write_page
from audit.report.run_report import RunReport, Section
from audit.report.terminal_lines import as_html, as_plain, lines_of

ENDINGS = (".html", ".md", ".json")


def report_html(report: RunReport) -> str:
    """Return one self-contained page: no scripts, nothing from the network."""
    return render("report.html.j2", report, shown=_shown_html, chart=_chart)


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


def _lines(section: Section) -> Any:
    name = section.section
    if name == "explain":
        name = "explanation" if hasattr(section.result, "verdict") and len(section.runs) == 2 else "many"
    return lines_of(getattr(text, f"show_{name}"), section.result)


def _shown_html(section: Section) -> Markup:
    # Escaped piece by piece, where the styles are known.
    return Markup(as_html(_lines(section)))


def _fenced(section: Section) -> str:
    shown = as_plain(_lines(section))
    longest = max((len(run) for run in re.findall("`+", shown)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}text\n{shown}\n{fence}"


def _chart(section: Section) -> Markup:
    """The chart of a section as SVG; nothing where there is none, or nothing that draws it."""
    if find_spec("vl_convert") is None:
        return Markup("")
    from audit.report.breakdown_charts import chart_of_breakdown

    try:
        chart: Any = chart_of_breakdown(section.result)
    except (AuditError, TypeError):
        return Markup("")
    import vl_convert

    return Markup(vl_convert.vegalite_to_svg(chart.to_json()))

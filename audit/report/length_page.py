"""Length bias as a file: HTML to hand around, Markdown for a pull request, JSON for a script."""

from __future__ import annotations

from pathlib import Path

from audit.analyses.length import LengthBias
from audit.analyses.length_rows import SIDES
from audit.logs.output import check_output
from audit.report import curves_svg, length_words
from audit.report.as_json import as_json
from audit.report.charts_svg import Domain
from audit.report.pages import render, write_page
from audit.stats import LEVEL, RESAMPLES

ENDINGS = (".html", ".md", ".json")


def write_length_report(bias: LengthBias, path: str | Path) -> None:
    """Write length bias as ``.html``, ``.md`` or ``.json``, by the name of the file; whole or not at all.

    Raises
    ------
    AuditError
        Another ending, or a place where no file can be.
    """
    path = Path(path)
    check_output(path, ENDINGS)
    make = {".html": length_html, ".md": length_markdown, ".json": as_json}[path.suffix.lower()]
    write_page(path, make(bias))


def length_html(bias: LengthBias) -> str:
    """Return one self-contained page: no scripts, nothing from the network."""
    return _render("length.html.j2", bias)


def length_markdown(bias: LengthBias) -> str:
    """Return Markdown in which no text of a log acts as markup."""
    return _render("length.md.j2", bias)


def _render(template: str, bias: LengthBias) -> str:
    return render(
        template,
        bias,
        words=length_words,
        curves=curves_svg,
        sides=SIDES,
        domain=_domain(bias),
        parameters=f"{LEVEL:.0%} by BCa bootstrap over prompts, {RESAMPLES:,} resamples, seed 0.",
    )


def _domain(bias: LengthBias) -> Domain:
    """Range of every push, about 0."""
    pressures = [bias.pressure, *(e.pressure for e in bias.per_objective if e.pressure is not None)]
    sides = [e for pressure in pressures for e in (pressure.correct, pressure.wrong)]
    largest = max([abs(x) for e in sides for x in (e.value, e.low, e.high) if x is not None] or [0.0]) or 1.0
    return -1.05 * largest, 1.05 * largest

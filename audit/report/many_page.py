"""A comparison of several runs as a file: HTML to hand around, Markdown for a pull request, JSON."""

from __future__ import annotations

from pathlib import Path

from audit.analyses.explain_many import ManyExplanation
from audit.logs.output import check_output
from audit.report import many_words, matrix_svg
from audit.report.as_json import as_json
from audit.report.pages import render, write_page

ENDINGS = (".html", ".md", ".json")


def write_many_report(explanation: ManyExplanation, path: str | Path) -> None:
    """Write a comparison as ``.html``, ``.md`` or ``.json``, by the name of the file; whole or not at all.

    Raises
    ------
    AuditError
        Another ending, or a place where no file can be.
    """
    path = Path(path)
    check_output(path, ENDINGS)
    make = {".html": many_html, ".md": many_markdown, ".json": as_json}[path.suffix.lower()]
    write_page(path, make(explanation))


def many_html(explanation: ManyExplanation) -> str:
    """Return one self-contained page: no scripts, nothing from the network."""
    return _render("many.html.j2", explanation)


def many_markdown(explanation: ManyExplanation) -> str:
    """Return Markdown in which no text of a log acts as markup."""
    return _render("many.md.j2", explanation)


def _render(template: str, explanation: ManyExplanation) -> str:
    return render(
        template,
        explanation,
        words=many_words,
        heat=matrix_svg,
        order=many_words.order(explanation),
        parameters=many_words.parameters(explanation),
    )

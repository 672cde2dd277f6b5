"""Reports as files: HTML to hand around, Markdown for a pull request, JSON for a script."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from audit.analyses.explain import Explanation
from audit.analyses.verdict import SMALL_SCALE, SMALL_SHARE
from audit.logs.output import check_output
from audit.report import consequences, timeline_svg, words
from audit.report import format as fmt
from audit.report.as_json import as_json
from audit.report.loss_words import loss_in_words
from audit.report.pages import render, write_page
from audit.report.told import told_differences
from audit.stats import LEVEL, RESAMPLES


def write_report(explanation: Explanation, path: str | Path) -> None:
    """Write an explanation as ``.html``, ``.md`` or ``.json``, by the name of the file; whole or not at all.

    Raises
    ------
    AuditError
        Another ending, or a place where no file can be.
    """
    path = Path(path)
    make = {".html": as_html, ".md": as_markdown, ".json": as_json}.get(path.suffix.lower())
    check_output(path, (".html", ".md", ".json"))
    assert make is not None
    write_page(path, make(explanation))


def as_html(explanation: Explanation) -> str:
    """Return one self-contained page: no scripts, nothing from the network."""
    return _render("explain.html.j2", explanation)


def as_markdown(explanation: Explanation) -> str:
    """Return Markdown in which no text of a log acts as markup."""
    return _render("explain.md.j2", explanation)


def _render(template: str, explanation: Explanation) -> str:
    return render(
        template,
        explanation,
        told=told_differences(explanation.declared),
        names=[fmt.objective_name(side) for side in (explanation.declared.a, explanation.declared.b)],
        words=words,
        loss_in_words=loss_in_words,
        timeline=timeline_svg,
        consequences=consequences,
        evidence=_evidence,
        parameters=_parameters(),
    )


def _evidence(evidence: dict[str, Any]) -> list[tuple[str, str]]:
    return [(key.replace("_", " "), _shown(value)) for key, value in evidence.items()]


def _shown(value: Any) -> str:
    if isinstance(value, float):
        return fmt.number(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return fmt.count(value)
    if isinstance(value, list):
        return ", ".join(map(_shown, value))
    return fmt.setting(value)


def _parameters() -> list[tuple[str, str]]:
    return [
        ("intervals", f"{LEVEL:.0%}, BCa bootstrap over prompts, {RESAMPLES:,} resamples, seed 0"),
        ("shares", "exact Shapley values over swaps of the differing parts; they sum to the whole"),
        ("left unnamed (heuristic)", f"parts below {SMALL_SHARE:.0%} of the difference"),
        ("called a common factor (heuristic)", f"beyond {SMALL_SCALE:.0%} on the size of the weights"),
        (
            "parting",
            "false discovery rate over all metrics and bins of steps; prompts and the gap's own wander",
        ),
        ("confidence", "a heuristic: declared, and borne out by both logs, is the highest"),
    ]

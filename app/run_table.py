"""One run as one row of the table of runs, and how the columns of that table look."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import streamlit as st
from audit.app.listing import Listed
from audit.app.look import chip

from audit.analyses.run_overview import RunOverview
from audit.report import format as fmt

FRESH = 120.0
"""A run whose last write is no longer ago, in seconds, is called still writing; heuristic."""
_FAR = 20.0
"""Curves share a scale unless together they span more than so many times the typical one; heuristic."""
WRITING, CONTRADICTS, LEFT_OUT, READING, UNREADABLE = (
    *("writing", "≠ declared", "rows left out"),
    *("reading…", "not read"),
)
_BADGES = {
    WRITING: "blue",
    CONTRADICTS: "red",
    LEFT_OUT: "orange",
    READING: "gray",
    UNREADABLE: "red",
}

ORDER = (
    *("colour", "run", "state", "declared", "responses", "reward", "mean reward", "lengths", "mean length"),
    *("steps", "shown by the log", "tokens", "tier", "last write", "framework", "format"),
    "problems",
)
"""Columns, the most asked for first."""


def order(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the columns that say something; where no run has a state or a problem, there is no column."""
    silent = {name for name in ("state", "problems", "framework") if not any(each[name] for each in rows)}
    return [name for name in ORDER if name not in silent]


_SEARCHED = ("run", "framework", "declared", "shown by the log", "format", "problems")


def matches(row: Mapping[str, Any], wanted: str) -> bool:
    """Tell whether a row holds every word that was typed, in any column of text or as a badge."""
    text = " ".join([*(row[name] for name in _SEARCHED), *row["state"]]).casefold()
    return all(word in text for word in wanted.casefold().split())


def row(listed: Listed, colour: str, written: float | None, now: float, found: RunOverview) -> dict[str, Any]:
    """Return the row of a run that was read; counts stay numbers, so that columns sort."""
    summary = found.summary
    badges, told = _problems(found)
    return {
        **_known(listed, colour, written),
        "state": badges + ([WRITING] if written is not None and now - written < FRESH else []),
        "reward": found.reward,
        "mean reward": fmt.estimate(summary.reward),
        "lengths": found.length,
        "mean length": fmt.estimate(summary.length),
        "declared": fmt.objective_name(summary.objective),
        "shown by the log": _inferred(found),
        "steps": summary.steps,
        "responses": summary.responses,
        "tokens": summary.tokens,
        "tier": summary.tier,
        "format": summary.source.format,
        "problems": "; ".join(told),
    }


def pending(listed: Listed, colour: str, written: float | None, state: str, why: str = "") -> dict[str, Any]:
    """Return the row of a run that is not read yet, or cannot be."""
    empty = dict.fromkeys(("declared", "shown by the log", "mean reward", "mean length", "format"), "")
    none = dict.fromkeys(("steps", "responses", "tokens", "tier"))
    lists: dict[str, list[float]] = {"reward": [], "lengths": []}
    shown = {**_known(listed, colour, written), "state": [state], **lists, **empty, **none}
    return shown | {"problems": fmt.visible(why)}


def columns(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return how each column looks; the curves of all runs have one scale, so that they compare."""
    config = st.column_config
    whole = {name: config.NumberColumn(format="localized") for name in ("steps", "tokens")}
    return {
        "colour": config.ImageColumn("", width=36, help="The colour of the run on every page.", pinned=True),
        "run": config.TextColumn("run", pinned=True, width=132),
        "state": config.MultiselectColumn(
            "state",
            options=list(_BADGES),
            color=list(_BADGES.values()),
            width=104,
            help="≠ declared: the logged advantages contradict the objective of run.json. writing: a file of "
            f"the run is younger than {FRESH:.0f} s (heuristic); a run that is finished, or was just copied "
            "here, stays so until then.",
        ),
        "responses": config.NumberColumn(
            format="localized", width=84, help="Rows that were read: the n of what stands beside it."
        ),
        "reward": _curve("reward", [each["reward"] for each in rows]),
        "mean reward": config.TextColumn(
            width=112, help="Mean over the first pass with its 95 % interval by prompt."
        ),
        "lengths": _curve("length", [each["lengths"] for each in rows]),
        "mean length": config.TextColumn(
            width=116, help="Tokens of a response, with the 95 % interval by prompt."
        ),
        "declared": config.TextColumn("objective", width=126, help="The objective that run.json declares."),
        "shown by the log": config.TextColumn(
            "advantages fit",
            help="What the logged advantages fit: ✓ as declared, ✗ other than declared.",
            width=150,
        ),
        "tier": config.NumberColumn(
            help="1 rewards, 2 lengths, 3 token ids, 4 log-probs, 5 reference, 6 sampler."
        ),
        "last write": config.DatetimeColumn(format="distance", help="Youngest file of the run."),
        **whole,
    }


def _known(listed: Listed, colour: str, written: float | None) -> dict[str, Any]:
    return {
        "colour": chip(colour),
        "run": fmt.visible(listed.shown),
        "framework": fmt.visible(listed.framework),
        "last write": None if written is None else datetime.fromtimestamp(written, UTC),
    }


def _problems(found: RunOverview) -> tuple[list[str], list[str]]:
    source = found.summary.source
    badges, told = [], []
    if found.inferred.agrees is False:
        badges.append(CONTRADICTS)
        told.append("the logged advantages contradict the declared objective")
    if source.rows_rejected or source.files_skipped:
        badges.append(LEFT_OUT)
        told += [
            fmt.plural(n, noun) + " left out"
            for n, noun in ((source.rows_rejected, "row"), (len(source.files_skipped), "file"))
            if n
        ]
    return badges, told + [fmt.visible(note) for note in found.summary.notes]


def _inferred(found: RunOverview) -> str:
    inferred = found.inferred
    if inferred.status != "fits" or inferred.best is None:
        return "✗ none known" if inferred.status == "none_fits" else fmt.NOTHING
    mark = {True: "✓ ", False: "✗ ", None: ""}[inferred.agrees]
    return mark + fmt.visible(inferred.best.describe())


def _curve(label: str, curves: Sequence[Sequence[float]]) -> Any:
    spans = sorted(max(curve) - min(curve) for curve in curves if len(curve) > 1)
    values = [value for curve in curves for value in curve]
    ends, told = {}, "every run on its own scale, for some lie far from the others"
    if spans and 0 < max(values) - min(values) <= _FAR * spans[len(spans) // 2]:
        ends, told = {"y_min": min(values), "y_max": max(values)}, "one scale for all runs"
    return st.column_config.LineChartColumn(
        label, width=80, color="blue", help=f"Means over bins of the run's steps; {told}.", **ends
    )

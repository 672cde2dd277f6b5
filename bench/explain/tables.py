"""Judgements as tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from audit.analyses.findings import CAUSES
from bench.explain.judge import Judgement
from bench.page import Section

BINS = ((0.0, 0.5), (0.5, 0.7), (0.7, 0.85), (0.85, 0.95), (0.95, 1.01))
"""Of stated confidence, the upper end left out."""
SOURCES = {"toy": "toy language", "trl": "TRL"}


def summary(all_of: Sequence[Judgement]) -> Section:
    """The numbers that the acceptance asks for."""
    injected = [j for j in all_of if j.cause is not None]
    declared = [j for j in injected if not j.blind]
    seen = [j for j in injected if j.blind and j.seen]
    unseen = [j for j in injected if j.blind and not j.seen]
    nulls = [j for j in all_of if j.cause is None]
    rows = []
    for title, pairs, good, goal in (
        ("declared: top cause right", declared, [j.hit for j in declared], "≥ 95 %"),
        ("blind, cause in the log: top cause right", seen, [j.hit for j in seen], "≥ 90 %"),
        (
            "blind, cause not in the log: said so, nothing else named",
            unseen,
            [j.told and not j.named for j in unseen],
            "all",
        ),
        ("null: a cause named (false alarm)", nulls, [bool(j.named) for j in nulls], "≤ 5 %"),
    ):
        for source in (*SOURCES, None):
            of = [fine for j, fine in zip(pairs, good, strict=True) if source in (j.source, None)]
            if of:
                rows.append([title, SOURCES.get(source or "", "both"), rate(sum(of), len(of)), goal])
    return Section("In short", ("question", "runs", "pairs", "goal"), rows)


def by_cause(all_of: Sequence[Judgement], source: str) -> Section:
    """Every injected cause of one kind of runs, declared and blind."""
    section = Section(
        f"Causes injected into runs of {SOURCES[source]}",
        (
            "cause",
            "what differs",
            "declared",
            "blind",
            "named instead (pairs)",
            "blind log holds it, in",
        ),
    )
    keys = dict.fromkeys((j.cause, j.variant) for j in all_of if j.source == source and j.cause)
    for cause, variant in keys:
        these = [j for j in all_of if (j.source, j.cause, j.variant) == (source, cause, variant)]
        declared, blind = ([j for j in these if j.blind is kind] for kind in (False, True))
        seen = all(j.seen for j in blind)
        section.rows.append(
            [
                f"`{cause}`",
                variant,
                fraction(j.hit for j in declared),
                fraction(j.hit for j in blind) if seen else _unseen(blind),
                _instead(these),
                these[0].shown_by if seen else f"no; would be: {these[0].shown_by}",
            ]
        )
    return section


def nulls(all_of: Sequence[Judgement]) -> Section:
    """False alarms of pairs that differ in their seeds alone."""
    section = Section(
        "Pairs that differ in their seeds alone",
        ("runs", "objective", "declared: alarms", "blind: alarms", "named (pairs)"),
    )
    for source, variant in dict.fromkeys((j.source, j.variant) for j in all_of if j.cause is None):
        these = [j for j in all_of if (j.source, j.variant, j.cause) == (source, variant, None)]
        counts = [fraction(bool(j.named) for j in these if j.blind is kind) for kind in (False, True)]
        section.rows.append([SOURCES[source], variant, *counts, _instead(these)])
    return section


def calibration(all_of: Sequence[Judgement]) -> Section:
    """Stated confidence of the first cause against how often it is the injected one."""
    section = Section(
        "Stated confidence against hit rate",
        ("confidence of the first cause", "mean stated", "hit rate, declared", "hit rate, blind", "both"),
        intro="Over all pairs in which a cause was named, nulls too (there, every cause is a miss).",
    )
    stated = [j for j in all_of if j.confidence is not None]
    for low, high in BINS:
        inside = [j for j in stated if low <= (j.confidence or 0.0) < high]
        if not inside:
            continue
        rates = [
            rate(sum(j.hit for j in inside if j.blind in kinds), sum(j.blind in kinds for j in inside))
            for kinds in ((False,), (True,), (False, True))
        ]
        mean = sum(j.confidence or 0.0 for j in inside) / len(inside)
        section.rows.append([f"{low:g} to {min(high, 1.0):g}", f"{mean:.2f}", *rates])
    if stated:
        brier = sum(((j.confidence or 0.0) - j.hit) ** 2 for j in stated) / len(stated)
        section.notes.append(f"Brier score {brier:.3f} over {len(stated)} pairs.")
    return section


def not_tried(all_of: Sequence[Judgement]) -> Section:
    """What no injection covers, and what a blind log does not hold."""
    section = Section("What is not measured, and what a blind log cannot show", ("cause", "reason"))
    injected = {j.cause for j in all_of}
    for cause in CAUSES:
        if cause not in injected:
            section.rows.append([f"`{cause}`", "no pair of it was made"])
    for cause, variant, shown in dict.fromkeys(
        (j.cause, f"{j.variant}; {SOURCES[j.source]}", j.shown_by) for j in all_of if j.blind and not j.seen
    ):
        section.rows.append([f"`{cause}`", f"not identifiable from a blind log ({variant}); needs {shown}"])
    return section


def rate(good: int, of: int) -> str:
    """A share with its count and its 95 % interval (Wilson 1927)."""
    if not of:
        return "–"
    from scipy.stats import binomtest

    interval = binomtest(good, of).proportion_ci(method="wilson")
    return f"{good / of:.1%} ({interval.low:.1%} to {interval.high:.1%}; {good} of {of})"


def fraction(good: Iterable[bool]) -> str:
    """Count of true ones of all."""
    listed = list(good)
    return f"{sum(listed)} of {len(listed)}" if listed else "–"


def _unseen(blind: Sequence[Judgement]) -> str:
    if not blind:
        return "–"
    told, silent = (sum(not j.named and j.told is kind for j in blind) for kind in (True, False))
    lucky = sum(j.hit for j in blind)
    parts = [f"said so: {told}", f"silent: {silent}", f"other cause: {len(blind) - told - silent - lucky}"]
    return ", ".join(parts + ([f"named: {lucky}"] if lucky else []))


def _instead(these: Sequence[Judgement]) -> str:
    kinds: Counter[str] = Counter()
    for j in these:
        if j.outcome == "failed":
            kinds["error"] += 1
        elif j.outcome == "none":
            kinds["nothing"] += 1
        elif not j.hit and j.top is not None:
            kinds[f"`{j.top}`"] += 1
    return ", ".join(f"{name} ({count})" for name, count in kinds.most_common()) or "–"

"""The verdict on length bias: a decision, its reason, and one sentence with intervals, remedy and doubts."""

from __future__ import annotations

from collections.abc import Sequence

from audit.analyses.length_doubts import Doubt, span
from audit.analyses.length_law import MARGIN, Law, Slope
from audit.analyses.length_pressure import Pressure
from audit.analyses.length_remedy import Remedy
from audit.stats import Estimate

_NAMES: dict[Law, str] = {
    "1/length": "falls with length, as under a mean per response",
    "falls": "falls with length",
    "grows": "grows with length",
    "none": "does not depend on length",
    "unknown": "depends on length in a way that this log does not settle",
}


def reason_of(slope: Slope | None, law: Law) -> str:
    """Say why ``biased`` is what it is."""
    if slope is None:
        return "weights cannot be formed from this log"
    e = slope.all
    if law != "unknown":
        where = "outside of" if law != "none" else "inside"
        return f"the interval of the slope, {span(e)}, lies {where} ±{MARGIN:g} (heuristic margin)"
    if not e.n:
        return "no response has a policy weight: nothing pushes on length"
    if e.value is None:
        return f"{e.n:,} responses have a policy weight, too alike in length to fit a slope"
    if e.low is None:
        return f"the slope, {e.value:+.2f}, has no interval: all {e.n:,} responses belong to one prompt"
    return f"the interval of the slope, {span(e)}, crosses ±{MARGIN:g} (heuristic margin)"


def verdict(
    slope: Slope | None,
    law: Law,
    pressure: Pressure,
    remedy: Remedy | None,
    doubts: Sequence[Doubt],
) -> str:
    """Write the sentence."""
    tags = list(dict.fromkeys(doubt.tag for doubt in doubts))
    doubted = f"; doubts: {', '.join(tags)}" if tags else ""
    if slope is None or law == "unknown":
        return f"Cannot tell whether length is biased: {reason_of(slope, law)}{doubted}."
    biased = law != "none"
    head = "Length bias" if biased else "No length bias"
    text = f"{head}: weight per token goes as L^{span(slope.all)} (n = {slope.all.n:,})"
    text += f", so it {_NAMES[law]}"
    text += f", and {_push(pressure)}"
    if biased:
        text += f"; {_remedy(remedy)}"
    return f"{text}{doubted}."


def _push(pressure: Pressure) -> str:
    pushed = {"correct": pressure.correct, "wrong": pressure.wrong}
    unit = "tokens per unit of mean |weight|"
    some = [f"{name} answers by {span(e)}" for name, e in pushed.items() if e.excludes(0.0)]
    none = [name for name, e in pushed.items() if e.low is not None and not e.excludes(0.0)]
    lost = [name for name, e in pushed.items() if e.low is None]
    said = [f"pushes {' and '.join(some)} {unit}"] if some else []
    if none:
        which = "neither correct nor wrong" if len(none) == 2 else f"not {none[0]}"
        verb = "pushes " if not some else ""
        said.append(f"{verb}{which} answers beyond noise{_nothing(pushed, none)}")
    if lost:
        said.append(f"what it pushes {' and '.join(lost)} answers by is not measurable")
    return ", ".join(said)


def _nothing(pushed: dict[str, Estimate], names: list[str]) -> str:
    shown = [span(pushed[name]) for name in names]
    return f" ({' and '.join(dict.fromkeys(shown))})"


def _remedy(remedy: Remedy | None) -> str:
    if remedy is None:
        return "no change of one field is known to remove it"
    how = " ".join(f"--set {change}" for change in remedy.set)
    return f"{how} takes the slope to {span(remedy.slope)}"

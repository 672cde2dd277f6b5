"""Results in words: the sentences that the terminal, HTML and Markdown share."""

from __future__ import annotations

from audit.analyses.findings import Cause, Effect
from audit.analyses.infer import Candidate, Inference
from audit.report import format as fmt
from audit.report.consequences import PARTS

_FIELDS = ("baseline", "scale", "ddof", "epsilon", "reward_kl")


def cause_in_words(cause: Cause) -> str:
    """Say what a cause does."""
    kind, _, part = cause.id.partition(".")
    if kind != "objective" or part not in PARTS:
        return cause.summary
    scale = cause.evidence.get("scale_factor")
    size = f"; B's weights are × {fmt.number(scale)} by it" if isinstance(scale, float) else ""
    if not cause.share:
        return cause.summary
    return f"{PARTS[part]}{size}"


def inferred_in_words(inference: Inference) -> str:
    """Say what the advantages fit, how well, and what cannot be told apart."""
    n = f"n = {fmt.count(inference.n)}"
    if inference.status == "skipped" or inference.best is None:
        return f"skipped: {inference.reason}" + (f" ({n})" if inference.n else "")
    fit = "fit" if inference.status == "fits" else "no candidate fits; closest is"
    pieces = [
        f"{fit} {inference.best.describe()}",
        f"misfit {inference.best.residual:.1e}, {n}",
    ]
    if inference.agrees is True:
        pieces.append("agrees with the declaration")
    elif inference.agrees is False:
        misfit = "" if inference.declared_residual is None else f" (misfit {inference.declared_residual:.2g})"
        pieces.append(f"contradicts the declaration{misfit}")
    apart = _cannot_tell(inference.equivalent)
    if apart:
        pieces.append(f"cannot tell apart: {apart}")
    return "; ".join(pieces)


def _cannot_tell(equivalent: list[Candidate]) -> str:
    """Name the fields in which candidates that fit alike differ, with their values."""
    if len(equivalent) < 2:
        return ""
    named = []
    for field in _FIELDS:
        values = list(dict.fromkeys(getattr(candidate, field) for candidate in equivalent))
        if len(values) > 1:
            named.append(f"{field} {', '.join(fmt.setting(value) for value in values)}")
    return "; ".join(named) or f"{len(equivalent)} candidates"


def moved(effect: Effect) -> str:
    """Say whether the interval of a difference excludes zero."""
    if effect.low is None or effect.high is None:
        return "no interval"
    return "apart" if effect.low > 0 or effect.high < 0 else "within noise"

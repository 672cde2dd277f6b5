"""Results in words: the phrases that the terminal, HTML and Markdown share."""

from __future__ import annotations

from audit.analyses.effect import ObjectiveEffect
from audit.analyses.explain import Explanation, RunId
from audit.analyses.findings import Effect
from audit.analyses.infer import Inference
from audit.analyses.infer_words import in_words
from audit.analyses.skipped import Skipped
from audit.analyses.timeline import Course, Moment
from audit.report import format as fmt

PRELIMINARY = "preliminary: one seed a side"
INCOMPLETE = "not everything could be compared: see Skipped"


def caveats(explanation: Explanation) -> list[str]:
    """Return what has to be said beside the verdict, unless it says so itself."""
    verdict = explanation.verdict
    said = []
    if verdict.preliminary and "preliminary" not in verdict.text:
        said.append(PRELIMINARY)
    if explanation.skipped and not verdict.causes:
        said.append(INCOMPLETE)
    return said


def skipped_in_words(skip: Skipped) -> str:
    """Say what could not be asked of a log, and what it lacks."""
    return f"{skip.check}: needs {skip.needs.rstrip('.')}"


def inferred_in_words(inference: Inference) -> str:
    """Say what the advantages fit, how well, and what cannot be told apart."""
    n = f"n = {fmt.count(inference.n)}"
    if inference.status == "skipped" or inference.best is None:
        return f"skipped: {inference.reason}" + (f" ({n})" if inference.n else "")
    fit = "fit" if inference.status == "fits" else "no candidate fits; the closest is"
    misfit = fmt.number(inference.best.residual)
    pieces = [f"{fit} {inference.best.describe()}", f"misfit {misfit}", n]
    if inference.agrees is True:
        pieces.append("as declared")
    elif inference.agrees is False:
        misfit = (
            ""
            if inference.declared_residual is None
            else f" (misfit {fmt.number(inference.declared_residual)})"
        )
        pieces.append(f"contradicts the declaration{misfit}")
    pieces += [in_words(inference.equivalent)] if inference.not_identifiable else []
    return "; ".join(pieces)


def moved(effect: Effect) -> str:
    """Say whether the interval of a difference excludes zero."""
    if effect.low is None or effect.high is None:
        return "no interval"
    return "apart" if effect.low > 0 or effect.high < 0 else "not apart"


def on_rollouts(effect: ObjectiveEffect, runs: list[RunId]) -> str:
    """Say whose rollouts both objectives were applied to."""
    if len(effect.on) > 1:
        return "both"
    return "A" if effect.on[0] == runs[0].id else "B"


def parting(course: Course) -> Moment | None:
    """Where the runs part in a metric; the last moment where they do not."""
    if course.parted is not None:
        return course.moments[course.parted]
    return course.moments[-1] if course.moments else None


def at_steps(course: Course) -> str:
    """Say when the runs part in a metric."""
    moment = parting(course)
    if course.parted is None or moment is None:
        return course.state
    if course.parted == 0:
        return course.state
    if moment.first_step == moment.last_step:
        return f"step {moment.first_step}"
    return f"steps {moment.first_step} to {moment.last_step}"

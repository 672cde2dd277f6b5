"""From measured effects to a ranked verdict in words."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from audit.analyses.coalitions import TIE
from audit.analyses.contradicted import advantages_in_words
from audit.analyses.effect import SAME_DIRECTION, ObjectiveEffect, PartEffect
from audit.analyses.findings import Cause, Effect, Unseen, finding
from audit.analyses.infer import Inference
from audit.analyses.loss_inference import LossInference
from audit.analyses.skipped import Skipped
from audit.analyses.timeline import Course
from audit.objectives.objective import Objective
from audit.stats import Estimate

SMALL_SHARE = 0.01
"""A part that moves less than this share of the weights is named only among the evidence; heuristic."""
SMALL_SCALE = math.log(1.02)
"""A common factor within 2 % on every weight is not called a cause; heuristic."""

SAME_LOG = "A and B are the same log: nothing differs."
NEARLY_SAME = 0.02
"""1 - cosine below this is called nearly one direction; heuristic."""

NOTHING = (
    "No cause found: nothing beyond seed noise in objective, prompts, groups, rewards of the same text, "
    "budget, reference, tokens, log-probs and settings."
)


class Verdict(msgspec.Struct, frozen=True):
    """Ranked causes and the same in words; no causes means nothing beyond seed noise."""

    causes: list[Cause]
    text: str
    not_identifiable: list[Unseen] = []
    """Causes that these logs cannot show, and the columns that would."""
    preliminary: bool = True
    """One run a side: an observed difference in outcome cannot be told from seed noise."""


def decide(
    effects: list[ObjectiveEffect],
    other: list[Cause],
    inferred: tuple[Inference, Inference],
    outcomes: list[Effect],
    *,
    losses: Sequence[LossInference] = (),
    declared: tuple[Objective | None, Objective | None] = (None, None),
    changes: dict[str, str] | None,
    skipped: list[Skipped],
    not_identifiable: Sequence[Unseen] = (),
    parted: Sequence[Course] = (),
    same_log: bool = False,
) -> Verdict:
    """Rank the causes: parts of the objective by the share of the weights that they move, then the others.

    ``changes`` are the parts in which the declared objectives differ (None: not both declare one); a part
    whose effect these logs cannot measure is still named, without a share. ``skipped`` are the checks that
    these logs cannot carry: what was not compared is not called noise. ``losses`` are what the logged scalars
    of A and of B say, ``declared`` their objectives. ``not_identifiable`` are causes outside of the objective
    that they cannot show, ``parted`` the metrics in which the runs part, in order.
    """
    if same_log:
        return Verdict([], SAME_LOG)
    causes: list[Cause] = []
    whole = _whole(effects)
    if whole is not None:
        confidence = _confidence(inferred, losses, declared=changes is not None)
        causes += [_cause_of(part, whole, confidence) for part in whole.parts if _matters(part, whole)]
        causes.sort(key=lambda cause: -(cause.share or 0.0))
    measured = {name for effect in effects for part in effect.parts for name in part.part.split(TIE)}
    for part, change in (changes or {}).items():
        if part not in measured:
            summary = f"{part} is declared to differ ({change}); these logs cannot say how much that moves."
            causes.append(finding(f"objective.{part}", 0.5, summary, {"change": change}))
    causes += sorted(other, key=lambda cause: -cause.confidence)
    contradictions = _contradictions(inferred, declared, losses)
    said = [contradictions, _text(causes, whole, outcomes, skipped)]
    # What explains the difference comes first; where nothing does, what a log shows against its declaration.
    told = " ".join(filter(None, reversed(said) if causes else said))
    return Verdict(causes, told + _when(parted) + _unseen(not_identifiable), list(not_identifiable))


def _contradictions(
    inferred: tuple[Inference, Inference],
    declared: tuple[Objective | None, Objective | None],
    losses: Sequence[LossInference],
) -> str:
    """What the logs show against their own declarations."""
    by_words: dict[str, list[str]] = {}
    for name, side, objective in zip("AB", inferred, declared, strict=True):
        if side.agrees is False and side.best is not None:
            by_words.setdefault(advantages_in_words(side, objective), []).append(name)
    sentences = [
        f"{names[0]}'s advantages are not those that it declares{words}."
        if len(names) == 1
        else f"The advantages of A and B are not those that they declare{words}."
        for words, names in by_words.items()
    ]
    sentences += [
        f"{name}'s logged loss is not the one that it declares: {'; '.join(loss.contradictions)}."
        for name, loss in zip("AB", losses, strict=False)
        if loss.contradictions
    ]
    return " ".join(sentences)


def _whole(effects: list[ObjectiveEffect]) -> ObjectiveEffect | None:
    """The effect over the most rollouts among those that compare the most parts."""
    return max(effects, key=lambda e: (len(e.parts), len(e.on)), default=None)


def _turns(whole: ObjectiveEffect) -> bool:
    return (whole.distance.value or 0.0) > SAME_DIRECTION


def _matters(part: PartEffect, whole: ObjectiveEffect) -> bool:
    scales = abs(part.log_scale.value or 0.0) >= SMALL_SCALE and _certain(part.log_scale)
    return _turned_by(part, whole) or scales


def _turned_by(part: PartEffect, whole: ObjectiveEffect) -> bool:
    """Whether the part moves the direction: enough of it, and surely."""
    return _turns(whole) and abs(part.share.value or 0.0) >= SMALL_SHARE and _certain(part.share)


def _certain(effect: Estimate) -> bool:
    """Whether the interval leaves 0 out; a single prompt has no interval to judge by."""
    return effect.low is None or effect.excludes(0.0)


def _cause_of(part: PartEffect, whole: ObjectiveEffect, confidence: float) -> Cause:
    factor = math.exp(part.log_scale.value or 0.0)
    cause_id = f"objective.{part.part.split(TIE)[0]}"
    evidence = {
        "change": part.change,
        "distance": part.distance.value,
        "scale_factor": factor,
        "on": whole.on,
        "tokens": whole.tokens,
        "responses": whole.distance.n,
    }
    if _turned_by(part, whole):
        share = part.share
        summary = (
            f"{part.part} ({part.change}) makes {share.value or 0:.0%} of the difference between the two "
        )
        summary += f"weight vectors, and multiplies their size by {factor:.3g}."
        return Cause(
            cause_id,
            share.value,
            share.low,
            share.high,
            confidence,
            summary,
            evidence,
        )
    if _turns(whole) and abs(part.share.value or 0.0) >= SMALL_SHARE:
        low, high = part.share.low or 0.0, part.share.high or 0.0
        summary = f"{part.part} ({part.change}) multiplies the weights by {factor:.3g}; its share of the "
        summary += f"difference in direction, {part.share.value:.0%} [{low:.0%}, {high:.0%}], may be nothing."
        return Cause(cause_id, None, None, None, confidence, summary, evidence)
    summary = f"{part.part} ({part.change}) keeps the direction and multiplies the weights by {factor:.3g}"
    summary += ": the same as another learning rate, and nothing to an optimiser that normalises it away."
    return Cause(cause_id, 0.0, None, None, confidence, summary, evidence)


def _confidence(
    inferred: tuple[Inference, Inference], losses: Sequence[LossInference], *, declared: bool
) -> float:
    """Declared and borne out by both logs; declared only; inferred only; contradicted by a log.

    A loss that is reproduced at every step says more than advantages do: of the parts, all but the baseline.
    """
    if any(side.agrees is False for side in inferred):
        return 0.5
    if any(loss.agrees is False for loss in losses):
        return 0.75
    confirmed = all(side.agrees for side in inferred)
    if declared:
        return 0.95 if confirmed else 0.75
    return 0.85 if losses and all(loss.status == "fits" for loss in losses) else 0.6


def _text(
    causes: list[Cause], whole: ObjectiveEffect | None, outcomes: list[Effect], skipped: list[Skipped]
) -> str:
    moved = _moved(outcomes)
    if not causes:
        same = ""
        if whole is not None and whole.distance.value is not None and not _turns(whole):
            same = " The objectives differ, but on these rollouts they give every token the same weight."
        if skipped:
            found = "No cause found in what these logs can show"
            checks = f"{len(skipped)} checks were" if len(skipped) > 1 else "one check was"
            return f"{found}; {checks} skipped, so others remain possible.{same}{moved}"
        return f"{NOTHING}{same}{moved}"
    shared = [cause for cause in causes if cause.share]
    lines = []
    if shared and whole is not None:
        listed = ", ".join(f"{cause.id.split('.')[1]} {cause.share:.0%}" for cause in shared)
        distance, size = whole.distance.value or 0.0, math.exp(whole.log_scale.value or 0.0)
        how = "push the same tokens differently" if distance >= NEARLY_SAME else "push nearly one way"
        lines.append(
            f"The two objectives {how} (1 - cosine = {distance:.3g}, B's weights × {size:.3g}); "
            f"of the difference in direction: {listed}."
        )
    lines += [cause.summary for cause in causes if not cause.share]
    return " ".join(lines) + moved


def _moved(outcomes: list[Effect]) -> str:
    """Differences in outcome, with the reason why they prove nothing yet."""
    apart = [e for e in outcomes if e.low is not None and e.high is not None and (e.low > 0 or e.high < 0)]
    if not apart:
        return ""
    listed = ", ".join(f"{e.name} {e.a:.3g} → {e.b:.3g}" for e in apart)
    return f" Outcomes differ ({listed}), which with one seed a side may be luck: preliminary."


_TOLD = 3
"""Metrics that the verdict names; the timeline holds all."""


def _when(parted: Sequence[Course]) -> str:
    """Which metric moved first, and when."""
    if not parted:
        return ""
    told = []
    for course in parted[:_TOLD]:
        assert course.parted is not None
        moment = course.moments[course.parted]
        when = (
            "from the start"
            if course.parted == 0
            else f"at step {_steps(moment.first_step, moment.last_step)}"
        )
        told.append(f"{course.metric} {when}")
    more = f", and {len(parted) - _TOLD} more later" if len(parted) > _TOLD else ""
    return f" The runs part in {', then '.join(told)}{more}."


def _steps(first: int, last: int) -> str:
    return str(first) if first == last else f"{first} to {last}"


def _unseen(causes: Sequence[Unseen]) -> str:
    """What no look at these logs can settle."""
    if not causes:
        return ""
    named = list(dict.fromkeys(unseen.cause for unseen in causes))
    parts = [name.removeprefix("objective.") for name in named if name.startswith("objective.")]
    rest = [name for name in named if not name.startswith("objective.")]
    told = [f"{', '.join(parts)} of the objective"] if parts else []
    return f" Not identifiable from these logs: {'; '.join([*told, *filter(None, [', '.join(rest)])])}."

"""What else could move lengths, or make the numbers say less than they seem to: doubts in words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from audit.analyses.length_drift import PromptMix
from audit.analyses.length_law import MARGIN, Slope, law_of
from audit.analyses.length_pressure import Pressure
from audit.analyses.length_push_drift import PushesAndDrifts
from audit.analyses.length_reward import RewardLength
from audit.analyses.length_stops import Stops
from audit.analyses.length_truncation import Truncation
from audit.stats import Estimate

FEW_CUT = 0.01
"""Heuristic: a smaller share of truncated responses is not worth a doubt."""


class Doubt(NamedTuple):
    """A doubt, and the word by which the verdict refers to it."""

    tag: str
    text: str


def confound_doubts(
    *,
    slope: Slope | None,
    pressure: Pressure,
    compared: PushesAndDrifts | None,
    cut: Truncation | None,
    reward: RewardLength,
    mix: PromptMix,
    ends: Stops | None,
    unit: str,
) -> list[Doubt]:
    """Say which confounds these numbers show."""
    return [
        *_of_law(slope),
        *_of_pressure(slope, pressure),
        *_of_drift(compared),
        *_of_truncation(cut),
        *_of_reward(reward, unit),
        *_of_mix(mix, unit),
        *_of_stops(ends),
    ]


def span(e: Estimate, decimals: int = 2) -> str:
    """``-0.59 [-0.86, -0.36]``; more decimals where an end that is not 0 would show as 0."""
    if e.value is None or e.low is None or e.high is None:
        return "not measurable"
    ends = [abs(x) for x in (e.low, e.high) if x]
    while ends and decimals < 6 and min(ends) < 0.5 * 10**-decimals:
        decimals += 1
    value, low, high = (f"{x + 0.0:+.{decimals}f}" if x else "0" for x in (e.value, e.low, e.high))
    return f"{value} [{low}, {high}]"


def _of_law(slope: Slope | None) -> Iterator[Doubt]:
    if slope is None:
        return
    first, later = law_of(slope.all), law_of(slope.later)
    if "unknown" not in (first, later) and first != later:
        text = (
            f"in later inner passes the slope is {span(slope.later)}: the ratio brings in length of its own"
        )
        yield Doubt("later passes", text)
    signs = law_of(slope.positive), law_of(slope.negative)
    if "unknown" not in signs and signs[0] != signs[1]:
        text = f"the slope is {span(slope.positive)} for positive and {span(slope.negative)} for negative "
        yield Doubt("signs differ", text + "advantages")
    if slope.within == "optimiser step":
        text = "no group has two weighed responses of different length: slopes are between prompts"
        yield Doubt("no groups", text)


def _of_pressure(slope: Slope | None, pressure: Pressure) -> Iterator[Doubt]:
    if slope is None or law_of(slope.all) != "none":
        return
    pushed = [name for name in ("correct", "wrong") if getattr(pressure, name).excludes(0.0)]
    if pushed:
        text = f"the push on {' and '.join(pushed)} answers comes with the advantages (length or KL in the "
        yield Doubt("advantages", text + "reward), not with the length in the weights")


def _of_drift(compared: PushesAndDrifts | None) -> Iterator[Doubt]:
    if compared is None:
        return
    sides = (("correct", compared.correct), ("wrong", compared.wrong))
    for how, said in (
        ("opposite", "moved against the push: something stronger than the weights moves them"),
        ("drift without push", "moved though no weight pushes them: something else does"),
    ):
        moved = [name for name, side in sides if side.agreement == how]
        if moved:
            yield Doubt("drift", f"{' and '.join(moved)} answers {said}")


def _of_truncation(cut: Truncation | None) -> Iterator[Doubt]:
    if cut is None or (cut.share.value or 0.0) < FEW_CUT:
        return
    text = f"{cut.share.value:.1%} of responses are cut off by length"
    if cut.reward_gap.excludes(0.0):
        text += f"; their reward differs from others of their group by {span(cut.reward_gap)}"
    if cut.change.excludes(0.0):
        text += f"; the share changed by {span(cut.change)} over the run"
    yield Doubt("truncation", text)


def _of_reward(reward: RewardLength, unit: str) -> Iterator[Doubt]:
    one = unit.removesuffix("s")
    if reward.slope_equal.excludes(0.0):
        text = (
            f"among equally correct responses the reward changes by {span(reward.slope_equal, 4)} per {one}"
        )
        yield Doubt("reward", f"{text}: length counts in the reward itself")
    elif reward.groups_alike:
        text = (
            f"{reward.groups_alike} of {reward.groups} groups differ in reward though all of their responses"
        )
        yield Doubt("reward", f"{text} are equally correct")


def _of_mix(mix: PromptMix, unit: str) -> Iterator[Doubt]:
    if mix.prompts and not mix.recurring:
        text = "no prompt comes up at two steps: drift cannot be told from a change of prompts"
        yield Doubt("prompts", text)
    elif mix.mix.excludes(0.0):
        text = f"a change of prompts moves the mean length by {span(mix.mix)} {unit} over the run; drift is "
        yield Doubt("prompts", text + "given with prompts held fixed")


def _of_stops(ends: Stops | None) -> Iterator[Doubt]:
    if ends is None or ends.last is None:
        return
    last = ends.last
    if not last.stop_tokens:
        text = "stopped responses share no last token: whether the stop token takes loss cannot be seen"
        yield Doubt("stop token", text)
    elif last.cut_but_stopped is not None and last.cut_but_stopped > FEW_CUT:
        text = (
            f"{last.cut_but_stopped:.0%} of the responses that finish_reason calls cut end with a stop token"
        )
        yield Doubt("finish_reason", text)


__all__ = ["FEW_CUT", "MARGIN", "Doubt", "confound_doubts", "span"]

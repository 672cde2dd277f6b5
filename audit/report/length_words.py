"""Length bias in words: what the terminal and the page share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from audit.analyses.length import LengthBias
from audit.analyses.length_catalogue import ObjectivePressure
from audit.analyses.length_law import MARGIN, Slope
from audit.analyses.length_push_drift import PushAndDrift
from audit.facts.step_sample import SEED
from audit.report import format as fmt
from audit.report.words import skipped_in_words
from audit.stats import Estimate

_AGREEMENT = {
    "same direction": "moved with the push",
    "opposite": "moved against it",
    "drift without push": "moved without one",
    "push without drift": "pushed, not moved",
    "unclear": "not clear",
}


def laws(slope: Slope) -> list[tuple[str, Estimate]]:
    """Name each slope that has a response behind it."""
    named = {
        "advantage > 0": slope.positive,
        "advantage < 0": slope.negative,
        "both": slope.all,
        "both, later passes": slope.later,
    }
    return [(name, e) for name, e in named.items() if e.n or name == "both"]


def moved_with(both: PushAndDrift) -> str:
    """Say how drift lies to the push."""
    return _AGREEMENT[both.agreement]


def no_push(bias: LengthBias) -> str:
    """Say why no push can be drawn."""
    lacked = next((skip.needs.rstrip(".") for skip in bias.skipped if "push" in skip.check), None)
    if lacked is None:
        return "There is no push to draw: no group has two responses of one side and a known step."
    return f"There is no push to draw: it needs {lacked}."


def alike(entries: Sequence[ObjectivePressure]) -> list[tuple[list[str], ObjectivePressure]]:
    """Objectives that do the same on these rollouts, together; most biased law first."""
    found: dict[tuple[str, ...], tuple[list[str], ObjectivePressure]] = {}
    for entry in entries:
        if entry.pressure is None or entry.slope is None:
            continue
        e = entry.pressure
        # Equal to rounding is the same.
        key = tuple(fmt.estimate(x, sign=True) for x in (entry.slope, e.correct, e.wrong))
        found.setdefault(key, ([], entry))[0].append(entry.objective)
    return sorted(found.values(), key=lambda pair: (pair[1].biased is not True, -len(pair[0])))


def confounds(bias: LengthBias) -> Iterator[tuple[str, str, int]]:
    """(what, value with interval, n) of everything else that could move lengths."""
    one = bias.unit.removesuffix("s")
    cut, reward, mix = bias.truncation, bias.reward_length, bias.prompt_mix
    if cut is not None:
        yield "cut off by length", fmt.percent_estimate(cut.share), cut.share.n
        yield "  change over the run", fmt.percent_estimate(cut.change), cut.change.n
        yield "  reward against others", fmt.estimate(cut.reward_gap, sign=True), cut.reward_gap.n
        if cut.correct_truncated.n:
            yield "  correct", fmt.percent_estimate(cut.correct_truncated), cut.correct_truncated.n
    yield f"reward per {one}", fmt.estimate(reward.slope, sign=True), reward.slope.n
    yield "  equally correct", fmt.estimate(reward.slope_equal, sign=True), reward.slope_equal.n
    yield "  of advantage variance", fmt.percent_estimate(reward.explained), reward.explained.n
    if reward.groups_alike is not None:
        of = fmt.plural(reward.groups_alike, "group")
        yield "  only reward differs", of, reward.groups
    yield "change of prompts", fmt.estimate(mix.mix, sign=True), mix.mix.n
    if bias.stops is not None:
        yield "ended by", ended_by(bias), sum(reason.n for reason in bias.stops.reasons)


def ended_by(bias: LengthBias) -> str:
    """``stop 94 %, length 6 %; stop token 1``."""
    assert bias.stops is not None
    shares = [
        f"{fmt.visible(r.reason) if r.reason is not None else 'not logged'} {fmt.percent(r.share)}"
        for r in bias.stops.reasons
    ]
    last = bias.stops.last
    if last is None:
        return ", ".join(shares)
    tokens = ", ".join(str(token) for token in last.stop_tokens)
    return f"{', '.join(shares)}; {f'stop token {tokens}' if tokens else 'no stop token logged'}"


def skips(bias: LengthBias) -> list[str]:
    """What could not be measured, with the column that is missing."""
    skipped = [skipped_in_words(skip) for skip in bias.skipped]
    return skipped + [f"{entry.objective}: {entry.skipped}" for entry in bias.per_objective if entry.skipped]


def measured_on(entry: ObjectivePressure) -> str:
    """Mark of an entry that was weighed on a sample of steps."""
    return "" if entry.sample is None else " (sample)"


def sampled(bias: LengthBias) -> str:
    """Say which objectives were weighed on a sample of steps, and how it was drawn; empty without any."""
    held = [entry for entry in bias.per_objective if entry.sample is not None]
    if not held or held[0].sample is None:
        return ""
    size = held[0].sample
    names = ", ".join(entry.objective for entry in held)
    steps, of_steps, tokens, of_tokens = (fmt.count(n) for n in msgspec.structs.astuple(size))
    return (
        f"On a sample of steps: {names}. Their weights need a look at every token, which was taken at "
        f"{steps} of {of_steps} steps ({tokens} of {of_tokens} tokens), one drawn from each of {steps} "
        f"equal stretches (seed {SEED}); n and intervals are of the sample. One of them on all steps: "
        "rlaudit length RUN --objective NAME."
    )


def legend(bias: LengthBias) -> str:
    """Say what the columns are, and what they are of."""
    return f"{sampled(bias)} {_columns(bias)}".strip()


def _columns(bias: LengthBias) -> str:
    return (
        f"slope: of log E|w / A| per token on log length, within {bias.slope.within or 'group'}; -1 is "
        f"1/|o|, 0 no dependence, within ±{MARGIN:g} called none (heuristic). Push: how far the weights "
        f"move the mean length, in {bias.unit} per unit of mean |w| of the responses with weight; * under "
        "this run's objective; the "
        "learning rate that scales it is unknown, so push and drift compare in sign and shape only. Drift, "
        f"Theil-Sen: {bias.unit} from the first step to the last, prompts held fixed; Mann-Kendall takes "
        "steps for independent. n: responses (groups in 'only reward differs'). Intervals: 95 %, "
        "resampling prompts; strong where they exclude 0."
    )

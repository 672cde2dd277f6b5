"""The weight of one token as a formula with its numbers, and what each measure of a token means."""

from __future__ import annotations

import math
from typing import NamedTuple

from audit.analyses.token_view import Branch, Measure, TokenView
from audit.objectives.objective import Objective
from audit.objectives.surrogates import CISPOClip, PPOClip
from audit.objectives.surrogates.clip import band
from audit.report import format as fmt


class Scale(NamedTuple):
    """How a measure is coloured."""

    title: str
    strongest: float
    """The same for every response and run."""
    unit: str


SCALES: dict[Measure, Scale] = {
    "weight": Scale("weight", 3.0, "typical weights of the step (root of the mean square)"),
    "ratio": Scale("ratio", 0.5, "log of the policy ratio"),
    "gap": Scale("log-prob gap", 0.5, "log π_θ − log π_old, nats"),
    "kl": Scale("KL", 1.0, "KL to the reference, nats"),
    "entropy": Scale("entropy", 3.0, "entropy, nats"),
    "sampler_gap": Scale("sampler gap", 0.5, "log π_old − log π_sampler, nats"),
}

BRANCHES: dict[Branch, str] = {
    "masked": "the token takes no loss",
    "no advantage": "the advantage is 0: nothing pulls, wherever the ratio is",
    "removed": "removed: the token left the trust region, so c = 0",
    "bounded": "outside the band: the ratio counts as its end, and the token keeps a weight",
    "kept outside": "outside the band, but the advantage pulls back: the token keeps its weight",
    "inside": "inside the band: c is the ratio",
    "kept": "the surrogate has no band; it leaves the token this c",
}


class Factor(NamedTuple):
    """One factor of a weight."""

    symbol: str
    value: str
    what: str


def factors_of_token(view: TokenView, at: int, objective: Objective) -> list[Factor]:
    """The factors of the weight of one token, in the order of w = Z · A · c + k."""
    aggregation, baseline, scale = objective.aggregation, objective.baseline, objective.scale
    rows = [
        Factor("w", _number(view.weight[at]), "weight: −∂L/∂log π of the token"),
        Factor("Z", _number(view.nu), f"aggregation: {aggregation.kind} over the {aggregation.scope}"),
        Factor("A", _number(view.advantage[at]), f"advantage: {baseline.kind}, scale {scale.kind}"),
        Factor("c", _number(view.factor[at]), f"{objective.clip.kind}: {_branch(view, at, objective)}"),
        Factor("k", _number(view.kl[at]), _kl(objective)),
    ]
    if math.isfinite(view.ratio[at]):
        rows.append(
            Factor("ρ", _number(view.ratio[at]), f"ratio to {objective.ratio.denominator}{_band(objective)}")
        )
    if objective.ratio.corrections:
        rows.append(Factor("κ", _number(view.correction[at]), "corrections for the sampler, within c"))
    for name, values in view.measures.items():
        if name not in ("weight", "ratio"):
            rows.append(Factor("", _number(values[at]), SCALES[name].unit))
    return rows


def formula(view: TokenView, at: int) -> str:
    """``w = Z · A · c + k`` with the numbers of one token in it."""
    weight, c = view.weight[at], view.factor[at]
    if view.branch[at] == "masked":
        return "w = 0: the token takes no loss"
    if not math.isfinite(c):
        return f"w = Z · A · c + k = {_number(view.nu)} · 0 · c + {_number(view.kl[at])} = {_number(weight)}"
    return (
        f"w = Z · A · c + k = {_number(view.nu)} · {_number(view.advantage[at])} · {_number(c)} "
        f"+ {_number(view.kl[at])} = {_number(weight)}"
    )


def _branch(view: TokenView, at: int, objective: Objective) -> str:
    """The branch in words; for a clip with a band, by which end the token left."""
    clip = objective.clip
    if view.branch[at] != "removed" or not isinstance(clip, (PPOClip, CISPOClip)):
        return BRANCHES[view.branch[at]]
    low, _ = band(clip.epsilon_low, clip.epsilon_high)
    if view.advantage[at] > 0:
        return "removed: ρ is above the band and A > 0 would raise it further, so c = 0"
    if view.ratio[at] < low:
        return "removed: ρ is below the band and A < 0 would lower it further, so c = 0"
    return "removed: A < 0 and ρ is above the cap on how much one token may lose, so c = 0"


def _band(objective: Objective) -> str:
    clip, level = objective.clip, objective.ratio.level
    unit = "" if level == "token" else f", of the {'response' if level == 'product' else 'sequence'}"
    if not isinstance(clip, (PPOClip, CISPOClip)):
        return unit
    low, high = band(clip.epsilon_low, clip.epsilon_high)
    ends = [fmt.number(end) if math.isfinite(end) else "∞" for end in (max(low, 0.0), high)]
    more = ""
    if isinstance(clip, PPOClip):
        more += f", capped at {clip.delta:g}" if clip.delta is not None else ""
        more += f", dual clip at {clip.dual:g}" if clip.dual is not None else ""
    return f"{unit}; band [{ends[0]}, {ends[1]}]{more}"


def _kl(objective: Objective) -> str:
    kl = objective.kl.loss
    if kl is None or kl.coefficient == 0.0:
        return "no KL in the loss"
    return f"KL in the loss: beta {kl.coefficient:g}, {kl.estimator}, {kl.gradient}"


def _number(value: float) -> str:
    if not math.isfinite(value):
        return "cannot be told" if math.isnan(value) else str(value)
    return f"{value:.5g}"

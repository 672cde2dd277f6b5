"""How the weight of a token depends on the length of its response: a property of the objective.

Every token of a response has the weight w = Z A c (DESIGN: aggregation, advantage, ratio and clip). Between
responses to one prompt, E |w / A| = a L^b: b = -1 under a mean per response (GRPO, GSPO), 0 under a divisor
that they share (Dr. GRPO, DAPO, RLOO). L counts the tokens that take loss. The slope b of the log of the mean
weight is fitted with one level per group (:mod:`.length_slope`): it is the mean weight that pushes. A
regression of log |w / A| would leave out the responses that a clip removes, which may be the short ones, as
under GSPO, and take the noise of ratios for a law (E log rho < 0 = log E rho).

The decision is taken on an interval, against a margin: slopes within ±:data:`MARGIN` are no dependence.
*Biased* needs the whole interval outside of the margin, *not biased* the whole interval inside; else the log
cannot tell. An objective whose slope lies inside the margin is called biased in at most 2.5 % of runs, and
one whose slope lies outside is called unbiased in at most 2.5 % (one end of a 95 % interval), as far as the
bootstrap holds. Where the slope has no residual (ratios of 1, so that only Z is left), it is exact, and the
decision is free of error.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import msgspec
import numpy as np

from audit.analyses.length_rows import LengthRows, centred
from audit.analyses.length_slope import mean_slope
from audit.facts.rows import dense
from audit.facts.run_facts import RunFacts
from audit.facts.weigh import coefficients_of
from audit.facts.weight_sums import weight_sums
from audit.objectives.coefficients import Coefficients
from audit.objectives.objective import KL, Objective
from audit.stats import Estimate

MARGIN = 0.1
"""Heuristic: at a slope of -0.1, a response of ten times the length has 0.79 of the weight per token."""

Law = Literal["1/length", "none", "falls", "grows", "unknown"]


class Slope(msgspec.Struct, frozen=True):
    """Slope of log E |weight / advantage| per token on log length: -1 for 1/|o|, 0 for a shared divisor."""

    positive: Estimate
    negative: Estimate
    all: Estimate
    """Both signs together: what the law is decided on."""
    later: Estimate
    """The same in later inner passes over the batch, where ratios are no longer 1."""
    within: str
    """Between which responses: of one group and sign, of one group, or of one optimiser step."""


class Weights(NamedTuple):
    """Of each response under one objective; shape (R,), float64."""

    per_token: np.ndarray
    """Mean policy weight over its loss tokens, the KL in the loss left out; NaN where not finite."""
    advantage: np.ndarray
    active: np.ndarray
    """bool; the response takes loss. A weight of 0 is then the work of a clip or a correction."""


def weights_of(data: LengthRows, objective: Objective) -> Weights:
    """Weigh a run.

    Raises
    ------
    MissingColumn, BadLog
        The log lacks what the objective needs.
    """
    rows = data.rows
    assert rows.facts is not None
    policy_part = without_loss_kl(objective)
    return weights_from(rows.facts, weight_sums(rows, policy_part).policy, coefficients_of(rows, policy_part))


def weights_from(facts: RunFacts, policy: np.ndarray, c: Coefficients) -> Weights:
    """The same of sums of policy weights and coefficients that are at hand; arrays of shape (R,)."""
    made = policy / np.maximum(facts["loss_tokens"], 1)
    active = (c.kept & ~c.masked) & (facts["loss_tokens"] > 0)
    return Weights(np.where(np.isfinite(made), made, np.nan), c.advantage, active)


def without_loss_kl(objective: Objective) -> Objective:
    """The part of an objective that the reward drives."""
    return objective.replace(kl=KL(reward=objective.kl.reward))


def weight_slope(data: LengthRows, weights: Weights) -> Slope:
    """Fit the slope, with intervals that resample prompts; n counts responses that take loss with
    an advantage."""
    fit = _Fit(data, weights)
    rows, advantage = data.rows, weights.advantage
    later = ~rows.greedy & (rows.epoch > rows.epoch.min(initial=0))
    return Slope(
        positive=fit.slope(data.use & (advantage > 0)),
        negative=fit.slope(data.use & (advantage < 0)),
        all=fit.slope(data.use),
        later=fit.slope(later),
        within=fit.within,
    )


def pooled_slope(data: LengthRows, weights: Weights) -> Estimate:
    """Fit the slope of both signs together alone."""
    return _Fit(data, weights).slope(data.use)


def law_of(slope: Estimate) -> Law:
    """Read the law off an interval."""
    if slope.low is None or slope.high is None:
        return "unknown"
    if max(-slope.low, slope.high) <= MARGIN:
        return "none"
    if max(-slope.low - 1.0, slope.high + 1.0) <= MARGIN:
        return "1/length"
    if slope.high < -MARGIN:
        return "falls"
    return "grows" if slope.low > MARGIN else "unknown"


def is_biased(law: Law) -> bool | None:
    """Whether a law makes length count; None: cannot tell."""
    return None if law == "unknown" else law != "none"


class _Fit:
    """|w / A| over log length, and the strata between whose responses slopes are taken."""

    @np.errstate(divide="ignore", invalid="ignore", over="ignore")
    def __init__(self, data: LengthRows, weights: Weights) -> None:
        facts = data.rows.facts
        assert facts is not None
        self._x = np.log(facts["loss_tokens"].astype(np.float64))
        self._y = np.abs(weights.per_token / weights.advantage)
        self._known = np.isfinite(self._x) & np.isfinite(self._y) & weights.active
        self._cluster = data.cluster
        sign = np.nan_to_num(np.sign(weights.advantage))
        self.within, self._strata = _strata(data, sign, self._x, self._known & data.use)

    def slope(self, chosen: np.ndarray) -> Estimate:
        """Slope over the rows chosen, bool of shape (R,)."""
        use = chosen & self._known
        return mean_slope(self._x[use], self._y[use], self._strata[use], self._cluster[use])


def _strata(data: LengthRows, sign: np.ndarray, x: np.ndarray, use: np.ndarray) -> tuple[str, np.ndarray]:
    """The finest strata in which lengths differ, for two prompts if possible."""
    places = [("group and sign", dense(data.group, sign)), ("group", data.group)]
    # Groups of one leave the responses of one step, of different prompts.
    places.append(("optimiser step", dense(data.rows.update)))
    spread = [centred(x[use], code[use]) != 0.0 for _, code in places]
    for least in (2, 1):
        for place, differs in zip(places, spread, strict=True):
            if len(np.unique(data.cluster[use][differs])) >= least:
                return place
    return places[0]

"""What corrections for the sampler would keep, truncate or mask of a run's tokens."""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import msgspec
import numpy as np

from audit.analyses.skips import Skips
from audit.facts.rows import RunRows
from audit.facts.tokenpass.breakdowns import Beyond, name_of
from audit.facts.tokenpass.factor_facts import total
from audit.facts.tokenpass.factors import PolicyFactor
from audit.objectives.catalogue import CATALOGUE
from audit.objectives.objective import Correction, Objective, Ratio
from audit.objectives.surrogates import NoClip
from audit.stats import Estimate, ratio_of_sums

_CATALOGUE = ("grpo_tis", "grpo_mis", "grpo_icepop")


class CorrectionEffect(msgspec.Struct, frozen=True):
    """One correction on the run's tokens."""

    name: str
    """``tis``, ``mis``, ``icepop``, or ``own``: the objective's."""
    action: Literal["truncate", "mask", "gate"]
    level: Literal["token", "product", "sequence"]
    """``token``, or the response's weight as product or as geometric mean."""
    low: float | None
    high: float | None
    touched: Estimate
    """Loss tokens that are truncated, or lose their gradient, over loss tokens."""
    above: Estimate
    """Those of them above ``high``."""
    responses: Estimate | None
    """Responses that are touched, where the weight is that of the response."""
    mean_weight: Estimate
    """Mean weight of a loss token: below 1 the policy gradient is scaled down by it."""


class _Named(NamedTuple):
    name: str
    correction: Correction


def corrections(
    rows: RunRows, use: np.ndarray, objective: Objective | None, skips: Skips
) -> list[CorrectionEffect]:
    """Apply the catalogue's corrections, and those of ``objective``, to the responses ``use``."""
    found = []
    for one in listed(objective):
        c = one.correction
        if (c.numerator, c.against) != ("old", "sampler") or c.keep_nonnegative:
            skips.add(f"correction '{one.name}'", "a weight of old over sampler, alike for both signs of A")
            continue
        found.append(_by_token(rows, use, one) if c.level == "token" else _by_response(rows, use, one))
    return found


def listed(objective: Objective | None) -> list[_Named]:
    """Corrections of the catalogue, then those of an objective."""
    known = [
        _Named(name.removeprefix("grpo_"), c)
        for name in _CATALOGUE
        for c in CATALOGUE[name].objective.ratio.corrections
    ]
    own = () if objective is None else objective.ratio.corrections
    return [*known, *(_Named("own", correction) for correction in own)]


def correction_facts(objective: Objective | None) -> list[str]:
    """Facts that :func:`corrections` reads."""
    names: list[str] = []
    for _, correction in listed(objective):
        plain = (correction.numerator, correction.against) == ("old", "sampler")
        if plain and correction.level == "token" and not correction.keep_nonnegative:
            names.append(total(_factor(correction)).name)
            names += [name_of(fact) for fact in _beyond(correction) if fact is not None]
    return names


def _factor(correction: Correction) -> PolicyFactor:
    return PolicyFactor(Ratio(corrections=(correction,)), NoClip())


def _beyond(correction: Correction) -> tuple[Beyond | None, Beyond | None]:
    return (
        None if correction.low is None else Beyond("below", "old", "sampler", correction.low),
        None if correction.high is None else Beyond("above", "old", "sampler", correction.high),
    )


def _by_token(rows: RunRows, use: np.ndarray, one: _Named) -> CorrectionEffect:
    assert rows.facts is not None
    tokens = rows.facts["loss_tokens"][use].astype(np.float64)
    counted = [
        np.zeros(len(tokens)) if fact is None else rows.facts[name_of(fact)][use]
        for fact in _beyond(one.correction)
    ]
    weight = rows.facts[total(_factor(one.correction)).name][use]
    return _effect(rows.prompt[use], one, tokens, counted, weight, by_response=False)


def _by_response(rows: RunRows, use: np.ndarray, one: _Named) -> CorrectionEffect:
    assert rows.facts is not None
    c = one.correction
    tokens = rows.facts["loss_tokens"][use].astype(np.float64)
    log = rows.facts["sampler_gap"][use]
    with np.errstate(over="ignore"):
        weight = np.exp(log / tokens if c.level == "sequence" else log)
    low, high = c.low or 0.0, math.inf if c.high is None else c.high
    outside = (weight < low) | (weight > high)
    if c.action == "truncate":
        held = weight.clip(low, high)
    else:
        held = np.where(outside, 0.0, 1.0 if c.action == "gate" else weight)
    counted = [tokens * (weight < low), tokens * (weight > high)]
    return _effect(rows.prompt[use], one, tokens, counted, held * tokens, by_response=True)


def _effect(
    prompt: np.ndarray,
    one: _Named,
    tokens: np.ndarray,
    counted: list[np.ndarray],
    weight: np.ndarray,
    *,
    by_response: bool,
) -> CorrectionEffect:
    c, n = one.correction, len(tokens)
    below, above = counted
    touched = below + above
    return CorrectionEffect(
        name=one.name,
        action=c.action,
        level=c.level,
        low=c.low,
        high=c.high,
        touched=ratio_of_sums(touched, tokens, prompt, n),
        above=ratio_of_sums(above, tokens, prompt, n),
        responses=ratio_of_sums((touched > 0).astype(float), np.ones(n), prompt, n) if by_response else None,
        mean_weight=ratio_of_sums(weight, tokens, prompt, n),
    )

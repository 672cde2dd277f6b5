"""Counts of what a trust region removed, from facts: objectives whose weights are multiples of factors."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence

import msgspec
import numpy as np

from audit.analyses.clipping_counts import Counts, Source, bounds_of
from audit.analyses.clipping_walk import Walked
from audit.analyses.token_parts import edges_of
from audit.errors import MissingColumn
from audit.facts.rows import RunRows
from audit.facts.run_facts import RunFacts
from audit.facts.tokenpass import factor_facts
from audit.facts.tokenpass.breakdowns import Beyond, Dimension, Within, name_of
from audit.facts.tokenpass.chunk import Policy
from audit.facts.tokenpass.factor_values import columns_of
from audit.facts.tokenpass.factors import Factors, PolicyFactor, factors_of
from audit.facts.weigh import coefficients_of
from audit.objectives.objective import Objective
from audit.objectives.surrogates import NoClip


def source_of(rows: RunRows, objective: Objective, also: Iterable[str] = ()) -> Source:
    """Count from facts where the objective's weights are multiples of factors, else token by token.

    Parameters
    ----------
    also : iterable of str
        Facts that are needed later: one pass over tokens then computes everything.

    Raises
    ------
    MissingColumn, BadLog
        The log lacks what the objective needs.
    """
    factors = factors_of(objective, token_advantages=rows.has("token_advantage"))
    if rows.facts is None or factors is None:
        return Walked(rows, objective)
    for column in (column for factor in factors.policy for column in columns_of(factor)):
        if column not in rows.run.columns:
            raise MissingColumn.needed_for(column, f"the policy ratio ({objective.name})", rows.run.columns)
    rows.facts.read([*_names(rows, objective, factors), *also])
    return _FromFacts(rows, rows.facts, objective, factors)


def bare_factor(objective: Objective) -> PolicyFactor:
    """The policy ratio alone, without trust region or corrections."""
    return PolicyFactor(msgspec.structs.replace(objective.ratio, corrections=()), NoClip())


class _FromFacts:
    def __init__(self, rows: RunRows, facts: RunFacts, objective: Objective, factors: Factors) -> None:
        self._rows, self._facts, self._factors = rows, facts, factors
        bare = bare_factor(objective)
        c = coefficients_of(rows, objective)
        active = c.kept & ~c.masked
        ratios = facts[factor_facts.total(bare).name]
        use = active & np.isfinite(ratios)
        advantage = c.advantage
        multiple = np.where(use, c.nu * advantage, 0.0)
        tokens = np.where(use, facts["loss_tokens"], 0).astype(np.float64)
        rises, falls = use & (multiple != 0) & (advantage > 0), use & (multiple != 0) & (advantage < 0)
        self._rises, self._falls, self._use = rises, falls, use
        zeroed = self._by_sign([factor_facts.zeroed(f).name for f in (factors.positive, factors.negative)])
        below, outside = zeroed * 0.0, None
        bounds = bounds_of(objective)
        if bounds is not None:
            under, over = self._outside(objective, bounds, ratios / np.maximum(facts["loss_tokens"], 1))
            below = np.minimum(np.where(falls, under, 0.0), zeroed)
            outside = np.where(rises | falls, np.maximum(under + over - zeroed, 0.0), 0.0)
        self.counts = Counts(
            use=use,
            lost=int((active & ~use).sum()),
            advantage=advantage,
            multiple=multiple,
            tokens=tokens,
            zeroed=zeroed,
            upper=np.where(rises, zeroed, 0.0),
            lower=np.where(falls, below if bounds is not None else zeroed, 0.0),
            capped=np.where(falls, zeroed - below, 0.0) if bounds is not None else zeroed * 0.0,
            kept_outside=outside,
        )

    def parts(self, by: Dimension) -> tuple[list[np.ndarray], list[np.ndarray]]:
        loss, up, down = _part_names(self._rows, self._factors, by)
        base = [np.where(self._use, self._facts[name], 0.0) for name in loss]
        return [self._by_sign(pair) for pair in zip(up, down, strict=True)], base

    def _by_sign(self, names: Sequence[str]) -> np.ndarray:
        """A fact of the factor that belongs to the response's advantage; 0 where it has none."""
        rises, falls = (self._facts[name] for name in names)
        return np.where(self._rises, rises, np.where(self._falls, falls, 0.0))

    def _outside(
        self, objective: Objective, bounds: tuple[float, float], mean_ratio: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Loss tokens below and above the band."""
        ratio, tokens = objective.ratio, self._facts["loss_tokens"]
        if ratio.level != "token":
            return tokens * (mean_ratio < bounds[0]), tokens * (mean_ratio > bounds[1])
        under, over = (
            tokens * 0.0 if fact is None else self._facts[name_of(fact)]
            for fact in _beyond(objective, bounds)
        )
        return under, over


def _names(rows: RunRows, objective: Objective, factors: Factors) -> Iterator[str]:
    """Every fact that the counts and their breakdowns need."""
    yield "loss_tokens"
    yield factor_facts.total(bare_factor(objective)).name
    yield from (factor_facts.zeroed(factor).name for factor in (factors.positive, factors.negative))
    dimensions: tuple[Dimension, ...] = ("position", "tenth", "logp")
    for by in dimensions:
        if by != "logp" or rows.has("logp_old"):
            yield from itertools.chain(*_part_names(rows, factors, by))
    bounds = bounds_of(objective)
    if bounds is not None and objective.ratio.level == "token":
        yield from (name_of(fact) for fact in _beyond(objective, bounds) if fact is not None)


def _part_names(rows: RunRows, factors: Factors, by: Dimension) -> tuple[list[str], list[str], list[str]]:
    """Facts of each part: loss tokens, and those removed where A > 0 and where A < 0."""
    spans = list(itertools.pairwise(edges_of(rows, by)))
    loss = [name_of(Within("loss", by, low, high)) for low, high in spans]
    up, down = (
        [name_of(Within("zeroed", by, low, high, factor)) for low, high in spans]
        for factor in (factors.positive, factors.negative)
    )
    return loss, up, down


def _beyond(objective: Objective, bounds: tuple[float, float]) -> tuple[Beyond | None, Beyond | None]:
    """Facts that count tokens below and above the band; None for a bound that no ratio reaches."""
    ratio = objective.ratio
    lower: Policy = "old" if ratio.denominator == "theta" else ratio.denominator
    reach = math.inf if ratio.clamp is None else ratio.clamp
    low, high = (
        0 < bound < math.inf and ratio.denominator != "theta" and abs(math.log(bound)) < reach
        for bound in bounds
    )
    return (
        Beyond("below", "theta", lower, bounds[0]) if low else None,
        Beyond("above", "theta", lower, bounds[1]) if high else None,
    )

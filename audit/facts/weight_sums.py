"""Sums and inner products of the weights of a response's tokens, from facts alone where they allow it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import NamedTuple

import numpy as np

from audit.errors import MissingColumn
from audit.facts.columns import weight_facts
from audit.facts.rows import RunRows
from audit.facts.run_facts import RunFacts
from audit.facts.token_sums import WeightSums, token_sums
from audit.facts.tokenpass import factor_facts
from audit.facts.tokenpass.factor_values import columns_of
from audit.facts.tokenpass.factors import Factor, Factors, PolicyFactor, factors_of
from audit.facts.weigh import coefficients_of
from audit.objectives.objective import Objective


class _Terms(NamedTuple):
    """The weights of each response as multiples of factors: w = policy · c + kl · k."""

    factors: Factors
    policy: np.ndarray
    kl: np.ndarray
    negative: np.ndarray
    """bool, shape (R,): the advantage is negative."""

    def pieces(self) -> list[tuple[np.ndarray, Factor, np.ndarray]]:
        """(rows, factor, multiple) of everything that is added up."""
        f = self.factors
        by_sign = [(~self.negative, f.positive, self.policy), (self.negative, f.negative, self.policy)]
        if f.positive == f.negative:
            by_sign = [(np.ones_like(self.negative), f.positive, self.policy)]
        found: list[tuple[np.ndarray, Factor, np.ndarray]] = list(by_sign)
        if f.kl_positive is not None and f.kl_negative is not None:
            if f.kl_positive == f.kl_negative:
                found.append((np.ones_like(self.negative), f.kl_positive, self.kl))
            else:
                found.append((~self.negative, f.kl_positive, self.kl))
                found.append((self.negative, f.kl_negative, self.kl))
        return [piece for piece in found if piece[0].any()]


@np.errstate(over="ignore", invalid="ignore")
def weight_sums(rows: RunRows, objective: Objective) -> WeightSums:
    """Sums of the weights of every response of a run.

    An objective whose weights are not multiples of factors (:func:`audit.facts.tokenpass.factors.factors_of`)
    is weighed token by token.

    Raises
    ------
    MissingColumn, BadLog
        The log lacks what the objective needs.
    """
    facts = rows.facts
    terms = None if facts is None else _terms(rows, objective)
    if facts is None or terms is None:
        return token_sums(rows, [objective]).sums[0]
    facts.read(weight_facts(terms.factors))
    policy, zeroed = np.zeros(rows.num_rows), np.zeros(rows.num_rows)
    for chosen, factor, multiple in terms.pieces():
        if isinstance(factor, PolicyFactor):
            policy += _scaled(multiple, facts[factor_facts.total(factor).name], chosen)
            held = chosen & (multiple != 0)
            zeroed[held] = facts[factor_facts.zeroed(factor).name][held]
    return WeightSums(policy, _dot(facts, terms, terms), zeroed)


@np.errstate(over="ignore", invalid="ignore")
def inner_products(rows: RunRows, pairs: Sequence[tuple[Objective, Objective]]) -> np.ndarray:
    """Σ w_a · w_b over the tokens of each response, for each pair: shape (R, len(pairs)), float64.

    Raises
    ------
    MissingColumn, BadLog
        The log lacks what an objective needs.
    """
    objectives: list[Objective] = []
    for objective in (objective for pair in pairs for objective in pair):
        if objective not in objectives:
            objectives.append(objective)
    at = [(objectives.index(a), objectives.index(b)) for a, b in pairs]
    facts = rows.facts
    terms: list[_Terms] = []
    for objective in objectives:
        found = None if facts is None else _terms(rows, objective)
        if found is None:
            return token_sums(rows, objectives, at).products
        terms.append(found)
    assert facts is not None
    facts.read(name for a, b in at for name in _dot_names(terms[a], terms[b]))
    return np.column_stack([_dot(facts, terms[a], terms[b]) for a, b in at])


def read_ahead(rows: RunRows, objectives: Sequence[Objective]) -> None:
    """Have at hand what the sums of some objectives and the products of every two of them need: one pass.

    Raises
    ------
    MissingColumn, BadLog
        The log lacks what an objective needs.
    """
    if rows.facts is None:
        return
    found = [terms for terms in (_terms(rows, objective) for objective in objectives) if terms is not None]
    names = [name for terms in found for name in weight_facts(terms.factors)]
    names += [name for at, a in enumerate(found) for b in found[at + 1 :] for name in _dot_names(a, b)]
    rows.facts.read(names)


def _terms(rows: RunRows, objective: Objective) -> _Terms | None:
    factors = factors_of(objective, token_advantages=rows.has("token_advantage"))
    if factors is None:
        return None
    both: tuple[Factor, ...] = (*factors.policy, *factors.kl)
    for factor in both:
        for column in columns_of(factor):
            if column not in rows.run.columns:
                what = "the policy ratio" if isinstance(factor, PolicyFactor) else "KL in the loss"
                raise MissingColumn.needed_for(column, f"{what} ({objective.name})", rows.run.columns)
    c = coefficients_of(rows, objective)
    active = c.kept & ~c.masked
    advantage = c.advantage
    return _Terms(
        factors,
        policy=np.where(active, c.nu * advantage, 0.0),
        kl=np.where(active, c.nu_kl * factors.kl_coefficient, 0.0),
        negative=advantage < 0,
    )


def _scaled(multiple: np.ndarray, fact: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Their product on ``rows``; 0 elsewhere, whatever the fact is there."""
    return np.where(rows, multiple * fact, 0.0)


def _dot_names(a: _Terms, b: _Terms) -> list[str]:
    return [
        factor_facts.dot(one, other).name
        for (in_a, one, _), (in_b, other, _) in product(a.pieces(), b.pieces())
        if (in_a & in_b).any()
    ]


def _dot(facts: RunFacts, a: _Terms, b: _Terms) -> np.ndarray:
    made = np.zeros(len(a.policy))
    for (in_a, one, x), (in_b, other, y) in product(a.pieces(), b.pieces()):
        both = in_a & in_b
        if both.any():
            made += _scaled(x * y, facts[factor_facts.dot(one, other).name], both)
    return made

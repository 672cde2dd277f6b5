"""Which facts are kept of every run, and which an objective's weights need."""

from __future__ import annotations

from collections.abc import Iterable

from audit.facts.tokenpass import factor_facts
from audit.facts.tokenpass.factors import Factor, Factors, factors_of
from audit.facts.tokenpass.names import LAST_TOKEN, LOGGED, TEXT_KEY
from audit.facts.tokenpass.sums import SUMS
from audit.objectives.catalogue import CATALOGUE
from audit.objectives.catalogue import CORE as CORE_OBJECTIVES

FACTS_VERSION = 1
"""Raised when the meaning of a fact changes: what was stored before is computed again."""

PLAIN: tuple[str, ...] = (LOGGED, TEXT_KEY, LAST_TOKEN, *SUMS)
"""Facts that no objective enters."""


def weight_facts(factors: Factors) -> tuple[str, ...]:
    """Facts that the sums, norms and clipped shares of an objective's weights need."""
    policy, kl = factors.policy, factors.kl
    both: tuple[Factor, ...] = (*policy, *kl)
    named = [factor_facts.total(factor) for factor in both]
    named += [factor_facts.zeroed(factor) for factor in policy]
    named += [factor_facts.dot(factor, factor) for factor in both]
    named += [factor_facts.dot(p, k) for p in policy for k in kl]
    return tuple(dict.fromkeys(fact.name for fact in named))


def distinct(names: Iterable[str]) -> tuple[str, ...]:
    """The names, each once, in order."""
    return tuple(dict.fromkeys(names))


def _core() -> tuple[str, ...]:
    found = (factors_of(CATALOGUE[name].objective) for name in CORE_OBJECTIVES)
    needed = (name for factors in found if factors is not None for name in weight_facts(factors))
    plain = (name for name in PLAIN if not (name.startswith("kl_sampler") or name.endswith("ref_abs")))
    return distinct([*plain, *needed])


CORE: tuple[str, ...] = _core()
"""What ``rlaudit facts`` computes of every run, beside the facts of its own objective.

Of the KL estimates only those that some core objective or the analysis of KL asks for; the others are
computed when they are.
"""

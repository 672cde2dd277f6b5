"""How much an objective makes a prompt count, next to the unbiased policy gradient."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec
import numpy as np

from audit.analyses.possible_groups import PossibleGroups, possible_groups
from audit.errors import AuditError
from audit.objectives.objective import Objective


class Factor(msgspec.Struct, frozen=True):
    """Prompt-weight factor at one success rate, or for one distribution of rewards."""

    rate: float | None
    """Success rate of the prompt; 0 and 1 are limits; None: another distribution."""
    factor: float
    standard_error: float = 0.0
    """0 where every group was listed."""
    refilled: float | None = None
    """The factor of a group that trains, where dynamic sampling replaces groups without signal; None where it
    does not, and at the limits, where it has no bound."""


def prompt_factors(objective: Objective, group_size: int, rates: Sequence[float]) -> list[Factor]:
    """Weight that an objective gives to a prompt with binary rewards, relative to leave-one-out.

    Parameters
    ----------
    group_size : int
        G, at least 2.
    rates : sequence of float, shape (P,)
        Success rates in [0, 1]; at 0 and 1 the limit.

    Returns
    -------
    list of Factor, length P

    Raises
    ------
    BadObjective
        The advantage is not a function of the group's rewards (see :func:`possible_groups`).
    AuditError
        A rate outside [0, 1].

    Notes
    -----
    E[sum_i A_i (r_i - p)] / E[sum_i A_i^LOO (r_i - p)] with k ~ Bin(G, p) successes, exact: all G + 1 groups
    go through :func:`audit.objectives.advantages.advantages` in one call. The denominator is G p (1 - p).
    Liu et al. 2025 (arXiv:2503.20783) call the effect of the std question-level difficulty bias: with ddof 0
    it is E[sqrt(f (1 - f))] / (p (1 - p)), f = k / G.
    """
    for rate in rates:
        check_rate(rate)
    groups = possible_groups(objective, group_size)
    factors = [_binary(groups, rate) for rate in rates]
    if not objective.filter.dynamic_sampling:
        return [Factor(rate, factor) for rate, factor in zip(rates, factors, strict=True)]
    return [
        Factor(rate, factor, refilled=factor / alive if alive else None)
        for rate, factor in zip(rates, factors, strict=True)
        for alive in [1.0 - rate**group_size - (1.0 - rate) ** group_size]
    ]


def reward_factor(
    objective: Objective, group_size: int, values: Sequence[float], share: Sequence[float]
) -> Factor:
    """Weight that an objective gives to a prompt whose reward takes any finite set of values.

    Parameters
    ----------
    values, share : sequence of float, shape (V,)
        Rewards and their probabilities.

    Returns
    -------
    Factor
        Exact where all groups can be listed; else from seeded draws, with their standard error.

    Raises
    ------
    AuditError
        No distribution, or one without spread: no prompt weight is defined.
    """
    values, share = check_distribution(values, share)
    p, r = np.asarray(share), np.asarray(values)
    mean = float(p @ r)
    unit = group_size * float(p @ (r - mean) ** 2)
    groups = possible_groups(objective, group_size, values, share=share)
    signal = groups.advantage @ (r - mean) / unit
    probability = groups.probability(share)
    value = float(probability @ signal)
    error = 0.0 if groups.exact else float(signal.std(ddof=1) / math.sqrt(len(signal)))
    return Factor(None, value, error)


def check_rate(rate: float) -> None:
    """Refuse what is not a success rate.

    Raises
    ------
    AuditError
    """
    if not 0.0 <= rate <= 1.0:
        msg = f"{rate:g} is not a success rate: expected a number from 0 to 1."
        raise AuditError(msg)


def check_distribution(
    values: Sequence[float], share: Sequence[float]
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Merge equal rewards, and refuse what is no distribution with spread.

    Raises
    ------
    AuditError
    """
    if not all(map(math.isfinite, values)):
        msg = "rewards must be finite numbers."
        raise AuditError(msg)
    merged: dict[float, float] = {}
    for value, part in zip(values, share, strict=True):
        merged[value] = merged.get(value, 0.0) + part
    if any(not part >= 0 for part in merged.values()) or abs(sum(merged.values()) - 1.0) > 1e-9:
        msg = f"the probabilities of the rewards must not be negative and sum to 1, not {sum(share):g}."
        raise AuditError(msg)
    kept = {value: part for value, part in merged.items() if part > 0}
    if len(kept) < 2:
        msg = "a prompt whose responses all earn the same reward has no signal to weigh."
        raise AuditError(msg)
    return tuple(kept), tuple(kept.values())


def _binary(groups: PossibleGroups, rate: float) -> float:
    """The factor from sums of A over failures and successes in the groups with k = 0 … G successes."""
    G = groups.group_size
    by_successes = np.argsort(groups.counts[:, 1])
    lost, won = groups.advantage[by_successes].T
    if rate == 0.0:
        # Groups with one success occur with G p, groups with none always, and they enter with weight p.
        return float(won[1] - lost[0] / G)
    if rate == 1.0:
        return float(-lost[G - 1] + won[G] / G)
    signal = groups.advantage @ (groups.values - rate)
    return float(groups.probability((1.0 - rate, rate)) @ signal / (G * rate * (1.0 - rate)))

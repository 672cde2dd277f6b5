"""How often a group carries no signal at all, and what another group size would do."""

from __future__ import annotations

from collections.abc import Sequence
from math import comb

import msgspec

from audit.analyses.possible_groups import possible_groups
from audit.analyses.prompt_factor import check_rate
from audit.errors import AuditError
from audit.objectives.objective import Objective


class Silence(msgspec.Struct, frozen=True):
    """Share of groups without signal at one success rate."""

    rate: float
    equal: float
    """All rewards of the group are equal."""
    no_advantage: float
    """No response of the group has an advantage under the objective."""


def zero_signal(share: Sequence[float], group_size: int) -> float:
    """Probability that G independent rewards are all equal: the sum of share^G.

    Parameters
    ----------
    share : sequence of float, shape (V,)
        Probability of each reward; for a success rate p: (1 - p, p), which gives p^G + (1 - p)^G.
    """
    return float(sum(part**group_size for part in share))


def zero_signal_estimate(counts: Sequence[int], group_size: int) -> float:
    """Unbiased estimate of :func:`zero_signal` for groups of another size, from n pooled rewards.

    Parameters
    ----------
    counts : sequence of int, shape (V,)
        How many of the n sampled responses of a prompt earned each reward.
    group_size : int
        G', at most n.

    Notes
    -----
    The share of subsets of G' responses that are all alike, sum_v C(n_v, G') / C(n, G'): hypergeometric, as
    the unbiased pass@k estimator (Chen et al. 2021, arXiv:2107.03374, eq. 1). Plugging the observed rate into
    p^G + (1 - p)^G overstates it.

    Raises
    ------
    AuditError
        Fewer samples than the group size asked for.
    """
    n = sum(counts)
    if not 1 <= group_size <= n:
        msg = f"{n} sampled responses say nothing about groups of {group_size}: G' must be from 1 to {n}."
        raise AuditError(msg)
    return sum(comb(k, group_size) for k in counts) / comb(n, group_size)


def silences(objective: Objective, group_size: int, rates: Sequence[float]) -> list[Silence]:
    """Share of groups without signal for binary rewards, exact, at every success rate; length P.

    Raises
    ------
    BadObjective, AuditError
    """
    groups = possible_groups(objective, group_size)
    silent = (groups.size.sum(axis=1) == 0.0).astype(float)
    made = []
    for rate in rates:
        check_rate(rate)
        share = (1.0 - rate, rate)
        lost = float(groups.probability(share) @ silent)
        made.append(Silence(rate, zero_signal(share, group_size), lost))
    return made

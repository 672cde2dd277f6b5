"""How often a group carries no signal at all, and what another group size would do."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from audit.analyses.possible_groups import possible_groups
from audit.analyses.prompt_factor import check_rate
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


def zero_signal_estimate(
    counts: np.ndarray, group_size: int | np.ndarray, pool: np.ndarray | None = None
) -> np.ndarray:
    """Unbiased estimate of :func:`zero_signal` for groups of any size, from pooled rewards.

    Parameters
    ----------
    counts : ndarray, int, shape (K,)
        How many samples of a pool earned one reward; one entry per pool and reward.
    group_size : int or ndarray of shape (P,)
        G'; may differ between pools.
    pool : ndarray, int64, shape (K,), optional
        Dense code of the pool of each entry; default: all are of one.

    Returns
    -------
    ndarray, float64, shape (P,)
        NaN for a pool of fewer than G' samples: it says nothing about such groups.

    Notes
    -----
    The share of subsets of G' samples that are all alike, sum_v C(n_v, G') / C(n, G'): hypergeometric, as
    the unbiased pass@k estimator (Chen et al. 2021, arXiv:2107.03374, eq. 1). Plugging the observed rate into
    p^G + (1 - p)^G overstates it.
    """
    counts = np.asarray(counts, dtype=float)
    pool = np.zeros(len(counts), dtype=np.int64) if pool is None else pool
    n = np.bincount(pool, weights=counts)
    size = np.broadcast_to(np.asarray(group_size, dtype=float), n.shape)
    with np.errstate(invalid="ignore"):
        part = np.exp(_log_choose(counts, size[pool]) - _log_choose(n, size)[pool])
    made: np.ndarray = np.where(n >= size, np.bincount(pool, weights=part, minlength=len(n)), np.nan)
    return made


def _log_choose(n: np.ndarray, k: np.ndarray) -> np.ndarray:
    """log C(n, k); -inf where k > n."""
    from scipy.special import gammaln

    rest = np.maximum(n - k, 0.0)
    made: np.ndarray = np.where(n >= k, gammaln(n + 1) - gammaln(k + 1) - gammaln(rest + 1), -np.inf)
    return made


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

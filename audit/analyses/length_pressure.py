"""Length pressure: the first-order change of mean length that the weights of an objective push for."""

from __future__ import annotations

from typing import NamedTuple

import msgspec
import numpy as np

from audit.analyses.length_rows import NOTHING, LengthRows, centred
from audit.facts.rows import dense
from audit.objectives.needs import varies_by_token
from audit.objectives.objective import Objective
from audit.stats import Estimate, ratio_of_sums


class Pressure(msgspec.Struct, frozen=True):
    """First-order change of mean length that the weights push for, in tokens per unit of mean |weight|.

    The mean is over the responses that have a weight.
    """

    correct: Estimate
    wrong: Estimate
    all: Estimate
    """What the reward itself does to length (longer answers are right more often, say) included."""


PER_TOKEN = "one advantage per response: this objective gives each token its own"
"""Why there is no pressure."""


def has_pressure(data: LengthRows, objective: Objective) -> bool:
    """Whether the weight of a response is one number, clip and ratio apart, so that its covariance is a push.

    With an advantage per token (a critic, KL to go) the natural gradient moves log pi of a response by what
    each token's advantage exceeds its mean at that prefix: the mean over tokens then says nothing. That of
    Q - V is (r - V) / length, and pushes on length no more than r does.
    """
    logged = objective.baseline.kind == "logged" and data.rows.has("token_advantage")
    return not (logged or varies_by_token(objective))


class Moments(NamedTuple):
    """What pooled covariances are made of; arrays of shape (R,)."""

    product: np.ndarray
    """(w - mean)(L - mean) within the group, w in units of the mean |w|."""
    freedom: np.ndarray
    """1 - 1/n for each of the n responses of a group, 0 where it is alone."""


def length_pressure(data: LengthRows, per_token: np.ndarray) -> Pressure:
    """Cov(weight, length) within group among correct, wrong, and all responses, over mean |weight|.

    Parameters
    ----------
    per_token : ndarray, shape (R,)
        Mean weight over the loss tokens of each response.

    Notes
    -----
    A step of the natural gradient on a table changes E[length] by Cov_pi(w, length). Under 1/|o| and binary
    rewards it is A (1 - E[l] E[1/l]) among correct responses, <= 0 by Jensen, and >= 0 among wrong ones. Only
    responses of the first inner pass are used: later ones are no samples of the policy that is updated.
    """
    return Pressure(*(pressure_among(data, per_token, data.side(s)) for s in ("correct", "wrong", "all")))


def pressure_among(data: LengthRows, per_token: np.ndarray, chosen: np.ndarray) -> Estimate:
    """Pooled unbiased covariance over some responses, bool of shape (R,); n counts those not alone."""
    m = moments(data, per_token, chosen)
    used = m.freedom > 0
    if not used.any():
        return NOTHING
    cluster = dense(data.cluster[used])
    return ratio_of_sums(m.product[used], m.freedom[used], cluster, int(used.sum()))


@np.errstate(over="ignore", invalid="ignore")
def moments(data: LengthRows, per_token: np.ndarray, chosen: np.ndarray) -> Moments:
    """Products and degrees of freedom of the chosen responses; 0 for the others."""
    use = chosen & np.isfinite(per_token)
    product, freedom = np.zeros(len(use)), np.zeros(len(use))
    if use.any():
        code = dense(data.group[use])
        size = np.bincount(code)[code]
        unit = mean_size(data, per_token)
        shared = centred(per_token[use] / unit, code) * centred(data.length[use], code)
        product[use] = np.where(size >= 2, shared, 0.0)
        freedom[use] = np.where(size >= 2, 1.0 - 1.0 / size, 0.0)
    return Moments(product, freedom)


def mean_size(data: LengthRows, per_token: np.ndarray) -> float:
    """Mean |weight| over the used responses that have one; 1 without any."""
    size = np.abs(per_token[data.use])
    size = size[np.isfinite(size) & (size > 0)]
    return float(size.mean()) if len(size) else 1.0

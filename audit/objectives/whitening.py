"""Standardising advantages over a batch, by responses or by loss tokens."""

from __future__ import annotations

import math

from audit.objectives.arrays import Array, at_least, count_codes, group_sum, library, silent, tiny
from audit.objectives.parts import Whiten
from audit.objectives.pools import SLACK


@silent
def whitening(sums: Array, index: Array, whiten: Whiten) -> tuple[Array, Array]:
    """Shift and factor that standardise the advantages of each response's batch: (A - shift) · factor.

    Parameters
    ----------
    sums : Array, shape (R, 3), float64
        What each response contributes, its loss tokens or itself: their count, their sum, and the sum of
        their squared deviations from the response's own mean.
    index : Array, shape (R,), int64
        Batch of each response.

    Returns
    -------
    shift, factor : Array, shape (R,), float64

    Notes
    -----
    verl 0.9.1 ``masked_whiten``: ddof 1, 1e-8 in the variance. OpenRLHF 0.11.2: ddof 0, variance >= 1e-8.
    """
    xp, batches = library(sums), count_codes(index)
    count, total, within = (group_sum(sums[:, column], index, batches) for column in range(3))
    mean = total / at_least(count, tiny(count))
    own = sums[:, 1] / at_least(sums[:, 0], tiny(count))
    off = own - mean[index]
    spread = within + group_sum(sums[:, 0] * off * off, index, batches)
    # What rounding of the mean leaves of a spread of 0 is not a spread.
    spread = xp.where(spread <= 1e-24 * count * mean * mean, 0.0, spread)
    variance = xp.where(count > whiten.ddof + SLACK, spread / (count - whiten.ddof), math.nan)
    if whiten.epsilon_in == "variance":
        std = xp.sqrt(variance + whiten.epsilon)
    elif whiten.epsilon_in == "floor":
        std = xp.sqrt(at_least(variance, whiten.epsilon))
    else:
        std = xp.sqrt(variance) + whiten.epsilon
    factor = xp.where(std > 0, 1.0 / std, 1.0)
    shift = mean if whiten.centre else xp.zeros_like(mean)
    return shift[index], factor[index]

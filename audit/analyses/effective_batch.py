"""How much of a batch of prompts trains: groups and responses with signal, and how evenly they weigh."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from audit.analyses.possible_groups import possible_groups
from audit.analyses.prompt_factor import check_rate
from audit.errors import AuditError
from audit.objectives.objective import Objective


class PromptShare(msgspec.Struct, frozen=True):
    """One prompt of the mix."""

    rate: float
    live: float
    """Probability that its group has an advantage that is not 0."""
    pull: float
    """Its share of the expected sum of |advantage| over the mix."""


class EffectiveBatch(msgspec.Struct, frozen=True):
    """Expectations over a batch with one group of each prompt of a mix."""

    group_size: int
    groups: int
    live_groups: float
    live_responses: float
    effective_responses: float
    """(E sum |A|)² / E sum A²: equally weighted responses that the batch is worth."""
    prompts: list[PromptShare]


def effective_batch(objective: Objective, group_size: int, rates: Sequence[float]) -> EffectiveBatch:
    """Expected effective size of a batch of binary-reward prompts, exact per group.

    Parameters
    ----------
    rates : sequence of float, shape (P,)
        Success rate of each prompt; a prompt that occurs more often is named more often.

    Notes
    -----
    The effective size is Kish's (1965), of |A|, as a ratio of expectations: exact up to 1 / P.

    Raises
    ------
    BadObjective, AuditError
    """
    if not rates:
        msg = "a batch needs at least one prompt: name success rates with --rate."
        raise AuditError(msg)
    groups = possible_groups(objective, group_size)
    size, square = groups.size.sum(axis=1), groups.square.sum(axis=1)
    spread = (groups.size > 0).any(axis=1).astype(float)
    live, pull, power = [], [], []
    for rate in rates:
        check_rate(rate)
        probability = groups.probability((1.0 - rate, rate))
        live.append(float(probability @ spread))
        pull.append(float(probability @ size))
        power.append(float(probability @ square))
    total = float(np.sum(pull))
    return EffectiveBatch(
        group_size=group_size,
        groups=len(rates),
        live_groups=float(np.sum(live)),
        live_responses=group_size * float(np.sum(live)),
        effective_responses=total**2 / float(np.sum(power)) if total else 0.0,
        prompts=[
            PromptShare(rate, alive, part / total if total else 0.0)
            for rate, alive, part in zip(rates, live, pull, strict=True)
        ],
    )

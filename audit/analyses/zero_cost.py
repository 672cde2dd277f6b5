"""What groups without signal cost: generation that trains nothing, and what replacing them would take."""

from __future__ import annotations

import msgspec
import numpy as np

from audit.analyses.samples import Samples
from audit.analyses.shares import share_of
from audit.analyses.skips import Skips
from audit.facts.rows import RunRows
from audit.facts.weight_sums import weight_sums
from audit.objectives.objective import Objective
from audit.stats import Estimate, ratio_of_sums


class Cost(msgspec.Struct, frozen=True):
    """What was generated for groups without signal."""

    samples: int
    samples_share: Estimate
    """n counts samples."""
    tokens: int | None
    tokens_share: Estimate | None
    """Of the tokens generated; n counts the samples of known length."""


class Refill(msgspec.Struct, frozen=True):
    """What dynamic sampling would take: groups are drawn until enough of them carry a signal."""

    drawn_per_kept: Estimate
    """Groups to sample for each that is kept, at this run's prompts; n counts groups. What is thrown away is
    the share of :class:`Cost`."""
    never: int
    """Prompts with several visits, none of which carried a signal: drawing them again may not help."""
    applied: bool | None
    """Whether the objective samples dynamically already; None: not known."""


class Silenced(msgspec.Struct, frozen=True):
    """What an objective does with groups whose rewards are equal; n counts groups."""

    without_weight: Estimate
    """Share of groups none of whose responses has a policy weight."""
    alike_with_weight: Estimate
    """Share of the groups with equal rewards whose responses have policy weight all the same."""
    square_share: Estimate
    """Share of the sum of squared token weights, KL in the loss included, on groups with equal rewards."""


def cost(samples: Samples, skips: Skips) -> Cost:
    """Count the samples and tokens that trained nothing."""
    dead = samples.alike[samples.group]
    cluster = samples.cluster[samples.group]
    known = np.isfinite(samples.tokens)
    tokens = np.where(known, samples.tokens, 0.0)
    if not known.any():
        skips.add("tokens of groups without signal", "length or token_ids, in tokens")
    return Cost(
        samples=int(dead.sum()),
        samples_share=share_of(dead, cluster),
        tokens=int(tokens[dead].sum()) if known.any() else None,
        tokens_share=ratio_of_sums(tokens * dead, tokens, cluster, int(known.sum())) if known.any() else None,
    )


def refill(samples: Samples, objective: Objective | None, notes: list[str]) -> Refill:
    """Say what it takes to have only groups with signal, others being replaced by draws of the same mix."""
    alive = (~samples.alike).astype(float)
    visits = np.bincount(samples.cluster)
    silent = np.bincount(samples.cluster, weights=samples.alike)
    applied = None if objective is None else objective.filter.dynamic_sampling
    if applied:
        notes.append(
            "the objective samples dynamically: groups without signal may have been replaced before they "
            "were logged, and shares of them are those of what was kept"
        )
    return Refill(
        drawn_per_kept=ratio_of_sums(np.ones(len(alive)), alive, samples.cluster, len(alive)),
        never=int(((visits > 1) & (silent == visits)).sum()),
        applied=applied,
    )


def silenced(rows: RunRows, samples: Samples, objective: Objective) -> Silenced:
    """Weigh the run under an objective, and see which groups pull on the policy.

    Raises
    ------
    MissingColumn, BadLog
        The log lacks what the objective needs.
    """
    sums = weight_sums(rows, objective)
    here = samples.of_row >= 0
    group = samples.group[samples.of_row[here]]
    policy = np.bincount(group, weights=np.abs(sums.policy[here]), minlength=samples.num_groups)
    weighed = np.isfinite(policy)
    none = (policy == 0) & weighed
    alike = samples.alike & weighed
    square = np.where(np.isfinite(sums.square), sums.square, 0.0)
    alike_row = np.append(samples.alike, False)[samples.group_of_row]
    return Silenced(
        without_weight=share_of(none, samples.cluster, weighed),
        alike_with_weight=share_of(~none, samples.cluster, alike),
        square_share=ratio_of_sums(square * alike_row, square, rows.prompt, samples.num_groups),
    )

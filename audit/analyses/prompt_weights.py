"""How the gradient is shared out between prompts: the sum of |policy weight| over the responses of each."""

from __future__ import annotations

from typing import NamedTuple

import msgspec
import numpy as np

from audit.analyses.inequality import gini, lorenz
from audit.analyses.rate_bins import EDGES
from audit.analyses.samples import Samples
from audit.facts.rows import RunRows
from audit.facts.weight_sums import weight_sums
from audit.objectives.arrays import silent
from audit.objectives.objective import Objective
from audit.stats import Estimate, bootstrap, cluster_sums, estimate

TOP = 0.1
"""The heaviest prompts whose share is named, as a share of the prompts."""


class BinWeight(msgspec.Struct, frozen=True):
    """Share of the gradient on groups whose prompt has a success rate in a bin; n counts groups."""

    low: float
    high: float
    share: Estimate


class PromptShares(msgspec.Struct, frozen=True):
    """How one objective shares the gradient out between the prompts of a run; n counts prompts.

    The gradient of a prompt is the sum over its responses of |sum of the policy weights of its tokens|, over
    every update; the KL in the loss is left out.
    """

    objective: str
    gini: Estimate
    """0: every prompt has the same share; 1: one has everything."""
    top_share: Estimate
    """Share of the heaviest tenth of the prompts (at least one); no interval: which those are was chosen by
    the same numbers."""
    lorenz: list[tuple[float, float]]
    """Share of the prompts, lightest first, and share of the gradient on them."""
    by_rate: list[BinWeight]
    not_finite: int
    """Responses left out because their weight is NaN or infinite."""


class Weighed(NamedTuple):
    """Sum of |policy weight| under one objective."""

    objective: str
    of_group: np.ndarray
    """Shape (N,), later inner passes included."""
    of_prompt: np.ndarray
    """Shape (P,), by cluster code of the samples; 0 for what has no prompt_id."""
    not_finite: int


def weigh_prompts(rows: RunRows, samples: Samples, objective: Objective) -> Weighed:
    """Sum |policy weight| over the responses of each group and prompt.

    Raises
    ------
    MissingColumn, BadLog
        The log lacks what the objective needs.
    """
    policy = np.abs(weight_sums(rows, objective).policy)
    here = samples.group_of_row >= 0
    finite = np.isfinite(policy)
    use = here & finite
    of_group = np.bincount(samples.group_of_row[use], weights=policy[use], minlength=samples.num_groups)
    known = np.where(samples.prompt >= 0, of_group, 0.0)
    of_prompt = np.bincount(samples.cluster, weights=known)
    return Weighed(objective.name, of_group, of_prompt, int((here & ~finite).sum()))


@silent
def shares_of(samples: Samples, bins: np.ndarray, weighed: Weighed) -> PromptShares:
    """Describe how unequal the shares are, and which success rates get them."""
    held = weighed.of_prompt[np.unique(samples.cluster[samples.prompt >= 0])]
    total = float(held.sum())
    top = np.sort(held)[::-1][: max(round(TOP * len(held)), 1)]
    share = float(top.sum()) / total if total > 0 else None
    return PromptShares(
        objective=weighed.objective,
        gini=gini(held, len(held)),
        top_share=Estimate(share, None, None, len(held)),
        lorenz=lorenz(held),
        by_rate=_by_rate(samples, bins, weighed.of_group),
        not_finite=weighed.not_finite,
    )


@silent
def _by_rate(samples: Samples, bins: np.ndarray, amount: np.ndarray) -> list[BinWeight]:
    held = [at for at in range(len(EDGES) - 1) if (bins == at).any()]
    columns = np.column_stack([amount * (bins == at) for at in held] + [amount * (bins >= 0)])

    @np.errstate(invalid="ignore", divide="ignore")
    def statistic(totals: np.ndarray) -> np.ndarray:
        return np.asarray(totals[..., :-1] / totals[..., -1:])

    made = bootstrap(cluster_sums(columns, samples.cluster), statistic)
    return [
        BinWeight(EDGES[at], EDGES[at + 1], estimate(made, int((bins == at).sum()), place))
        for place, at in enumerate(held)
    ]

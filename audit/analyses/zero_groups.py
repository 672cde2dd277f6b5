"""Groups without signal: how many, why, when, what they cost, and what would change it."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from audit.analyses.fitted import fitted
from audit.analyses.group_shapes import GroupShapes, group_shapes
from audit.analyses.left_out import files_left_out
from audit.analyses.overflow import overflow_notes
from audit.analyses.samples import Samples, samples_of
from audit.analyses.shares import share_of
from audit.analyses.skipped import Skipped
from audit.analyses.skips import Skips
from audit.analyses.step_bins import step_bins
from audit.analyses.zero_cost import Cost, Refill, Silenced, cost, refill, silenced
from audit.analyses.zero_expected import Expected, SizeShare, by_size, expected, predicted_alike
from audit.errors import MissingColumn
from audit.facts.rows import RunRows
from audit.objectives.objective import Objective
from audit.stats import Estimate, ratio_of_sums


class ZeroShares(msgspec.Struct, frozen=True):
    """Shares of groups whose rewards are all equal; n counts groups."""

    all: Estimate
    right: Estimate | None
    """Every sample is correct; None where rewards are neither right nor wrong."""
    wrong: Estimate | None
    other: Estimate | None
    """Rewards are equal, and samples are neither all correct nor all wrong."""
    correct_is: str


class StepShare(msgspec.Struct, frozen=True):
    """The share of zero-signal groups over a few consecutive steps; n counts groups."""

    first_step: int
    last_step: int
    observed: Estimate
    predicted: Estimate | None
    """From the success rates of the prompts; n counts the groups that it could be had for."""


class GroupBreakdown(msgspec.Struct, frozen=True):
    """The contract of ``rlaudit groups --json``."""

    run: str
    objective: str | None
    groups: int
    samples: int
    prompts: int
    group_size: int
    """The most frequent."""
    zero_signal: ZeroShares
    expected: Expected | None
    by_step: list[StepShare]
    by_size: list[SizeShare]
    cost: Cost
    refill: Refill
    silenced: Silenced | None
    shapes: GroupShapes
    skipped: list[Skipped]
    notes: list[str]
    schema: str = "rlaudit.groups.v1"


def group_breakdown(
    rows: RunRows,
    objective: Objective | None = None,
    *,
    sizes: Sequence[int] = (),
    notes: Sequence[str] = (),
) -> GroupBreakdown:
    """Break the groups of a run down by whether and why they carry no signal.

    Parameters
    ----------
    objective : Objective, optional
        What decides which groups pull on the policy in spite of equal rewards.
    sizes : sequence of int, optional
        Group sizes G' to estimate the share for; default: powers of 2 from 2 to 64 and the run's own.
    notes : sequence of str
        What was assumed about the objective.

    Raises
    ------
    MissingColumn
        No row has a group_id.
    """
    if not rows.has("group_id"):
        raise MissingColumn.needed_for("group_id", "groups without signal", rows.run.columns)
    notes = [*rows.run.notes, *files_left_out(rows.run), *overflow_notes(rows), *notes]
    skips = Skips(rows)
    samples = samples_of(rows)
    known_prompts = not skips.lacks("the share that success rates predict", "prompt_id")
    predicted = predicted_alike(samples) if known_prompts else np.full(samples.num_groups, np.nan)
    held = expected(samples, predicted) if np.isfinite(predicted).any() else None
    if known_prompts and held is None:
        skips.add("the share that success rates predict", "prompts that are visited three times or more")
    found = None
    if objective is not None:
        objective, taken = fitted(rows, objective)
        notes += taken
        weighed = objective
        name = f"groups without weight under {objective.name}"
        found = skips.attempt(name, lambda: silenced(rows, samples, weighed))
    else:
        skips.add("groups without weight", "an objective: name one with --objective")
    return GroupBreakdown(
        run=rows.run.run_id,
        objective=None if objective is None else objective.name,
        groups=samples.num_groups,
        samples=len(samples.reward),
        prompts=len(np.unique(samples.prompt[samples.prompt >= 0])),
        group_size=samples.typical_size,
        zero_signal=_shares(samples),
        expected=held,
        by_step=[] if skips.lacks("the share over steps", "step") else _by_step(samples, predicted),
        by_size=by_size(samples, sizes),
        cost=cost(samples, skips),
        refill=refill(samples, objective, notes),
        silenced=found,
        shapes=group_shapes(rows, samples, skips),
        skipped=skips.found,
        notes=notes,
    )


def _shares(samples: Samples) -> ZeroShares:
    def share(flags: np.ndarray) -> Estimate:
        return share_of(flags, samples.cluster)

    if samples.correct is None:
        return ZeroShares(share(samples.alike), None, None, None, samples.correct_is)
    right = samples.alike & (samples.per_group((samples.correct == 1).astype(float)) == samples.size)
    wrong = samples.alike & (samples.per_group((samples.correct == 0).astype(float)) == samples.size)
    other = samples.alike & ~right & ~wrong
    return ZeroShares(share(samples.alike), share(right), share(wrong), share(other), samples.correct_is)


def _by_step(samples: Samples, predicted: np.ndarray) -> list[StepShare]:
    bins = step_bins(samples.step)
    return [
        StepShare(
            first,
            last,
            share_of(samples.alike, samples.cluster, bins.code == at),
            _mean(samples, predicted, (bins.code == at) & np.isfinite(predicted)),
        )
        for at, (first, last) in enumerate(bins.spans)
    ]


def _mean(samples: Samples, values: np.ndarray, among: np.ndarray) -> Estimate:
    use = among.astype(float)
    return ratio_of_sums(np.where(among, values, 0.0), use, samples.cluster, int(among.sum()))

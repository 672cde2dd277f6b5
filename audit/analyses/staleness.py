"""How stale the data of updates were: version lag, ratio drift over inner passes, and what is not logged."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from audit.analyses.fitted import fitted
from audit.analyses.left_out import files_left_out
from audit.analyses.skipped import Skipped
from audit.analyses.skips import Skips
from audit.analyses.token_means import TokenMeans
from audit.analyses.version_lag import Lag, lags_of, version_lag
from audit.facts.rows import RunRows
from audit.objectives.objective import Objective
from audit.stats import Estimate


class PassDrift(msgspec.Struct, frozen=True):
    """The policy ratio pi_theta / pi_old in one inner pass over a batch; n counts responses."""

    epoch: int
    responses: int
    ratio: Estimate | None
    """Mean per loss token; 1 in expectation over the old policy's own tokens."""
    log_ratio: Estimate | None
    """Mean log ratio per loss token, nats."""
    size: Estimate | None
    """Root mean square of the log ratio per loss token, nats."""
    largest: float | None
    """Largest |log ratio| of a token, nats."""
    moved: Estimate | None
    """Share of responses with a token whose ratio is not 1: |log ratio| above 1e-4, heuristic."""
    zeroed: Estimate | None
    """Share of loss tokens that the trust region removed."""


class StalenessBreakdown(msgspec.Struct, frozen=True):
    """The contract of ``rlaudit staleness --json``."""

    run: str
    objective: str | None
    responses: int
    lag: Lag | None
    passes: list[PassDrift]
    verdict: str
    skipped: list[Skipped]
    notes: list[str]
    schema: str = "rlaudit.staleness.v1"


def staleness(
    rows: RunRows, objective: Objective | None = None, *, notes: Sequence[str] = ()
) -> StalenessBreakdown:
    """Say how far behind the policy its data were, over every update.

    Parameters
    ----------
    objective : Objective, optional
        Whose trust region removes tokens.
    notes : sequence of str
        What was assumed about the objective.
    """
    skips, notes = Skips(rows), [*rows.run.notes, *files_left_out(rows.run), *notes]
    if objective is not None:
        objective, taken = fitted(rows, objective)
        notes += taken
    means = TokenMeans(rows, objective, skips)
    lag = None
    if not skips.lacks("version lag", "policy_version", "sampler_version"):
        lags = lags_of(rows)
        if np.isfinite(lags[~rows.greedy]).any():
            lag = version_lag(rows, lags, means)
        else:
            skips.add("version lag", "policy_version and sampler_version in the same rows")
    passes = [_pass(rows, int(epoch), means) for epoch in np.unique(rows.epoch[~rows.greedy])]
    if len(passes) < 2:
        skips.add("drift over inner passes", "epoch, with more than one inner pass")
    return StalenessBreakdown(
        run=rows.run.run_id,
        objective=None if objective is None else objective.name,
        responses=int((~rows.greedy).sum()),
        lag=lag,
        passes=passes,
        verdict=_verdict(lag, passes),
        skipped=skips.found,
        notes=notes,
    )


def _pass(rows: RunRows, epoch: int, means: TokenMeans) -> PassDrift:
    here = ~rows.greedy & (rows.epoch == epoch)
    return PassDrift(
        epoch=epoch,
        responses=int(here.sum()),
        ratio=means.ratio(here),
        log_ratio=means.mean_log_ratio(here),
        size=means.log_ratio(here),
        largest=means.largest(here),
        moved=means.moved(here),
        zeroed=means.zeroed(here),
    )


def _verdict(lag: Lag | None, passes: list[PassDrift]) -> str:
    said = [_of_lag(lag)]
    if lag is not None and lag.fresh_but_moved is not None and lag.fresh_but_moved.value:
        said.append(
            f"{lag.fresh_but_moved.value:.0%} of the responses without lag have a policy ratio other than 1: "
            "versions and log-probs disagree."
        )
    sizes = [each.size.value for each in passes if each.size is not None and each.size.value is not None]
    if len(sizes) > 1 and sizes[-1] > sizes[0]:
        said.append(
            f"The log ratio grows from {sizes[0]:.3g} to {sizes[-1]:.3g} nats per token (root mean square) "
            f"over {len(sizes)} inner passes."
        )
    elif len(sizes) > 1:
        said.append(f"The log ratio does not grow over {len(sizes)} inner passes.")
    return " ".join(said)


def _of_lag(lag: Lag | None) -> str:
    if lag is None:
        return "Version lag cannot be audited: no versions were logged."
    if lag.negative:
        return (
            f"{lag.negative} responses come from a version later than the policy's: the two version columns "
            "do not count the same thing."
        )
    if not lag.most:
        return "Every response was sampled by the version that it updated."
    share = lag.stale.value or 0.0
    return f"{share:.0%} of the responses were sampled by an earlier version, up to {lag.most} behind."

"""The analyses as functions of runs: what ``import audit`` offers. A run is a Run, or a path to one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from audit.analyses import check as _check
from audit.analyses import explain as _explain
from audit.analyses import explain_many as _explain_many
from audit.analyses import length as _length
from audit.analyses.clipping import Clipping
from audit.analyses.clipping import clipping as clipping_of
from audit.analyses.directory import DirectorySummary, summarise_path
from audit.analyses.fitted import own_objective
from audit.analyses.kl_estimates import KLReport, kl_report
from audit.analyses.mismatch import Mismatch
from audit.analyses.mismatch import mismatch as mismatch_of
from audit.analyses.own_length import own_length_bias
from audit.analyses.prompts import PromptBreakdown, prompt_breakdown
from audit.analyses.rewards import RewardBreakdown, reward_breakdown
from audit.analyses.staleness import StalenessBreakdown
from audit.analyses.staleness import staleness as staleness_of
from audit.analyses.summary import Summary, summarise
from audit.analyses.zero_groups import GroupBreakdown, group_breakdown
from audit.facts.chosen import chosen_objective
from audit.facts.declared import read_objective
from audit.facts.rows import RunRows
from audit.facts.weigh import Written, write_weights
from audit.importers import open_run
from audit.logs import Run
from audit.logs.places import to_place
from audit.objectives.objective import Objective

RunLike = Run | str | Path
ObjectiveLike = Objective | str | None


def explain(a: RunLike, b: RunLike) -> _explain.Explanation:
    """Explain why two runs disagree: declared, inferred, objective effect, data effect, verdict."""
    return _explain.explain(_opened(a), _opened(b))


def explain_many(runs: Sequence[RunLike]) -> _explain_many.ManyExplanation:
    """Explain how three or more runs differ: distances, clusters, what splits them, seed noise."""
    return _explain_many.explain_many([_opened(run) for run in runs])


def summary(run: RunLike) -> Summary | DirectorySummary:
    """Summarise a run, or every run under a directory."""
    return summarise(run) if isinstance(run, Run) else summarise_path(to_place(run))


def check(run: RunLike) -> _check.Check:
    """Check whether a log is valid, and whether the run did what it declares."""
    return _check.check(_opened(run))


def length_bias(run: RunLike, objective: ObjectiveLike = None) -> _length.LengthBias:
    """Measure length bias under the run's own objective, or under another one."""
    if objective is None:
        return own_length_bias(_opened(run))
    rows = RunRows.read(_opened(run))
    chosen, notes = _chosen(rows, objective)
    return _length.length_bias(rows, chosen, notes)


def groups(run: RunLike, objective: ObjectiveLike = None) -> GroupBreakdown:
    """Find groups without signal: how many, against success rates, over steps, and at what cost."""
    rows = RunRows.read(_opened(run))
    chosen, notes = _chosen(rows, objective)
    return group_breakdown(rows, chosen, notes=notes)


def prompts(run: RunLike, objective: ObjectiveLike = None, *, top: int = 10) -> PromptBreakdown:
    """Find which prompts carry the gradient, by success rate and one by one."""
    rows = RunRows.read(_opened(run))
    chosen, notes = _chosen(rows, objective)
    return prompt_breakdown(rows, chosen, top=top, notes=notes)


def rewards(run: RunLike) -> RewardBreakdown:
    """Find what the reward is made of."""
    return reward_breakdown(RunRows.read(_opened(run)))


def staleness(run: RunLike, objective: ObjectiveLike = None) -> StalenessBreakdown:
    """Find how far behind the policy its data were."""
    rows = RunRows.read(_opened(run))
    chosen, notes = _chosen(rows, objective)
    return staleness_of(rows, chosen, notes=notes)


def clipping(run: RunLike, objective: ObjectiveLike = None) -> Clipping:
    """Find what the trust region removed, and what another one would have removed."""
    rows = RunRows.read(_opened(run))
    return clipping_of(rows, *_chosen(rows, objective))


def kl(run: RunLike, objective: ObjectiveLike = None) -> KLReport:
    """Estimate the KL to the reference and to the old policy, and what the run's own KL pulls on."""
    rows = RunRows.read(_opened(run))
    return kl_report(rows, *_chosen(rows, objective))


def mismatch(run: RunLike, objective: ObjectiveLike = None) -> Mismatch:
    """Compare the log-probs of the inference engine with the trainer's on the same tokens."""
    rows = RunRows.read(_opened(run))
    return mismatch_of(rows, *_chosen(rows, objective))


def weights(run: RunLike, out: str | Path, objective: ObjectiveLike = None) -> Written:
    """Write the effective weight of every token to a Parquet file; returns what it holds."""
    rows = RunRows.read(_opened(run))
    chosen, _ = chosen_objective(rows, _read(objective))
    return write_weights(rows, chosen, Path(out))


def _chosen(rows: RunRows, objective: ObjectiveLike) -> tuple[Objective | None, list[str]]:
    """The objective asked for, else the run's own, else none."""
    asked = _read(objective)
    return own_objective(rows) if asked is None else chosen_objective(rows, asked)


def _opened(run: RunLike) -> Run:
    return run if isinstance(run, Run) else open_run(run)


def _read(objective: ObjectiveLike) -> Objective | None:
    return read_objective(objective) if isinstance(objective, str) else objective

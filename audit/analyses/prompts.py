"""Which prompts carry the gradient: by success rate, by prompt, under the run's own objective and others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import msgspec
import numpy as np

from audit.analyses.fitted import fitted
from audit.analyses.left_out import files_left_out
from audit.analyses.observed_factor import ObjectiveFactor, observed_factors, prepared_factor
from audit.analyses.overflow import overflow_notes
from audit.analyses.prompt_list import PromptRow, heaviest
from audit.analyses.prompt_texts import PromptTexts, prompt_texts
from audit.analyses.prompt_weights import PromptShares, Weighed, shares_of, weigh_prompts
from audit.analyses.rate_bins import rate_bins
from audit.analyses.rate_profile import RateBin, Solved, rate_profile, solved
from audit.analyses.samples import Samples, samples_of
from audit.analyses.skipped import Skipped
from audit.analyses.skips import Skips
from audit.errors import AuditError, BadObjective, MissingColumn
from audit.facts.declared import declared_objective
from audit.facts.rows import RunRows
from audit.objectives.catalogue import CATALOGUE, CORE
from audit.objectives.objective import Objective

Objectives = list[tuple[Objective, Objective]]
"""Objectives to measure, each with the one that says what its advantages should be."""
T = TypeVar("T")


class Visits(msgspec.Struct, frozen=True):
    """How often prompts were visited: groups per prompt."""

    prompts: int
    least: int
    median: float
    most: int
    once: int
    """Prompts with a single group."""


class PromptBreakdown(msgspec.Struct, frozen=True):
    """The contract of ``rlaudit prompts --json``."""

    run: str
    objective: str | None
    groups: int
    group_size: int
    visits: Visits
    correct_is: str
    solved: Solved | None
    by_rate: list[RateBin]
    factors: list[ObjectiveFactor]
    """The run's own objective first."""
    shares: list[PromptShares]
    """The run's own objective first."""
    samples_share: PromptShares | None
    """The same of the samples: how unequal the shares are by the number of samples alone."""
    heaviest: list[PromptRow]
    """Under the run's own objective, or the one asked for; by samples where there is none."""
    texts: PromptTexts | None
    skipped: list[Skipped]
    notes: list[str]
    schema: str = "rlaudit.prompts.v1"


def prompt_breakdown(
    rows: RunRows, objective: Objective | None = None, *, top: int = 10, notes: Sequence[str] = ()
) -> PromptBreakdown:
    """Break a run down by prompt.

    Parameters
    ----------
    objective : Objective, optional
        Usually the run's own, on the advantages that the trainer used; those of the core catalogue are
        measured beside it.
    top : int
        How many of the heaviest prompts to list.
    notes : sequence of str
        What was assumed about the objective.

    Raises
    ------
    MissingColumn
        No row has a group_id, or none a prompt_id.
    """
    for column in ("group_id", "prompt_id"):
        if not rows.has(column):
            raise MissingColumn.needed_for(column, "a breakdown by prompt", rows.run.columns)
    notes = [*rows.run.notes, *files_left_out(rows.run), *overflow_notes(rows), *notes]
    skips = Skips(rows)
    if objective is not None:
        objective, taken = fitted(rows, objective)
        notes += taken
    samples = samples_of(rows)
    bins = rate_bins(samples)
    if samples.correct is None:
        skips.add(
            "success rates", f"column correct, or a reward with two values (it is {samples.correct_is})"
        )
    elif samples.num_groups and not (bins >= 0).any():
        skips.add("bins by success rate", "prompts that are visited twice or more")
    objectives = _objectives(rows, objective, skips)
    weighed = _weighed(rows, samples, objectives, skips)
    by_samples = Weighed("samples", samples.size.astype(float), _per_prompt(samples), 0)
    own = weighed[0] if objective is not None and weighed and weighed[0].objective == objective.name else None
    visits = _visits(samples)
    return PromptBreakdown(
        run=rows.run.run_id,
        objective=None if objective is None else objective.name,
        groups=samples.num_groups,
        group_size=samples.typical_size,
        visits=visits,
        correct_is=samples.correct_is,
        solved=solved(samples),
        by_rate=rate_profile(samples, bins, skips),
        factors=_factors(rows, samples, bins, objectives, skips),
        shares=[shares_of(samples, bins, each) for each in weighed],
        samples_share=shares_of(samples, bins, by_samples),
        heaviest=heaviest(rows, samples, own or by_samples, top),
        texts=None if skips.lacks("prompts of equal text", "prompt") else prompt_texts(rows),
        skipped=skips.found,
        notes=notes,
    )


def _objectives(rows: RunRows, own: Objective | None, skips: Skips) -> Objectives:
    found: Objectives = []
    if own is None:
        skips.add("the run's own objective", "an objective: name one with --objective")
    else:
        found.append((own, _stated(rows, own)))
    for name in CORE:
        if own is None or own.name != name:
            objective, _ = fitted(rows, CATALOGUE[name].objective)
            found.append((objective, objective))
    return found


def _stated(rows: RunRows, own: Objective) -> Objective:
    """The declared objective, where the run's own was put on the advantages that the trainer logged."""
    if own.baseline.kind != "logged":
        return own
    try:
        declared = declared_objective(rows.run)
    except AuditError:
        return own
    return own if declared is None else declared.objective


def _each(
    check: str, objectives: Objectives, make: Callable[[Objective, Objective], T], skips: Skips
) -> list[T]:
    """Measure something under every objective; skip together those that need the same."""
    found: list[T] = []
    lacking: dict[str, list[str]] = {}
    for objective, stated in objectives:
        try:
            found.append(make(objective, stated))
        except BadObjective:
            needs = "advantages that follow from the rewards of one group"
            lacking.setdefault(needs, []).append(objective.name)
        except MissingColumn as error:
            lacking.setdefault(error.column or str(error), []).append(objective.name)
        except AuditError as error:
            lacking.setdefault(str(error), []).append(objective.name)
    for needs, names in lacking.items():
        skips.add(f"{check} under {', '.join(names)}", needs)
    return found


def _weighed(rows: RunRows, samples: Samples, objectives: Objectives, skips: Skips) -> list[Weighed]:
    return _each("gradient by prompt", objectives, lambda own, _: weigh_prompts(rows, samples, own), skips)


def _factors(
    rows: RunRows, samples: Samples, bins: np.ndarray, objectives: Objectives, skips: Skips
) -> list[ObjectiveFactor]:
    values = len(np.unique(samples.reward))
    if values != 2:
        skips.add("prompt-weight factor", f"a reward with two values; this one has {values}")
        return []
    if not (bins >= 0).any():
        return []
    prepared = _each(
        "prompt-weight factor",
        objectives,
        lambda own, stated: prepared_factor(rows, samples, bins, own, stated),
        skips,
    )
    return observed_factors(samples, bins, prepared)


def _visits(samples: Samples) -> Visits:
    count = np.bincount(samples.cluster[samples.prompt >= 0])
    count = count[count > 0]
    if not len(count):
        return Visits(0, 0, 0.0, 0, 0)
    once = int((count == 1).sum())
    return Visits(len(count), int(count.min()), float(np.median(count)), int(count.max()), once)


def _per_prompt(samples: Samples) -> np.ndarray:
    return np.bincount(samples.cluster, weights=np.where(samples.prompt >= 0, samples.size, 0))

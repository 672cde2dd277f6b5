"""The rarer candidates, stage by stage: each is tried only where none before it fits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain

import numpy as np

from audit.analyses.infer_blocks import other_sets
from audit.analyses.infer_candidate import Candidate
from audit.analyses.infer_grid import rarer, scales, usual, with_solved_epsilon
from audit.analyses.infer_outside import baseline_of_components, outside, unshaped_baseline
from audit.analyses.infer_problem import Problem, fitted_if_near
from audit.analyses.infer_readings import against_first, batches, group_size, recounted
from audit.analyses.infer_shaping import overlong, per_component, reweighted, with_term
from audit.analyses.infer_terms import Term, components_of, kl_terms, length_terms
from audit.facts.rows import RunRows
from audit.objectives.advantages import objective_reward
from audit.objectives.objective import Baseline, Objective, Shaping


def stages(
    rows: RunRows, problem: Problem, readings: list[Problem]
) -> Iterator[Callable[[], list[Candidate]]]:
    """The rarer candidates, the likelier and cheaper ones first."""
    grid = usual()
    yield lambda: [c for reading in readings for c in fitted_if_near(reading, grid)]
    yield lambda: [c for reading in recounted(rows, problem) for c in fitted_if_near(reading, grid)]
    yield lambda: fitted_if_near(problem, with_solved_epsilon(problem, grid)[len(grid) :])
    yield lambda: fitted_if_near(problem, rarer(problem))
    first = [(Baseline(), scale) for scale in scales(("group_std",))]
    yield lambda: fitted_if_near(against_first(rows, problem), first)
    size, passes = group_size(rows, problem), batches(rows, problem)
    yield lambda: list(other_sets(problem, size, passes))
    if problem.shaping.per_component:
        return
    plain = _shaped(problem)
    yield lambda: list(_with_terms(plain, kl_terms(rows)))
    yield lambda: list(overlong(plain, rows.length))
    components = components_of(rows)
    yield lambda: list(reweighted(plain, components))
    yield lambda: list(per_component(plain, components))
    yield lambda: list(unshaped_baseline(plain, rows.length))
    yield lambda: list(baseline_of_components(plain, components))
    yield lambda: list(_with_terms(plain, length_terms(rows)))


def _with_terms(problem: Problem, terms: Iterator[Term]) -> Iterator[Candidate]:
    held = list(terms)
    yield from chain.from_iterable(with_term(problem, term) for term in held)
    yield from outside(problem, held)


def _shaped(problem: Problem) -> Problem:
    """The problem with its declared shaping already in the reward."""
    if problem.shaping == Shaping():
        return problem
    reward = np.asarray(objective_reward(problem.responses, Objective(shaping=problem.shaping)))
    shaped = problem.read(traits={}, reward=reward)
    return Problem(shaped.logged, shaped.responses, shaped.use, Shaping(), shaped.traits)

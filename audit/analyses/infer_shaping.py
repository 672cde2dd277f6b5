"""Candidates in which something was added to the reward, or the reward is another sum of its components."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from audit.analyses.infer_candidate import Candidate, candidate_of
from audit.analyses.infer_grid import scales, with_solved_epsilon
from audit.analyses.infer_linear import (
    ALONG,
    SHAPES,
    Added,
    Base,
    Over,
    Solution,
    least_squares,
    linear,
    mixed,
    snapped,
)
from audit.analyses.infer_problem import EXACT, Choice, Problem, fitted_if_near
from audit.analyses.infer_terms import Term, overlong_term, overlong_values
from audit.objectives.advantages import advantages_under
from audit.objectives.objective import Baseline, Objective, Scale

_SCANNED: tuple[tuple[Base, Over], ...]
_SCANNED = (
    ("group_mean", "group"),
    ("group_mean", None),
    ("leave_one_out", None),
    ("batch_mean", "batch"),
    ("batch_mean", None),
    ("none", None),
)
_COARSE = 10
PROMISING = 0.8
"""Share of the misfit that a penalty of the coarse grid may leave, if finer ones are tried; heuristic."""
NEGLIGIBLE = 1e-4
"""A weight below this share of the largest is none; heuristic."""


def with_term(problem: Problem, term: Term) -> Iterator[Candidate]:
    """Candidates whose reward has a multiple of ``term`` added before the baseline."""
    small = problem.sample
    values = term.values[problem.sampled]
    finite = np.isfinite(values) & np.isfinite(small.reward)
    for base, over in SHAPES:
        shape = linear(small, base, over, finite)
        if shape is None:
            continue
        found = Added(shape, small.reward[small.use & finite]).solved(values[small.use & finite])
        if found is not None and found.misfit < ALONG:
            yield from _evaluated(problem, term, float(found.coefficients[0]), choices_of(base, over))


def _evaluated(
    problem: Problem, term: Term, coefficient: float, choices: list[Choice]
) -> Iterator[Candidate]:
    for value in dict.fromkeys((term.value(coefficient), coefficient)):
        traits = term.traits(value)
        if traits is None:
            return
        use = problem.use & np.isfinite(term.values)
        reading = problem.read(use, traits=traits, reward=problem.reward + value * term.values)
        candidates = fitted_if_near(reading, with_solved_epsilon(reading, choices))
        yield from candidates
        if any(candidate.residual < EXACT for candidate in candidates):
            return


def choices_of(base: Base, over: Over) -> list[Choice]:
    """Baselines and scales that make advantages of a shape of :data:`~audit.analyses.infer_linear.SHAPES`."""
    bases: tuple[Base, ...] = (base, "leave_one_out") if (base, over) == ("group_mean", "group") else (base,)
    divided = [Scale()] if over is None else scales(("group_std",) if over == "group" else ("batch_std",))[1:]
    return [(Baseline(kind=kind), scale) for kind in bases for scale in divided]


def overlong(problem: Problem, length: np.ndarray) -> Iterator[Candidate]:
    """Candidates with a soft penalty of length: start and end by search, size by least squares."""
    small = problem.sample
    of_sample = length[problem.sampled]
    finite = np.isfinite(of_sample) & np.isfinite(small.reward)
    seen = of_sample[small.use & finite]
    if len(seen) == 0 or np.ptp(seen) < 2:
        return
    for base, over in _SCANNED:
        shape = linear(small, base, over, finite)
        if shape is None:
            continue
        start, full, found = _scan(Added(shape, small.reward[small.use & finite]), seen)
        if found is not None and found.misfit < ALONG:
            term = overlong_term(length, start, full)
            yield from _evaluated(problem, term, float(found.coefficients[0]), choices_of(base, over))


def _scan(added: Added, length: np.ndarray) -> tuple[int, int, Solution | None]:
    """Where a penalty starts and ends, in whole tokens: a coarse grid, then ever smaller steps."""
    low, high = int(length.min()), int(length.max())
    tried: dict[tuple[int, int], Solution | None] = {}

    def misfit(start: int, full: int) -> float:
        if not low <= start < full <= high:
            return np.inf
        if (start, full) not in tried:
            tried[start, full] = added.solved(overlong_values(length, start, full))
        found = tried[start, full]
        # A reward for length is no penalty.
        return np.inf if found is None or found.coefficients[0] <= 0.0 else found.misfit

    step = max(1, (high - low) // _COARSE)
    ends = sorted({*range(low, high, step), high})
    best = min(
        ((misfit(start, full), start, full) for start in ends for full in ends if start < full),
        default=(np.inf, low, high),
    )
    if best[0] > PROMISING * added.without:
        return low, high, None
    while step >= 1:
        _, start, full = best
        around = [(start + i * step, full + j * step) for i in (-1, 0, 1) for j in (-1, 0, 1)]
        nearer = min((misfit(*place), *place) for place in around)
        if nearer[0] < best[0]:
            best = nearer
        elif step == 1:
            break
        else:
            step = max(1, step // 2)
    return best[1], best[2], tried.get((best[1], best[2]))


def reweighted(problem: Problem, components: dict[str, np.ndarray]) -> Iterator[Candidate]:
    """Candidates whose reward is a weighted sum of the components, not the reward column."""
    if not components:
        return
    names = list(components)
    parts = np.column_stack([components[name] for name in names])
    small = problem.sample
    finite = np.isfinite(parts).all(axis=1)
    for base, over in SHAPES:
        shape = linear(small, base, over, finite[problem.sampled])
        if shape is None:
            continue
        chosen = small.use & finite[problem.sampled]
        found = mixed(shape, parts[problem.sampled][chosen])
        if found is None or found.misfit >= ALONG:
            continue
        for weights in _sizes(found.coefficients, known=over is None):
            traits = {"weights": dict(zip(names, weights, strict=True))}
            use = problem.use & finite
            reading = problem.read(use, traits=traits, reward=parts @ np.asarray(weights))
            yield from fitted_if_near(reading, with_solved_epsilon(reading, choices_of(base, over)))


def _sizes(weights: np.ndarray, *, known: bool) -> list[tuple[float, ...]]:
    """The weights in the few sizes that people give them; a shared divisor hides their common factor."""
    weights = np.where(np.abs(weights) < NEGLIGIBLE * np.abs(weights).max(), 0.0, weights)
    if known:
        return list(dict.fromkeys((tuple(map(snapped, weights)), tuple(map(float, weights)))))
    held = np.abs(weights[weights != 0])
    factors = (float(weights.sum()), float(held.max()), float(held.min()))
    made = [tuple(snapped(float(w)) for w in weights / factor) for factor in factors if factor > 0]
    return list(dict.fromkeys(made))


def per_component(problem: Problem, components: dict[str, np.ndarray]) -> Iterator[Candidate]:
    """Candidates in which each component has its own baseline and scale, then the weighted sum (GDPO)."""
    if len(components) < 2:
        return
    names = list(components)
    grid = [(Baseline(kind="group_mean"), scale) for scale in scales(("group_std",))[1:]]
    small = problem.sample
    in_sample = [components[name][problem.sampled] for name in names]
    for choice, columns in zip(grid, _apiece(small, in_sample, grid), strict=True):
        weights = least_squares(columns[small.use], small.logged[small.use])
        if weights is None:
            continue
        weights = np.array([snapped(float(w)) for w in weights])
        if small.residual(columns @ weights) >= ALONG:
            continue
        (whole,) = _apiece(problem, list(components.values()), [choice])
        traits = {"weights": dict(zip(names, weights.tolist(), strict=True)), "per_component": True}
        objective = Objective(baseline=choice[0], scale=choice[1])
        yield candidate_of(objective, problem.residual(whole @ weights), **(problem.traits | traits))


def _apiece(problem: Problem, parts: list[np.ndarray], grid: list[Choice]) -> Iterator[np.ndarray]:
    """Yield the advantages of each component under every choice, shape (R, K)."""
    readings = [problem.read(traits={}, reward=part).responses for part in parts]
    for made in zip(*(advantages_under(reading, Objective(), grid) for reading in readings), strict=True):
        yield np.column_stack([np.asarray(advantage) for advantage in made])

"""Candidates in which a value and its baseline are not of one reward, or the KL comes after the scale."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from audit.analyses.infer_candidate import (
    AFTER_SCALE,
    BASELINE_ONLY,
    OUTSIDE,
    Candidate,
    Penalty,
    candidate_of,
)
from audit.analyses.infer_grid import scales
from audit.analyses.infer_linear import ALONG, SPARE, snapped
from audit.analyses.infer_problem import EXACT, Choice, Problem
from audit.analyses.infer_terms import Term, overlong_values
from audit.objectives.advantages import advantages_under
from audit.objectives.objective import Baseline, Objective, Scale

_OWN: tuple[Choice, ...] = tuple((Baseline(kind="group_mean"), scale) for scale in scales())
_ALL: tuple[Choice, ...] = (
    *_OWN,
    *((Baseline(kind="leave_one_out"), scale) for scale in scales(("group_std",))),
    *((Baseline(kind="batch_mean"), scale) for scale in scales(("batch_std",))),
    (Baseline(kind="none"), Scale()),
)
FLAT = 1e-4
"""Relative spread among responses of one length up to which it is the length that is priced; heuristic."""


class Made:
    """The advantages of one choice without the term, and the divisor of each row (1 without; NaN unknown)."""

    def __init__(self, problem: Problem, choices: Iterable[Choice]) -> None:
        self.problem = problem
        self.choices = list(choices)
        plain = [(baseline, Scale()) for baseline in dict.fromkeys(b for b, _ in self.choices)]
        self._centred = dict(zip(plain, self._of(plain), strict=True))

    def _of(self, choices: list[Choice]) -> list[np.ndarray]:
        responses, shaping = self.problem.responses, self.problem.shaping
        made = advantages_under(responses, Objective(shaping=shaping), choices)
        return [np.asarray(advantage) for advantage in made]

    def __iter__(self) -> Iterator[tuple[Choice, np.ndarray, np.ndarray]]:
        """Yield the choice, its advantages and its divisors, float64 of shape (R,)."""
        for choice, made in zip(self.choices, self._of(self.choices), strict=True):
            centred = self._centred[choice[0], Scale()]
            one = choice[1].kind == "none"
            divisor = np.ones(len(made)) if one else np.where(made != 0, centred / made, np.nan)
            yield choice, made, divisor


def outside(problem: Problem, terms: Iterable[Term]) -> Iterator[Candidate]:
    """A multiple of a term beside the baseline: see ``Candidate.enters``."""
    small = problem.sample
    held = list(terms)
    for choice, made, divisor in Made(small, _ALL):
        for term in held:
            values = term.values[problem.sampled]
            for enters in (AFTER_SCALE, OUTSIDE, BASELINE_ONLY):
                if (enters == OUTSIDE) and choice[1].kind == "none":
                    continue
                design = _design(enters, values, small, divisor)
                coefficient = _solved(small, made, design)
                if coefficient is not None:
                    yield from _checked(problem, choice, term, enters, coefficient)


def _design(enters: str, values: np.ndarray, problem: Problem, divisor: np.ndarray) -> np.ndarray:
    if enters == AFTER_SCALE:
        return values
    if enters == OUTSIDE:
        return np.asarray(values / divisor)
    return np.asarray(-group_mean(problem, values) / divisor)


def group_mean(problem: Problem, values: np.ndarray) -> np.ndarray:
    """Mean over the rows of the group that are compared, of each row's group; shape (R,)."""
    known = problem.use & np.isfinite(values)
    count = np.bincount(problem.group, weights=known)
    total = np.bincount(problem.group, weights=np.where(known, values, 0.0))
    return np.asarray((total / np.maximum(count, 1.0))[problem.group])


def _solved(problem: Problem, made: np.ndarray, design: np.ndarray) -> float | None:
    use = problem.use & np.isfinite(design) & np.isfinite(made)
    power = float(np.sum(design[use] ** 2))
    if power == 0.0 or int(use.sum()) < SPARE:
        return None
    left = (problem.logged - made)[use]
    coefficient = float(np.sum(design[use] * left)) / power
    misfit = np.sqrt(np.mean((left - coefficient * design[use]) ** 2)) / problem.power
    return coefficient if misfit < ALONG else None


def _checked(
    problem: Problem, choice: Choice, term: Term, enters: str, coefficient: float
) -> Iterator[Candidate]:
    (_, made, divisor) = next(iter(Made(problem, [choice])))
    design = _design(enters, term.values, problem, divisor)
    for value in dict.fromkeys((term.value(coefficient), coefficient)):
        traits = term.traits(value)
        if traits is None:
            return
        candidate = _candidate(problem, choice, made + value * design, {**traits, "enters": enters})
        if candidate is not None:
            yield candidate
            if candidate.residual < EXACT:
                return


def _candidate(
    problem: Problem, choice: Choice, made: np.ndarray, traits: dict[str, Any]
) -> Candidate | None:
    use = problem.use & np.isfinite(made)
    if not use.any():
        return None
    residual = float(np.sqrt(np.mean((problem.logged - made)[use] ** 2))) / problem.power
    baseline, scale = choice
    objective = Objective(baseline=baseline, scale=scale)
    return candidate_of(objective, residual, **(problem.traits | traits))


def unshaped_baseline(problem: Problem, length: np.ndarray) -> Iterator[Candidate]:
    """A soft penalty of length that the group's mean and std do not see: what is left prices length."""
    for choice, made, divisor in Made(problem, _OWN):
        price = (problem.logged - made) * divisor
        use = problem.use & np.isfinite(price) & np.isfinite(length)
        penalty = _penalty(length[use], price[use])
        if penalty is not None:
            values = penalty.penalty * overlong_values(length, penalty.start, penalty.full)
            found = _candidate(
                problem, choice, made + values / divisor, {"overlong": penalty, "enters": OUTSIDE}
            )
            if found is not None:
                yield found


def _penalty(length: np.ndarray, price: np.ndarray) -> Penalty | None:
    """Where a price of each response starts to fall with its length, and where it ends; None: nowhere."""
    if len(length) < SPARE:
        return None
    lengths, code = np.unique(length, return_inverse=True)
    count = np.bincount(code)
    mean = np.bincount(code, weights=price) / count
    size = float(-mean.min())
    if size <= 0.0 or float(np.abs(price - mean[code]).max()) > FLAT * size:
        return None
    falling = mean < -FLAT * size
    whole = mean <= -size * (1 - FLAT)
    if falling.all() or not falling.any():
        return None
    # The line through the priced lengths says where it starts, whether or not that length was seen.
    priced = falling & (~whole | (np.cumsum(whole) == 1))
    full = lengths[whole][0]
    if int(priced.sum()) < 2:
        return Penalty(int(full) - 1, int(full), snapped(size))
    slope, offset = np.polyfit(lengths[priced], mean[priced], 1)
    return Penalty(round(-offset / slope), int(full), snapped(size)) if slope < 0 else None


def baseline_of_components(problem: Problem, components: dict[str, np.ndarray]) -> Iterator[Candidate]:
    """The reward column minus the mean of another sum of the components."""
    if not components:
        return
    names = list(components)
    small = problem.sample
    means = np.column_stack([group_mean(problem, components[name]) for name in names])
    for choice, _, divisor in Made(small, _OWN):
        use = small.use & np.isfinite(divisor)
        columns = means[problem.sampled][use]
        if int(use.sum()) < SPARE + len(names) or np.linalg.matrix_rank(columns) < len(names):
            continue
        target = small.reward[use] - small.logged[use] * divisor[use]
        weights = np.linalg.lstsq(columns, target, rcond=1e-9)[0]
        left = np.linalg.norm(target - columns @ weights)
        if left > ALONG * np.linalg.norm(small.logged[use] * divisor[use]):
            continue
        weights = np.array([snapped(float(w)) if abs(w) > FLAT else 0.0 for w in weights])
        (_, _, whole) = next(iter(Made(problem, [choice])))
        made = (problem.reward - means @ weights) / whole
        traits = {"weights": dict(zip(names, weights.tolist(), strict=True)), "enters": BASELINE_ONLY}
        found = _candidate(problem, choice, made, traits)
        if found is not None:
            yield found

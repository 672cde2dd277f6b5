"""Logged advantages, and the rewards and groups that should make them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any

import numpy as np

from audit.analyses.infer_candidate import Candidate, candidate_of
from audit.objectives.advantages import advantages_under
from audit.objectives.batch import Responses
from audit.objectives.objective import Baseline, Objective, Scale, Shaping

Choice = tuple[Baseline, Scale]
EXACT = 2e-5
"""A relative residual below this is float32 rounding of the trainer; heuristic."""
SAMPLE = 6_000
"""Responses, in whole batches, on which the rarer candidates are tried first."""
NEAR = 50.0
"""Multiple of :data:`EXACT` up to which a candidate that was tried on a sample is tried on all; heuristic."""
MANY = 20
"""Distinct advantages, at least, before their digits are counted; heuristic."""
ROUNDED = 2.0
"""Multiple of the expected RMS of a rounding up to which a misfit is put down to it; heuristic."""
_AS_IT_STANDS = Shaping()


@dataclass(frozen=True)
class Problem:
    """What has to be explained, and one way to read the rest of the log; arrays of shape (R,)."""

    logged: np.ndarray
    """float64; the logged advantage, NaN where there is none."""
    responses: Responses
    """Rewards, groups and batches as this reading has them."""
    use: np.ndarray
    """bool; rows whose advantage is compared."""
    shaping: Shaping = _AS_IT_STANDS
    """As declared."""
    traits: dict[str, Any] = field(default_factory=dict)
    """Fields of a :class:`Candidate` in which this reading is not the plain one."""

    @cached_property
    def power(self) -> float:
        """RMS of the logged advantages."""
        return float(np.sqrt(np.mean(self.logged[self.use] ** 2)))

    @cached_property
    def reward(self) -> np.ndarray:
        """Reward of this reading, before what is declared to shape it, float64, shape (R,)."""
        return np.asarray(self.responses.reward)

    @cached_property
    def group(self) -> np.ndarray:
        """int64, shape (R,)."""
        return np.asarray(self.responses.group)

    @cached_property
    def batch(self) -> np.ndarray:
        """int64, shape (R,)."""
        return np.asarray(self.responses.generation_batch)

    @cached_property
    def rounding(self) -> float:
        """Relative RMS of the rounding with which the advantages were stored; 0 where none is to be seen.

        bfloat16 keeps 8 bits; text often a few decimals. Only where many values occur: a few may be round
        by themselves.
        """
        values = np.unique(self.logged[self.use])
        if len(values) < MANY:
            return 0.0
        if not (values.astype(np.float32).view(np.uint32) & 0xFFFF).any():
            return float(ROUNDED * 2.0**-8 / np.sqrt(12))
        for decimals in range(1, 6):
            shifted = values * 10.0**decimals
            if np.all(np.abs(shifted - np.round(shifted)) < 1e-6 * np.maximum(np.abs(shifted), 1.0)):
                return float(ROUNDED * 10.0**-decimals / np.sqrt(12) / self.power)
        return 0.0

    def residual(self, made: np.ndarray) -> float:
        """RMS(logged - made) / RMS(logged)."""
        return float(np.sqrt(np.mean((self.logged - made)[self.use] ** 2))) / self.power

    def read(
        self, use: np.ndarray | None = None, *, traits: dict[str, Any], **columns: np.ndarray
    ) -> Problem:
        """Another reading: some columns of the responses exchanged; numpy arrays of shape (R,)."""
        changed = {name: like(self.responses.reward, values) for name, values in columns.items()}
        return replace(
            self,
            responses=replace(self.responses, **changed),
            use=self.use if use is None else use,
            traits=self.traits | traits,
        )

    @cached_property
    def sampled(self) -> np.ndarray:
        """Rows of whole batches, evenly spread over the run, about :data:`SAMPLE`; int64, ascending."""
        rows = len(self.logged)
        _, batch, sizes = np.unique(self.batch, return_inverse=True, return_counts=True)
        count = max(1, min(len(sizes), round(len(sizes) * SAMPLE / max(rows, 1))))
        chosen = np.zeros(len(sizes), dtype=bool)
        chosen[np.linspace(0, len(sizes) - 1, count).round().astype(int)] = True
        return np.flatnonzero(chosen[batch])

    @cached_property
    def sample(self) -> Problem:
        """The problem on :attr:`sampled`; itself where that is all."""
        return self if len(self.sampled) == len(self.logged) else self._take(self.sampled)

    def _take(self, at: np.ndarray) -> Problem:
        taken: dict[str, Any] = {}
        for one in fields(self.responses):
            value = getattr(self.responses, one.name)
            if isinstance(value, dict):
                taken[one.name] = {name: inner[at] for name, inner in value.items()}
            elif value is not None:
                taken[one.name] = value[at]
        responses = replace(self.responses, **taken)
        return replace(self, logged=self.logged[at], responses=responses, use=self.use[at])

    @property
    def informative(self) -> bool:
        """Whether any logged advantage is not 0."""
        return bool(self.use.any()) and self.power > 0.0


def like(reference: Any, values: np.ndarray) -> Any:
    """``values`` as the kind of array that ``reference`` is."""
    if isinstance(reference, np.ndarray):
        return values
    import torch

    return torch.from_numpy(np.ascontiguousarray(values))


@np.errstate(over="ignore", invalid="ignore", divide="ignore")
def fitted(problem: Problem, choices: Iterable[Choice]) -> list[Candidate]:
    """Every choice of baseline and scale with its residual; those that are not finite are left out."""
    choices = list(choices)
    made = advantages_under(problem.responses, Objective(shaping=problem.shaping), choices)
    found = []
    for (baseline, scale), advantage in zip(choices, made, strict=True):
        residual = problem.residual(np.asarray(advantage))
        if np.isfinite(residual):
            found.append(candidate_of(Objective(baseline=baseline, scale=scale), residual, **problem.traits))
    return found


def fitted_if_near(problem: Problem, choices: Iterable[Choice]) -> list[Candidate]:
    """The same where only a few candidates can fit: tried on a sample, and on all rows where near."""
    small = problem.sample
    if not small.informative:
        return []
    choices = list(choices)
    tried = fitted(small, choices)
    if small is problem or not tried:
        return tried
    least = min(candidate.residual for candidate in tried)
    bound = max(least, NEAR * EXACT)
    kept = {(c.baseline, c.k, c.scale, c.ddof, c.epsilon, c.whiten) for c in tried if c.residual <= bound}
    again = [choice for choice in choices if _key(choice) in kept]
    return fitted(problem, again)


def _key(choice: Choice) -> tuple[Any, ...]:
    baseline, scale = choice
    scaled = scale.kind != "none"
    return (
        baseline.kind,
        baseline.k,
        scale.kind,
        scale.ddof if scaled else None,
        scale.epsilon if scaled else None,
        scale.whiten,
    )

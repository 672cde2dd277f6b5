"""What the chapter's figures show, measured on the testbed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from audit.analyses.prompt_factor import prompt_factors
from audit.objectives.advantages import advantages
from audit.objectives.catalogue import named
from audit.objectives.objective import KL, Aggregation, LossKL, Objective, RewardKL, Scale
from audit.testbed import exact
from audit.testbed.language import Language
from audit.testbed.sampling import responses_of, sample
from audit.testbed.training import Setup, Trainer

Progress = Callable[[float], None]
"""Called with the share of the work that is done, from 0 to 1."""

_GRPO = named("grpo").replace(kl=KL())

LENGTH_RUNS: dict[str, Objective] = {
    "1/|o| per response": _GRPO,
    "constant, with std": _GRPO.replace(aggregation=Aggregation(kind="seq-mean-token-sum-norm")),
    "constant, no std (Dr. GRPO)": named("dr_grpo"),
}
"""What the third panel trains, without KL: only the normaliser differs, and then the scale too."""

BETA = 0.3
"""KL coefficient of the runs whose distance to pi* is measured, and of pi* itself; nats."""

TARGET_RUNS: dict[str, Objective] = {
    "RLOO, KL in the reward": named("rloo").replace(kl=KL(reward=RewardKL(coefficient=BETA))),
    "GRPO without std, k3 in the loss": named("grpo").replace(
        scale=Scale(), kl=KL(loss=LossKL(coefficient=BETA))
    ),
    "GRPO, k3 in the loss": named("grpo").replace(kl=KL(loss=LossKL(coefficient=BETA))),
}
"""What is trained towards pi*."""


class MeasuredFactor(NamedTuple):
    """Prompt-weight factor of one objective on one prompt, from sampled groups."""

    objective: str
    rate: float
    factor: float
    error: float
    """Standard error."""
    exact: float


@dataclass(frozen=True)
class Curves:
    """Values of several runs over training."""

    steps: list[int]
    """Optimiser steps at which the policy was measured, from 0; shape (M,)."""
    values: dict[str, Tensor]
    """Name of each quantity to its values, shape (M, K): one column per seed."""

    def last(self, name: str) -> Tensor:
        """Values at the end, shape (K,)."""
        return self.values[name][-1]


def measured_factors(
    language: Language, objectives: Sequence[Objective], group_size: int, groups: int, seed: int = 0
) -> list[MeasuredFactor]:
    """Weigh sampled groups of every prompt; see :func:`audit.analyses.prompt_factor.prompt_factors`.

    Parameters
    ----------
    groups : int
        Groups of the reference policy per prompt; the same ones for every objective.
    """
    generator = torch.Generator().manual_seed(seed)
    shape = (1, language.prompts, groups * group_size, language.budget)
    uniforms = torch.rand(shape, generator=generator, dtype=torch.float64)
    draw = sample(language, language.reference[None], uniforms)
    # The draws of a prompt are cut into groups, which is what independent groups are.
    group = draw.prompt * groups + draw.sample // group_size
    rate = torch.tensor(language.rates, dtype=torch.float64)
    found = []
    for objective in objectives:
        responses = replace(responses_of(language, draw, objective), group=group)
        pull = advantages(responses, objective.replace(kl=KL())) * (responses.reward - rate[draw.prompt])
        per_group = pull.reshape(language.prompts, groups, group_size).sum(-1)
        factor = per_group / (group_size * rate * (1.0 - rate))[:, None]
        expected = prompt_factors(objective, group_size, language.rates)
        for prompt, p in enumerate(language.rates):
            mine = factor[prompt]
            error = float(mine.std()) / groups**0.5
            found.append(
                MeasuredFactor(objective.name, p, float(mine.mean()), error, expected[prompt].factor)
            )
    return found


def length_curves(
    language: Language,
    objective: Objective,
    *,
    seeds: int = 10,
    steps: int = 120,
    every: int = 4,
    rate: float = 4.0,
    progress: Progress | None = None,
) -> Curves:
    """Exact success rate, and exact mean length of correct and of wrong answers, while training."""

    def measure(policy: Tensor) -> dict[str, Tensor]:
        correct, wrong = exact.lengths_by_correctness(language, policy)
        return {"success": exact.success(language, policy).mean(-1), "correct": correct, "wrong": wrong}

    setup = Setup(objective=objective, rate=rate)
    return _curves(Trainer(language, setup, range(seeds)), measure, steps, every, progress)


def target_curves(
    language: Language,
    objective: Objective,
    *,
    seeds: int = 10,
    steps: int = 400,
    every: int = 10,
    progress: Progress | None = None,
) -> Curves:
    """Exact KL(pi || pi*), nats, mean over prompts, while training."""
    best = exact.target(language, BETA)

    def measure(policy: Tensor) -> dict[str, Tensor]:
        return {"kl": exact.kl(language, policy, best).mean(-1)}

    setup = Setup(objective=objective, rate=8.0)
    return _curves(Trainer(language, setup, range(seeds)), measure, steps, every, progress)


def _curves(
    trainer: Trainer,
    measure: Callable[[Tensor], dict[str, Tensor]],
    batches: int,
    every: int,
    progress: Progress | None,
) -> Curves:
    steps, found = [0], [measure(trainer.policy)]
    for batch in range(1, batches + 1):
        for _ in trainer.batch():
            pass
        if batch % every == 0 or batch == batches:
            steps.append(batch * trainer.setup.epochs)
            found.append(measure(trainer.policy))
        if progress is not None:
            progress(batch / batches)
    return Curves(steps, {name: torch.stack([one[name] for one in found]) for name in found[0]})


def at_success(curves: Curves, name: str, success: float) -> Tensor:
    """Values of a quantity where each run first reaches a success rate, by linear interpolation; shape (K,).

    NaN for a run that does not reach it.
    """
    reached, values = curves.values["success"], curves.values[name]
    made = torch.full_like(values[0], torch.nan)
    for k in range(reached.shape[1]):
        above = (reached[:, k] >= success).nonzero().flatten().tolist()
        if above and above[0] > 0:
            after, before = above[0], above[0] - 1
            share = (success - reached[before, k]) / (reached[after, k] - reached[before, k])
            made[k] = values[before, k] + share * (values[after, k] - values[before, k])
    return made

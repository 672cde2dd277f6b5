"""Runs of the toy language, with an inference engine that can be set wrong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from audit.objectives.catalogue import named
from audit.objectives.objective import Objective
from audit.testbed.language import Language
from audit.testbed.recording import manifest_of
from audit.testbed.rows import rows_of
from audit.testbed.training import Setup, Trainer
from bench.explain.log import Log

RATES = tuple(np.round(np.linspace(0.04, 0.8, 20), 3).tolist())
LANGUAGE = Language(rates=RATES, letters=4, budget=5)
STEPS = 12
"""Batches of one group per prompt, two optimiser steps on each."""
LEARNING_RATE = 12.0
GRPO = named("grpo")
NOISE = 0.02
"""Error in the logits of every sampler, nats: no engine is exact."""


@dataclass(frozen=True)
class Engine:
    """What samples, and where training starts."""

    temperature: float = 1.0
    top_k: int = 0
    """0: all tokens."""
    lag: int = 0
    """Batches by which the sampler's weights are old."""
    moved_start: float = 0.0
    """Standard deviation of what is added to the logits of the first policy; the reference stays."""
    moved_reference: float = 0.0
    """The same for the reference; the first policy stays."""


@dataclass(frozen=True)
class Recipe:
    """One way of making runs; they differ in their seeds alone."""

    objective: Objective = GRPO
    language: Language = LANGUAGE
    engine: Engine = Engine()
    group_size: int = 8
    rate: float = LEARNING_RATE
    noise: float = NOISE
    steps: int = STEPS

    def __hash__(self) -> int:
        # An objective may hold a dict.
        return hash(repr(self))

    def __call__(self, seeds: Sequence[int]) -> list[Log]:
        """Train one run per seed, side by side."""
        return list(_trained(self, tuple(seeds)))


class EngineTrainer(Trainer):
    """A trainer whose sampler, start or reference is not what it should be."""

    def __init__(self, language: Language, setup: Setup, seeds: Sequence[int], engine: Engine) -> None:
        super().__init__(language, setup, seeds)
        self.engine = engine
        self._past: list[Tensor] = []
        if engine.moved_start:
            self.policy = _moved(language.reference, engine.moved_start).expand_as(self.policy).clone()
            self._logits = self.policy.clone()
        if engine.moved_reference:
            moved = _moved(language.reference, engine.moved_reference)
            self._reference = moved.expand_as(self._reference)

    def _sampler(self) -> Tensor:
        self._past.append(self.policy.clone())
        current, policy = self.policy, self._past[max(0, len(self._past) - 1 - self.engine.lag)]
        # The noise of the engine is drawn around whatever policy it holds.
        self.policy = (policy / self.engine.temperature).log_softmax(-1)
        made = super()._sampler()
        self.policy = current
        if self.engine.top_k:
            least = made.topk(self.engine.top_k, dim=-1).values[..., -1:]
            made = made.masked_fill(made < least, -torch.inf).log_softmax(-1)
        return made


@lru_cache(maxsize=4)
def _trained(recipe: Recipe, seeds: tuple[int, ...]) -> tuple[Log, ...]:
    setup = Setup(
        objective=recipe.objective, group_size=recipe.group_size, rate=recipe.rate, sampler_noise=recipe.noise
    )
    trainer = EngineTrainer(recipe.language, setup, seeds, recipe.engine)
    tables: list[list[pa.Table]] = [[] for _ in seeds]
    for _ in range(recipe.steps):
        for update in trainer.batch():
            for k, made in enumerate(tables):
                made.append(rows_of(trainer, update, k))
    return tuple(
        Log(_manifest(recipe, trainer, seed), _as_sampled(recipe, pa.concat_tables(made)))
        for seed, made in zip(seeds, tables, strict=True)
    )


def _manifest(recipe: Recipe, trainer: Trainer, seed: int) -> dict[str, object]:
    made = manifest_of(trainer, recipe.steps, seed, f"run{seed}")
    engine = recipe.engine
    made["sampling"] = {**made["sampling"], "temperature": engine.temperature, "top_k": engine.top_k}
    # Nobody declares an engine's error, its lag, or that a model is not the one its name says.
    made["config"].pop("sampler_noise")
    made.pop("data")
    return made


def _as_sampled(recipe: Recipe, rows: pa.Table) -> pa.Table:
    """Versions of a sampler that lags."""
    lag = 2 * recipe.engine.lag
    version = np.maximum(np.asarray(rows["sampler_version"]) - lag, 0)
    at = rows.schema.get_field_index("sampler_version")
    return rows.set_column(at, "sampler_version", pa.array(version))


def _moved(policy: Tensor, spread: float) -> Tensor:
    generator = torch.Generator().manual_seed(20)
    noise = torch.randn(policy.shape, generator=generator, dtype=policy.dtype)
    return (policy + spread * noise).log_softmax(-1)


def other(recipe: Recipe, **changes: object) -> Recipe:
    """A recipe with some settings exchanged."""
    return replace(recipe, **changes)  # type: ignore[arg-type]

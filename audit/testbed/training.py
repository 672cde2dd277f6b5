"""Training the tabular policy: sample, weigh with the code that audits logs, step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from audit.errors import AuditError
from audit.objectives.batch import Responses, Tokens
from audit.objectives.objective import Objective
from audit.objectives.weights import TokenWeights, effective_weights
from audit.testbed.exact import entropy, values
from audit.testbed.language import Language
from audit.testbed.sampling import Draw, responses_of, sample
from audit.testbed.trainable import needs_critic, prepared, terminal_reward

LARGEST_GROUP = 4096
"""Larger groups are refused: no trainer uses them, and they would fill the memory."""


@dataclass(frozen=True, kw_only=True)
class Setup:
    """One way of training; every run of it differs in its seed alone."""

    objective: Objective
    group_size: int = 8
    """G; a batch holds one group of every prompt."""
    epochs: int = 2
    """Optimiser steps on each batch; from the second on, ratios differ from 1."""
    rate: float = 5.0
    """Learning rate of plain gradient ascent on the logits."""
    micro_batches: int = 2
    """Accumulation slices of an optimiser step; they matter only to normalisers that span one."""
    sampler_noise: float = 0.0
    """Standard deviation of the error in the sampler's logits: an inference engine with other numerics."""

    def problems(self, language: Language) -> list[str]:
        """What is out of range, one sentence each."""
        checks = {
            f"--group-size must be from 1 to {LARGEST_GROUP}": 1 <= self.group_size <= LARGEST_GROUP,
            "--epochs must be at least 1": self.epochs >= 1,
            "--lr must be a positive number": 0.0 < self.rate < float("inf"),
            f"--micro-batches must be from 1 to {language.prompts}, the prompts of a batch": 1
            <= self.micro_batches
            <= language.prompts,
            "--sampler-noise must be a number, 0 or more": 0.0 <= self.sampler_noise < float("inf"),
        }
        return [problem for problem, fine in checks.items() if not fine]


@dataclass(frozen=True)
class Update:
    """One optimiser step of all runs, as it was made; tensors as in :mod:`audit.objectives.batch`."""

    step: int
    """Batch, from 1."""
    epoch: int
    number: int
    """Optimiser step, from 1."""
    draw: Draw
    responses: Responses
    tokens: Tokens
    weights: TokenWeights


class Trainer:
    """K runs of one setup side by side, which differ in their seeds.

    A run is the same, bit by bit, however many others are trained beside it.

    Parameters
    ----------
    seeds : sequence of int
        One run each.

    Raises
    ------
    BadObjective
        The objective cannot be trained here.
    AuditError
        A setting is out of range.
    """

    def __init__(self, language: Language, setup: Setup, seeds: Sequence[int]) -> None:
        problems = setup.problems(language)
        if problems:
            msg = f"{'; '.join(problems)}."
            raise AuditError(msg)
        self.language = language
        self.setup = setup
        self.seeds = tuple(seeds)
        self.objective = prepared(setup.objective, language, setup.group_size)
        self._generators = [torch.Generator().manual_seed(seed) for seed in self.seeds]
        self._reference = language.reference.expand(len(self.seeds), -1, -1, -1)
        self._logits = self._reference.clone()
        self.policy = self._reference.clone()
        """Log-probs, shape (K, P, S, V)."""
        self._terminal = terminal_reward(language, self.objective)
        self._step = 0

    def batch(self) -> Iterator[Update]:
        """Sample a batch and make its optimiser steps; yields each one after it was made.

        Raises
        ------
        AuditError
            The weights are no longer finite.
        """
        self._step += 1
        language, setup, old = self.language, self.setup, self.policy.clone()
        sampler = self._sampler()
        greedy = self.objective.baseline.kind == "greedy"
        draw = sample(language, sampler, self._uniforms(), greedy=greedy)
        responses = responses_of(language, draw, self.objective, micro_batches=setup.micro_batches)
        fixed = {
            "logp_old": as_logged(draw.at_tokens(old)),
            "logp_ref": as_logged(draw.at_tokens(self._reference)),
            "logp_sampler": as_logged(draw.at_tokens(sampler)),
            **self._critic(draw, old),
        }
        rows = self.policy.view(-1, language.tokens)
        for epoch in range(setup.epochs):
            tokens = Tokens(
                layout=draw.layout,
                mask=torch.ones_like(draw.token, dtype=torch.bool),
                logp_theta=as_logged(draw.at_tokens(self.policy)),
                entropy=as_logged(entropy(rows[draw.row])),
                **fixed,
            )
            weights = effective_weights(tokens, responses, self.objective)
            self._ascend(draw, weights.weight)
            number = (self._step - 1) * setup.epochs + epoch + 1
            yield Update(self._step, epoch, number, draw, responses, tokens, weights)

    def _ascend(self, draw: Draw, weight: Tensor) -> None:
        """Logits += rate · sum of w d log pi(token) / d logits."""
        if not bool(weight.isfinite().all()):
            msg = (
                f"training with {self.objective.name} diverged at step {self._step}: weights are no longer "
                "finite. Take a smaller --lr."
            )
            raise AuditError(msg)
        size = self.language.tokens
        logits, policy = self._logits.view(-1, size), self.policy.view(-1, size)
        step = -weight[:, None] * policy[draw.row].exp()
        step[torch.arange(len(weight)), draw.token] += weight
        logits.index_add_(0, draw.row, self.setup.rate * step)
        moved = torch.unique(draw.row)
        policy[moved] = logits[moved].log_softmax(-1)

    def _uniforms(self) -> Tensor:
        shape = (self.language.prompts, self.setup.group_size, self.language.budget)
        drawn = [torch.rand(shape, generator=g, dtype=torch.float64) for g in self._generators]
        return torch.stack(drawn)

    def _sampler(self) -> Tensor:
        """Log-probs of the policy that samples: the current one, or one with other numerics."""
        if self.setup.sampler_noise == 0.0:
            return self.policy.clone()
        shape = self.policy.shape[1:]
        errors = [torch.randn(shape, generator=g, dtype=torch.float64) for g in self._generators]
        return (self.policy + self.setup.sampler_noise * torch.stack(errors)).log_softmax(-1)

    def _critic(self, draw: Draw, old: Tensor) -> dict[str, Tensor]:
        """Exact values of the old policy, and for logged advantages Q - V."""
        if not needs_critic(self.objective):
            return {}
        kl = self.objective.kl.reward
        beta = 0.0 if kl is None else kl.coefficient
        q, v = values(self.language, old, self._terminal, beta=beta, reference=self._reference)
        made = {"value": as_logged(draw.at_tokens(v))}
        if self.objective.baseline.kind == "logged":
            made["token_advantage"] = as_logged(draw.at_tokens(q - v[..., None]))
        return made


def as_logged(values_: Tensor) -> Tensor:
    """Round to float32, as a log holds them: what is recomputed from one is then what was used."""
    return values_.to(torch.float32).to(torch.float64)

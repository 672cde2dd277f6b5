"""What a case is, and how ours is compared with theirs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from audit.objectives.coefficients import token_advantage
from audit.objectives.objective import Objective
from audit.objectives.weights import batch_coefficients, token_weights
from conformance.batch import Batch, Kind, random_batch
from conformance.double import in_float64

PLAIN = Kind()
SEEDS = (0, 1, 2)
BOUNDS = {"float64": 1e-6, "float32": 1e-5}
ROUNDING = 1e-15
"""Of the largest value of a batch: what is no more than this on both sides is 0."""


@dataclass(frozen=True)
class Answer:
    """What a framework gave: advantages, shape (R,) or (R, T), and weights -dL/dlogp, shape (R, T)."""

    advantage: Tensor
    weight: Tensor


@dataclass(frozen=True)
class Case:
    """One choice of one framework, and the objective that should equal it."""

    framework: str
    version: str
    name: str
    objective: Objective
    theirs: Callable[[Batch], Answer]
    verified: Literal["own code", "autograd"] = "own code"
    precision: Literal["float64", "float32"] = "float64"
    """What the framework computes in, where it leaves no choice."""
    kind: Kind = PLAIN
    config: Mapping[str, Any] | None = None
    """The framework's own config of this choice, for the dialect."""
    trainer: str | None = None

    @property
    def id(self) -> str:
        """Unique name of the case."""
        return f"{self.framework} {self.version}: {self.name}"


@dataclass(frozen=True)
class Errors:
    """Largest differences between ours and theirs; relative, over all seeds."""

    advantage: float = 0.0
    """Over the largest advantage of the response."""
    scaled: float = 0.0
    """Weight of a token, over the largest weight of its response."""
    token: float = 0.0
    """Weight of a token, over itself."""

    def worse(self, other: Errors) -> Errors:
        """The larger of each."""
        return Errors(
            max(self.advantage, other.advantage), max(self.scaled, other.scaled), max(self.token, other.token)
        )

    @property
    def worst(self) -> float:
        """The largest of all."""
        return max(self.advantage, self.scaled, self.token)


def measure(case: Case, objective: Objective | None = None) -> Errors:
    """Compare on one batch per seed."""
    found = Errors()
    for seed in SEEDS:
        batch = random_batch(case.kind, seed)
        with in_float64():
            theirs = case.theirs(batch)
        mine = ours(batch, case.objective if objective is None else objective)
        found = found.worse(compare(mine, theirs, batch.mask))
    return found


def ours(batch: Batch, objective: Objective) -> Answer:
    """Advantage and weight of every token, padded to (R, T)."""
    greedy = objective.baseline.kind == "greedy"
    tokens, responses = batch.tokens(greedy=greedy), batch.responses(greedy=greedy)
    coefficients = batch_coefficients(tokens, responses, objective)
    advantage = token_advantage(tokens, coefficients, objective)
    weight = token_weights(tokens, coefficients, objective).weight

    def padded(values: Tensor) -> Tensor:
        full = torch.zeros(batch.rows, batch.width, dtype=torch.float64)
        full[batch.inside] = values[: int(batch.length.sum())]
        return full

    return Answer(padded(advantage), padded(weight))


def compare(mine: Answer, theirs: Answer, mask: Tensor) -> Errors:
    """Relative differences at loss tokens; weights must vanish everywhere else."""
    assert mask.any()
    assert theirs.weight[mask].ne(0).any()
    assert theirs.weight[~mask].eq(0).all()
    assert mine.weight[~mask].eq(0).all()
    advantage = theirs.advantage.double()
    if advantage.dim() == 1:
        advantage = advantage[:, None].expand(mask.shape)
    apart, _ = _relative(mine.advantage, advantage, mask)
    scaled, token = _relative(mine.weight, theirs.weight.double(), mask)
    return Errors(apart, scaled, token)


def _relative(mine: Tensor, theirs: Tensor, mask: Tensor) -> tuple[float, float]:
    """Largest difference over the row's largest value, and over the value itself; inf where only one is 0."""
    gap = torch.where(mask, (mine - theirs).abs(), 0.0)
    nothing = torch.maximum(mine.abs(), theirs.abs()) <= ROUNDING * theirs[mask].abs().max()
    gap = gap.masked_fill(nothing, 0.0)
    largest = torch.where(mask, theirs.abs(), 0.0).amax(1, keepdim=True).expand_as(gap)
    moved = gap > 0
    scaled = (gap / largest)[moved]
    token = (gap / theirs.abs())[moved]
    return tuple(float(v.max()) if v.numel() else 0.0 for v in (scaled, token))


def gradient(batch: Batch, loss: Callable[[Tensor], Tensor]) -> Tensor:
    """-dL/dlogp of every token, shape (R, T), by autograd in float64."""
    theta = batch.theta.clone().requires_grad_(True)
    loss(theta).backward()
    assert theta.grad is not None
    return -theta.grad

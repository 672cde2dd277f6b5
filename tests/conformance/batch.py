"""One random batch, twice: padded rectangles as trainers hold it, and ragged tensors as ours."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from audit.objectives.batch import Responses, Tokens
from audit.ragged import Layout

UNEVEN = (4, 6, 3, 5)
EVEN = (4, 4, 4, 4)


@dataclass(frozen=True)
class Kind:
    """What a batch must look like for a case."""

    groups: tuple[int, ...] = UNEVEN
    width: int = 11
    holes: bool = True
    """Masked tokens inside responses, as in multi-turn rollouts."""
    empty_row: bool = False
    """One response without loss tokens."""
    dead_group: bool = True
    """One group whose rewards are all equal."""
    drift: float = 0.3
    """Standard deviation of log pi_theta - log pi_old per token, nats."""
    far_ref: float = 0.7
    """The same of log pi_old - log pi_ref."""
    mismatch: float = 0.2
    """The same of log pi_old - log pi_sampler."""
    rewards: str = "real"
    """``real``: drawn from a few binary fractions; ``binary``: 0 or 1."""
    micro_batches: int = 1
    """Accumulation slices of whole groups."""
    updates: int = 1
    """Optimiser steps of as many slices each; all belong to one generation batch."""
    missing: bool = False
    """Some reward components are NaN, and one response has none at all."""


@dataclass(frozen=True)
class Batch:
    """R responses of width T; tensors of shape (R, T) or (R,), float64 unless said otherwise."""

    kind: Kind
    group: Tensor
    length: Tensor
    mask: Tensor
    """bool, shape (R, T); True where the token takes loss."""
    reward: Tensor
    components: dict[str, Tensor]
    greedy_reward: Tensor
    """Reward of the greedy response of each group, shape (groups,)."""
    micro: Tensor
    truncated: Tensor
    """bool; the longest responses ended by length."""
    theta: Tensor
    old: Tensor
    ref: Tensor
    sampler: Tensor
    value: Tensor
    entropy: Tensor

    @property
    def rows(self) -> int:
        """Number of responses R."""
        return int(self.reward.shape[0])

    @property
    def width(self) -> int:
        """Padded width T: the longest response."""
        return int(self.mask.shape[1])

    @property
    def groups(self) -> int:
        """Number of prompts."""
        return len(self.kind.groups)

    @property
    def weight(self) -> Tensor:
        """The mask as numbers, float64, shape (R, T)."""
        return self.mask.double()

    @property
    def inside(self) -> Tensor:
        """bool, shape (R, T); True where the response has a token."""
        return torch.arange(self.width) < self.length[:, None]

    @property
    def last(self) -> Tensor:
        """Index of the last loss token of each response, int64, shape (R,)."""
        at = torch.arange(self.width).expand_as(self.mask)
        return torch.where(self.mask, at, -1).amax(1).clamp(min=0)

    def token_rewards(self, reward: Tensor | None = None) -> Tensor:
        """Reward of each response at its last loss token, as verl and SkyRL pass it; shape (R, T)."""
        paid = torch.zeros_like(self.theta)
        paid[torch.arange(self.rows), self.last] = self.reward if reward is None else reward
        return paid

    def slices(self) -> list[Tensor]:
        """Rows of each micro-batch, int64."""
        return [(self.micro == m).nonzero().flatten() for m in range(self.kind.micro_batches)]

    def tokens(self, *, greedy: bool = False) -> Tokens:
        """Ragged tokens; with ``greedy``, of one more response per group, one token each."""
        inside = self.inside
        more = self.groups if greedy else 0

        def flat(values: Tensor) -> Tensor:
            return torch.cat([values[inside], torch.zeros(more, dtype=values.dtype)])

        lengths = torch.cat([self.length, torch.ones(more, dtype=torch.int64)])
        return Tokens(
            layout=Layout.from_lengths(lengths),
            mask=torch.cat([self.mask[inside], torch.ones(more, dtype=torch.bool)]),
            logp_theta=flat(self.theta),
            logp_old=flat(self.old),
            logp_ref=flat(self.ref),
            logp_sampler=flat(self.sampler),
            value=flat(self.value),
            entropy=flat(self.entropy),
        )

    def responses(self, *, greedy: bool = False) -> Responses:
        """What ours knows of each response; with ``greedy``, one more row per group."""
        more = self.groups if greedy else 0

        def join(values: Tensor, added: Tensor) -> Tensor:
            return torch.cat([values, added[:more]])

        ones = torch.ones(self.groups, dtype=torch.int64)
        rows = self.rows + more
        return Responses(
            reward=join(self.reward, self.greedy_reward),
            length=join(self.length, ones),
            loss_tokens=join(self.mask.sum(1), ones),
            group=join(self.group, torch.arange(self.groups)),
            update=join(self.micro * self.kind.updates // self.kind.micro_batches, ones - 1),
            generation_batch=torch.zeros(rows, dtype=torch.int64),
            micro_batch=join(self.micro, ones - 1),
            greedy=torch.arange(rows) >= self.rows if greedy else None,
            truncated=torch.cat([self.truncated, torch.zeros(more, dtype=torch.bool)]),
            components={name: join(v, self.greedy_reward) for name, v in self.components.items()},
        )


def random_batch(kind: Kind, seed: int) -> Batch:
    """Draw a batch; continuous log-probs, so that no ratio lies exactly on a bound."""
    rng = np.random.default_rng(seed)
    sizes = np.array(kind.groups)
    rows = int(sizes.sum())
    group = torch.from_numpy(np.repeat(np.arange(len(sizes)), sizes))
    lengths = rng.integers(1, kind.width + 1, rows)
    lengths[rng.integers(rows)] = kind.width
    mask = np.arange(kind.width) < lengths[:, None]
    if kind.holes:
        holes = rng.random(mask.shape) < 0.15
        holes[np.arange(rows), lengths - 1] = False
        mask &= ~holes
    if kind.empty_row:
        mask[int(sizes[0]) + 1] = False
    choices = np.array([0.0, 1.0] if kind.rewards == "binary" else [0.0, 1.0, 0.25, -0.5, 0.75, 2.0])
    reward = rng.choice(choices, rows)
    starts = np.cumsum(sizes) - sizes
    for start, size in zip(starts, sizes, strict=True):
        if size > 1:  # alive, with one best response
            reward[start] = reward[start + 1 : start + size].max() + (1.0 if kind.rewards == "real" else 0.0)
            if kind.rewards == "binary":
                reward[start], reward[start + 1] = 1.0, 0.0
    if kind.dead_group:
        reward[starts[-1] :] = 0.5 if kind.rewards == "real" else 1.0
    shape = (rows, kind.width)

    def drawn(spread: float) -> Tensor:
        return torch.from_numpy(rng.normal(0.0, spread, shape)) if spread else torch.zeros(shape).double()

    def below(values: Tensor) -> Tensor:
        return values.clamp(max=-1e-3)

    old = torch.from_numpy(-0.05 - rng.exponential(1.0, shape))
    theta = below(old + drawn(kind.drift))
    slices = np.repeat(np.arange(len(sizes)) * kind.micro_batches // len(sizes), sizes)
    components = {
        "right": torch.from_numpy(rng.choice([0.0, 1.0], rows)),
        "form": torch.from_numpy(rng.choice([0.0, 0.25, 0.5, 1.0], rows)),
    }
    if kind.missing:
        for name, values in components.items():
            values[torch.from_numpy(rng.random(rows) < 0.2)] = torch.nan
            values[int(sizes[0])] = torch.nan
            components[name] = values
    return Batch(
        kind=kind,
        group=group,
        length=torch.from_numpy(lengths),
        mask=torch.from_numpy(mask),
        reward=torch.from_numpy(reward),
        components=components,
        greedy_reward=torch.from_numpy(rng.choice(choices, len(sizes))),
        micro=torch.from_numpy(slices),
        truncated=torch.from_numpy(lengths >= kind.width),
        theta=theta,
        old=old,
        ref=below(old + drawn(kind.far_ref)),
        sampler=below(old + drawn(kind.mismatch)),
        value=drawn(0.5),
        entropy=torch.from_numpy(rng.exponential(1.0, shape)),
    )

"""Plain-Python batches for the tests of weights: rows of floats, and their translation into tensors."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import torch

from audit.objectives.batch import Responses, Tokens
from audit.ragged import Layout


@dataclass(frozen=True)
class Row:
    """One response: scalars, and one float per token."""

    reward: float
    mask: tuple[bool, ...] = ()
    theta: tuple[float, ...] = ()
    old: tuple[float, ...] = ()
    ref: tuple[float, ...] = ()
    sampler: tuple[float, ...] = ()
    group: int = 0
    update: int = 0
    generation: int = 0
    micro: int = 0
    greedy: bool = False
    truncated: bool = False
    sample_weight: float = 1.0
    advantage: float = 0.0
    token_advantage: tuple[float, ...] = ()
    components: dict[str, float] = field(default_factory=dict)
    value: tuple[float, ...] = ()
    entropy: tuple[float, ...] = ()

    @property
    def scorable(self) -> bool:
        return not math.isnan(self.reward)


def responses_of(rows: list[Row]) -> Responses:
    def ints(values) -> torch.Tensor:
        return torch.tensor(list(values), dtype=torch.int64)

    def bools(values) -> torch.Tensor:
        return torch.tensor(list(values), dtype=torch.bool)

    def floats(values) -> torch.Tensor:
        return torch.tensor(list(values), dtype=torch.float64)

    return Responses(
        reward=floats(r.reward for r in rows),
        length=ints(len(r.mask) for r in rows),
        loss_tokens=ints(sum(r.mask) for r in rows),
        group=ints(r.group for r in rows),
        update=ints(r.update for r in rows),
        generation_batch=ints(r.generation for r in rows),
        micro_batch=ints(r.micro for r in rows),
        greedy=bools(r.greedy for r in rows),
        truncated=bools(r.truncated for r in rows),
        sample_weight=floats(r.sample_weight for r in rows),
        advantage=floats(r.advantage for r in rows),
        components={
            name: floats(r.components[name] for r in rows) for name in (rows[0].components if rows else ())
        },
    )


def tokens_of(rows: list[Row], *, token_advantage: bool = False) -> Tokens:
    def flat(name: str) -> torch.Tensor:
        return torch.tensor([v for r in rows for v in getattr(r, name)], dtype=torch.float64)

    return Tokens(
        layout=Layout.from_lengths(torch.tensor([len(r.mask) for r in rows], dtype=torch.int64)),
        mask=torch.tensor([m for r in rows for m in r.mask], dtype=torch.bool),
        logp_theta=flat("theta"),
        logp_old=flat("old"),
        logp_ref=flat("ref"),
        logp_sampler=flat("sampler"),
        token_advantage=flat("token_advantage") if token_advantage else None,
        value=flat("value") if rows and all(len(r.value) == len(r.mask) for r in rows) else None,
        entropy=flat("entropy") if rows and all(len(r.entropy) == len(r.mask) for r in rows) else None,
    )

"""A log as trainers hold it: one update at a time, in padded micro-batches of responses of similar length."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from torch import Tensor

LISTS = ("logp_theta", "logp_old", "logp_ref", "logp_sampler")
SCALARS = ("group_id", "reward", "advantage", "length")
MOST_PADDED = 65_536
"""Places of a micro-batch, padding included. Half a million take longer: they do not fit the cache."""


@dataclass(frozen=True)
class MicroBatch:
    """Responses of one update, padded on the right; float32, shape (R, T)."""

    rows: Tensor
    """Places in the update, int64, shape (R,)."""
    mask: Tensor
    """1 where the response has a token."""
    theta: Tensor
    old: Tensor
    ref: Tensor
    sampler: Tensor


@dataclass(frozen=True)
class Update:
    """All responses of one optimiser step; tensors of shape (R,), float32."""

    reward: Tensor
    advantage: Tensor
    group: Tensor
    """Dense code of the group, int64."""
    tokens: int
    slices: list[MicroBatch]

    @cached_property
    def baseline(self) -> Tensor:
        """Reward of the first response of each group, in place of the greedy one, which is not logged."""
        _, first = np.unique(self.group.numpy(), return_index=True)
        return self.reward[torch.from_numpy(first)][self.group]

    @cached_property
    def outcome(self) -> SimpleNamespace:
        """What estimators of outcome advantages read: the reward in one place per response."""
        return SimpleNamespace(
            reward=self.reward,
            group=self.group,
            weight=torch.ones(len(self.reward), 1),
            token_rewards=lambda: self.reward[:, None],
            kind=SimpleNamespace(groups=(int(torch.bincount(self.group)[0]),)),
            old=None,
            ref=None,
        )


def updates(run: Path, *, by_length: bool) -> Iterator[Update]:
    """Read a run that has one file a step; token ids are decoded as an audit that names tokens needs them."""
    for path in sorted(run.rglob("rollouts/*.parquet")):
        yield to_update(pq.read_table(path, columns=["token_ids", *SCALARS, *LISTS]), by_length=by_length)


def to_update(table: pa.Table, *, by_length: bool) -> Update:
    """Pad the responses of one update, in the order of the log as trainers do, or sorted by length."""
    lengths = table["length"].to_numpy()
    order = np.argsort(lengths, kind="stable") if by_length else np.arange(len(lengths))
    starts = _starts(lengths[order])
    table = table.combine_chunks()
    lists = {name: table[name].combine_chunks() for name in LISTS}
    slices = []
    for start, stop in zip(starts, [*starts[1:], len(order)], strict=True):
        rows = order[start:stop]
        mask = np.arange(lengths[rows].max()) < lengths[rows][:, None]
        padded = [_padded(lists[name].take(pa.array(rows)), mask) for name in LISTS]
        slices.append(MicroBatch(torch.from_numpy(rows), torch.from_numpy(mask).float(), *padded))
    _, group = np.unique(table["group_id"].to_numpy(zero_copy_only=False).astype(str), return_inverse=True)
    return Update(
        reward=torch.tensor(table["reward"].to_numpy(), dtype=torch.float32),
        advantage=torch.tensor(table["advantage"].to_numpy(), dtype=torch.float32),
        group=torch.from_numpy(group),
        tokens=int(lengths.sum()),
        slices=slices,
    )


def _starts(lengths: np.ndarray) -> list[int]:
    """Where micro-batches start, so that rows times width stays within the bound."""
    starts, width = [0], 0
    for place, length in enumerate(lengths):
        width = max(width, int(length))
        if place > starts[-1] and (place - starts[-1] + 1) * width > MOST_PADDED:
            starts.append(place)
            width = int(length)
    return starts


def _padded(column: pa.ListArray, mask: np.ndarray) -> Tensor:
    full = np.zeros(mask.shape, dtype=np.float32)
    full[mask] = column.flatten().to_numpy(zero_copy_only=False)
    return torch.from_numpy(full)

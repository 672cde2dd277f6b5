"""Causes that are injected into a written log: an edit maps one log to another."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch

from bench.explain.case import Make
from bench.explain.log import Log

Edit = Callable[[Log, np.random.Generator], Log]
LOGPS = ("logp_theta", "logp_old", "logp_ref", "logp_sampler")


def edited(make: Make, *edits: Edit) -> Make:
    """Make runs and edit each."""

    def made(seeds: Sequence[int]) -> list[Log]:
        logs = make(seeds)
        for edit in edits:
            draws = (np.random.default_rng(1000 + seed) for seed in seeds)
            logs = [edit(log, rng) for log, rng in zip(logs, draws, strict=True)]
        return logs

    return made


def other_rewards(share: float) -> Edit:
    """Another verdict (1 - reward) on a share of the texts, the same ones in every run; advantages follow."""

    def edit(log: Log, _: np.random.Generator) -> Log:
        texts = zip(log.rows["prompt_id"].to_pylist(), log.rows["response"].to_pylist(), strict=True)
        changed = np.array([_uniform(f"{prompt}|{text}") < share for prompt, text in texts])
        reward = np.where(changed, 1.0 - log.column("reward"), log.column("reward"))
        log = log.with_rows(reward=pa.array(reward))
        if "correct" in log.rows.column_names:
            log = log.with_rows(correct=pa.array(reward > 0.5))
        return _advantages_again(log, reward, _codes(log, "step", "group_id"))

    return edit


def shuffled_advantages(log: Log, rng: np.random.Generator) -> Log:
    """Advantages made over blocks of rows that were shuffled first, as a reshape after a sort does."""
    step, reward = log.column("step"), log.column("reward")
    block = np.zeros(len(step), dtype=np.int64)
    size = int(log.manifest.get("group_size") or 8)
    order_of: dict[int, np.ndarray] = {}
    epochs = log.column("epoch")
    batch = _first_step(log)
    for at in np.unique(batch):
        for epoch in np.unique(epochs):
            rows = np.flatnonzero((batch == at) & (epochs == epoch))
            # Every pass over a batch has the same advantages: rows are put in one order first.
            rows = rows[np.lexsort([log.column("sample_index")[rows], _codes(log, "group_id")[rows]])]
            order = order_of.setdefault(int(at), rng.permutation(len(rows)))
            block[rows[order]] = int(at) * 10_000 + np.arange(len(rows)) // size
    return _advantages_again(log, reward, np.unique(block, return_inverse=True)[1])


def shifted_ids(log: Log, _: np.random.Generator) -> Log:
    """Group ids that are off by half a group: each holds two prompts; advantages stay as they were."""
    names = log.rows["group_id"].to_pylist()
    groups = sorted(set(names), key=lambda name: (len(name), name))
    after = dict(zip(groups, [*groups[1:], groups[0]], strict=True))
    half = int(log.manifest.get("group_size") or 8) // 2
    late = log.column("sample_index") >= half
    return log.with_rows(
        group_id=pa.array([after[n] if moved else n for n, moved in zip(names, late, strict=True)])
    )


def fewer_groups(share: float, keep: Callable[[Log], np.ndarray]) -> Edit:
    """Leave out a share of the groups of some prompts (a mask over rows)."""

    def edit(log: Log, rng: np.random.Generator) -> Log:
        group = _codes(log, "group_id")
        gone = rng.random(int(group.max()) + 1) < share
        return log.take(~(gone[group] & keep(log)))

    return edit


def easy(log: Log) -> np.ndarray:
    """Rows of the easier half of the prompts, by name: the same prompts in every run."""
    rate = np.array(
        [float(name.split("-")[0].removeprefix("p")) for name in log.rows["prompt_id"].to_pylist()]
    )
    return np.asarray(rate > np.median(np.unique(rate)))


def half_of_prompts(log: Log) -> np.ndarray:
    """Rows of half of the prompts, chosen by a hash of their ids."""
    return np.array([_uniform(name) < 0.5 for name in log.rows["prompt_id"].to_pylist()])


def missing_steps(every: int) -> Edit:
    """Every n-th batch was not logged."""

    def edit(log: Log, _: np.random.Generator) -> Log:
        batch = np.unique(_first_step(log), return_inverse=True)[1]
        return log.take(batch % every != every - 1)

    return edit


def duplicated(share: float) -> Edit:
    """A share of the rows is in the log twice."""

    def edit(log: Log, rng: np.random.Generator) -> Log:
        rows = np.arange(log.rows.num_rows)
        return log.take(np.sort(np.concatenate([rows, rows[rng.random(len(rows)) < share]])))

    return edit


def masked(which: str) -> Edit:
    """The loss mask leaves out the ``first`` or the ``last`` token of every response."""

    def edit(log: Log, _: np.random.Generator) -> Log:
        lengths = log.column("length")
        mask = [
            [True] * int(n) if n < 2 else [i != (0 if which == "first" else n - 1) for i in range(n)]
            for n in lengths
        ]
        return log.with_rows(loss_mask=pa.array(mask, pa.list_(pa.bool_())))

    return edit


def all_tokens(log: Log, _: np.random.Generator) -> Log:
    """A loss mask that is written out, and true for every token."""
    mask = [[True] * int(n) for n in log.column("length")]
    return log.with_rows(loss_mask=pa.array(mask, pa.list_(pa.bool_())))


def rounded(log: Log, _: np.random.Generator) -> Log:
    """Log-probs on the grid of bfloat16."""

    def round_(values: np.ndarray) -> np.ndarray:
        return torch.tensor(values).to(torch.bfloat16).to(torch.float32).numpy()

    return _map_tokens(log, round_, LOGPS)


def sampler_noise(spread: float) -> Edit:
    """A sampler whose log-probs differ from the trainer's old ones by independent noise, nats."""

    def edit(log: Log, rng: np.random.Generator) -> Log:
        noisy = log.with_rows(logp_sampler=log.rows["logp_old"])

        def add(values: np.ndarray) -> np.ndarray:
            return np.minimum(values + rng.normal(0.0, spread, len(values)), 0.0).astype(np.float32)

        return _map_tokens(noisy, add, ("logp_sampler",))

    return edit


def merged_tokens(first: int, second: int, merged: int) -> Edit:
    """The same texts in other tokens: every pair ``first second`` became one token, as likely as both."""

    def edit(log: Log, _: np.random.Generator) -> Log:
        ids = log.rows["token_ids"].to_pylist()
        starts = [_starts(row, first, second) for row in ids]
        lists = {"token_ids": [_merge(row, at, merged) for row, at in zip(ids, starts, strict=True)]}
        for name in LOGPS:
            if name in log.rows.column_names:
                lists[name] = [
                    np.add.reduceat(row, at).tolist()
                    for row, at in zip(log.rows[name].to_pylist(), starts, strict=True)
                ]
        columns = {name: pa.array(values, log.rows[name].type) for name, values in lists.items()}
        lengths = pa.array([len(row) for row in lists["token_ids"]], pa.int32())
        return log.without("entropy", "loss_mask").with_rows(**columns, length=lengths)

    return edit


def _starts(ids: list[int], first: int, second: int) -> list[int]:
    found, at = [], 0
    while at < len(ids):
        found.append(at)
        at += 2 if ids[at : at + 2] == [first, second] else 1
    return found


def _merge(ids: list[int], starts: list[int], merged: int) -> list[int]:
    ends = [*starts[1:], len(ids)]
    return [merged if end - at == 2 else ids[at] for at, end in zip(starts, ends, strict=True)]


def _map_tokens(log: Log, change: Callable[[np.ndarray], np.ndarray], names: Sequence[str]) -> Log:
    columns = {}
    for name in names:
        if name in log.rows.column_names:
            lists = log.rows[name].combine_chunks()
            values = change(lists.flatten().to_numpy(zero_copy_only=False))
            columns[name] = pa.ListArray.from_arrays(_offsets(lists), pa.array(values, pa.float32()))
    return log.with_rows(**columns)


def _offsets(lists: pa.ListArray) -> pa.Array:
    lengths = pc.list_value_length(lists).to_numpy(zero_copy_only=False)
    return pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())


def _first_step(log: Log) -> np.ndarray:
    """First step in which each row's group was trained on: the batch, whatever the inner pass."""
    group, step = _codes(log, "group_id"), log.column("step")
    first = np.full(int(group.max()) + 1, np.iinfo(np.int64).max)
    np.minimum.at(first, group, step)
    return np.asarray(first[group])


def _codes(log: Log, *names: str) -> np.ndarray:
    keys = list(zip(*(log.rows[name].to_pylist() for name in names), strict=True))
    of = {key: code for code, key in enumerate(dict.fromkeys(keys))}
    return np.array([of[key] for key in keys])


def _advantages_again(log: Log, reward: np.ndarray, group: np.ndarray) -> Log:
    """GRPO's advantages (reward - mean) / std over the given groups, with the ddof and epsilon of the log."""
    ddof, epsilon = _std_of(log)
    count = np.bincount(group).astype(float)
    mean = np.bincount(group, weights=reward) / count
    centred = reward - mean[group]
    freedom = np.maximum(count - ddof, 1.0)
    std = np.sqrt(np.bincount(group, weights=centred**2) / freedom)
    divisor = np.where(std[group] > 0.0, std[group] + epsilon, 1.0)
    advantage = np.where(std[group] > 1e-12, centred / divisor, 0.0)
    return log.with_rows(advantage=pa.array(advantage))


def _std_of(log: Log) -> tuple[int, float]:
    objective = log.manifest.get("objective")
    if isinstance(objective, dict):
        return int(objective["scale"]["ddof"]), float(objective["scale"]["epsilon"])
    return 1, 1e-4  # TRL's


def _uniform(text: str) -> float:
    """A number in [0, 1) that belongs to a text."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest()) / 2**64

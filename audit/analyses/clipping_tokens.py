"""Which token ids the trust region removed, against how often each occurs among the loss tokens.

Two passes over the token ids, in memory that does not grow with the log: the first counts every id, and where
the ids that were removed stood; the second counts the ids that are shown, by prompt, for their intervals.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec
import numpy as np

from audit.analyses.bucket_shares import buckets
from audit.analyses.clipping_counts import Counts
from audit.analyses.clipping_removed import read_ids, removed_ids
from audit.facts.rows import RunRows
from audit.objectives.objective import Objective
from audit.stats import Estimate, bootstrap, estimate

SHOWN = 20
"""Ids that are listed, those removed most often."""
LARGEST_ID = 2**22
"""Ids from here on are counted together: no vocabulary is that large."""


class TokenId(NamedTuple):
    """One id."""

    id: int
    zeroed: int
    tokens: int
    share: Estimate
    """Removed occurrences over loss tokens with this id."""
    lift: Estimate
    """That share over the share of all loss tokens."""


class TokenIds(NamedTuple):
    """The ids that the trust region removed."""

    ids: list[TokenId]
    distinct: int
    """Ids that were removed at least once."""
    odd: int
    """Loss tokens whose id is negative or beyond :data:`LARGEST_ID`; left out."""


def zeroed_ids(rows: RunRows, objective: Objective, clipped: Counts) -> TokenIds:
    """Count the ids of removed tokens; a run without token ids has none.

    Parameters
    ----------
    clipped : Counts
        Of the same objective: only responses that lost tokens are looked at again.
    """
    total, odd = np.zeros(0, dtype=np.int64), 0
    found: list[tuple[np.ndarray, np.ndarray]] = [(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))]
    for ids, row, gone in removed_ids(rows, objective, clipped):
        known = (ids >= 0) & (ids < LARGEST_ID)
        odd += int((~known).sum())
        total = _added(total, np.bincount(ids[known]))
        here = gone & known
        key = rows.prompt[row[here]] * LARGEST_ID + ids[here]
        found.append(np.unique(key, return_counts=True))
    keys, counts = (np.concatenate(arrays) for arrays in zip(*found, strict=True))
    removed = np.bincount(keys % LARGEST_ID, weights=counts, minlength=len(total)).astype(np.int64)
    order = np.argsort(-removed, kind="stable")[:SHOWN]
    shown = order[removed[order] > 0]
    if not len(shown):
        return TokenIds([], 0, odd)
    numerator, all_zeroed = _per_prompt(rows, keys, counts, shown)
    base, all_tokens, n = _base(rows, clipped.use, shown)
    names = [str(id_) for id_ in shown]
    shares = [bucket.value for bucket in buckets(names, numerator, base, n)]
    lifts = bootstrap(np.column_stack([numerator, base, all_zeroed, all_tokens]), _lifts)
    prompts = (base > 0).sum(axis=0)
    return TokenIds(
        [
            TokenId(
                id=int(id_),
                zeroed=int(removed[id_]),
                tokens=int(total[id_]),
                share=shares[k],
                lift=_known(estimate(lifts, int(n[k]), k), int(prompts[k])),
            )
            for k, id_ in enumerate(shown)
        ],
        int((removed > 0).sum()),
        odd,
    )


def _known(lift: Estimate, prompts: int) -> Estimate:
    """No interval from one prompt: resampling would only ever repeat it."""
    return lift if prompts > 1 else msgspec.structs.replace(lift, low=None, high=None)


def _per_prompt(
    rows: RunRows, keys: np.ndarray, counts: np.ndarray, shown: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Removed tokens with each shown id, shape (P, K), and all removed tokens, shape (P,), of each prompt."""
    prompts = int(rows.prompt.max(initial=-1)) + 1
    prompt, slot = keys // LARGEST_ID, np.full(LARGEST_ID, -1)
    slot[shown] = np.arange(len(shown))
    place = slot[keys % LARGEST_ID]
    made = np.zeros((prompts, len(shown)))
    np.add.at(made, (prompt[place >= 0], place[place >= 0]), counts[place >= 0])
    return made, np.bincount(prompt, weights=counts, minlength=prompts)


def _base(rows: RunRows, use: np.ndarray, shown: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Loss tokens of each prompt, with each shown id (P, K) and in all (P,); responses with the id (K,)."""
    prompts, k = int(rows.prompt.max(initial=-1)) + 1, len(shown)
    slot = np.full(LARGEST_ID, -1, dtype=np.int32)
    slot[shown] = np.arange(k)
    base, everything, n = np.zeros((prompts, k)), np.zeros(prompts), np.zeros(k, dtype=np.int64)
    columns = ["token_ids", *(["loss_mask"] if rows.has("loss_mask") else [])]
    first = 0
    for batch in rows.run.batches(columns, max_tokens=4_000_000):
        held, ids, mask, row = read_ids(batch, columns, use[first : first + batch.num_rows])
        loss = mask & held[row] & (ids >= 0) & (ids < LARGEST_ID)
        row, place = row[loss], slot[ids[loss]]
        prompt = rows.prompt[first + row]
        everything += np.bincount(prompt, minlength=prompts)
        cell = (prompt * k + place)[place >= 0]
        base += np.bincount(cell, minlength=prompts * k).reshape(prompts, k)
        n += np.bincount(np.unique((row * k + place)[place >= 0]) % k, minlength=k)
        first += batch.num_rows
    return base, everything, n


def _added(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    if len(a) < len(b):
        a, b = b, a
    made = a.astype(np.int64)
    made[: len(b)] += b
    return made


def _lifts(totals: np.ndarray) -> np.ndarray:
    k = (totals.shape[-1] - 2) // 2
    with np.errstate(divide="ignore", invalid="ignore"):
        share = totals[..., :k] / totals[..., k : 2 * k]
        return np.asarray(share / (totals[..., -2:-1] / totals[..., -1:]))

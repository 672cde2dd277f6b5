"""Where responses end: tokens after the first end-of-sequence id, and "truncated" rows that ended by one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from audit.analyses.checks.look import Entry, Look, problem
from audit.analyses.checks.token_batch import TokenBatch
from audit.schema import Problem

LARGEST = 1 << 20
"""Ids beyond this are no vocabulary."""
OFTEN, TERMINAL = 0.05, 0.5
"""An end id ends 5 % of rows, and half of its occurrences (a run of it is one) end a row; heuristics."""
ONCE = 0.8
"""Share of rows that hold the end id exactly once, where all run on to one length; heuristic."""
SHORT = 4.0
"""Mean length below which any id ends rows by chance; heuristic."""


def end_ids(tokens: TokenBatch, declared: Sequence[int]) -> np.ndarray:
    """Ids that end responses: those of run.json, else those that occur at ends and hardly elsewhere."""
    if declared:
        return np.array(sorted(declared), dtype=np.int64)
    ids, row = tokens.ids, tokens.row
    some = tokens.lengths > 0
    if not some.any() or tokens.lengths[some].mean() < SHORT or ids.max() >= LARGEST or ids.min() < 0:
        return np.zeros(0, dtype=np.int64)
    body = np.ones(len(ids), dtype=bool)
    body[1:][(ids[1:] == ids[:-1]) & (row[1:] == row[:-1])] = False
    size = int(ids.max()) + 1
    ends = np.bincount(tokens.last[some], minlength=size)
    found = np.zeros(size, dtype=bool)
    # A row that runs on after its end shows the id in its body: rows that stopped speak for themselves.
    for rows in (some, some & tokens.reason("stop", "eos", "end", "completed", "finished")):
        own = np.bincount(tokens.last[rows], minlength=size)
        anywhere = np.bincount(ids[np.repeat(rows, tokens.lengths) & body], minlength=size)
        found |= (own >= TERMINAL * anywhere) & (own > 0)
    found &= ends >= max(3, OFTEN * some.sum())
    padded = _padding(tokens, ids, some, size)
    if padded.any():
        return np.flatnonzero(padded)
    return np.flatnonzero(found) if found.any() else _once_a_row(tokens, ids, some)


def _padding(tokens: TokenBatch, ids: np.ndarray, some: np.ndarray, size: int) -> np.ndarray:
    """The id before a trailing run of another id that ends most rows, all of one length: padded rows."""
    found = np.zeros(size, dtype=bool)
    if len(np.unique(tokens.lengths[some])) > 1:
        return found
    last = tokens.last
    pad = int(np.bincount(last[some]).argmax())
    other = ids != pad
    place = np.where(other, np.arange(len(ids)), -1)
    end = np.maximum.reduceat(place, tokens.starts[:-1][some]) if some.any() else place
    runs = tokens.starts[1:][some] - 1 - end
    cut = (runs >= 2) & (last[some] == pad) & (end >= 0)
    if cut.sum() < 3 or cut.mean() < 0.2:
        return found
    before = np.bincount(ids[end[cut]], minlength=size)
    if before.max() >= TERMINAL * cut.sum():
        found[int(before.argmax())] = True
    else:
        found[pad] = True
    return found


def _once_a_row(tokens: TokenBatch, ids: np.ndarray, some: np.ndarray) -> np.ndarray:
    """Where every row has one length and none ends by itself: the id that nearly every row holds once."""
    if len(np.unique(tokens.lengths[some])) > 1 or some.sum() < 8:
        return np.zeros(0, dtype=np.int64)
    size = int(ids.max()) + 1
    pair, count = np.unique(tokens.row * size + ids, return_counts=True)
    once = np.bincount(pair[count == 1] % size, minlength=size)
    found = np.flatnonzero(once >= ONCE * some.sum())
    if not len(found):
        return found
    # Marks of a template come once too; the end comes last.
    place = (np.arange(len(ids)) - tokens.starts[tokens.row]).astype(float)
    return found[[int(np.argmax([np.median(place[ids == one]) for one in found]))]]


def declared_ends(*places: Any) -> list[int]:
    """``eos_token_id`` and ``stop_token_ids`` of run.json."""
    found: list[int] = []
    for place in places:
        for key in ("eos_token_id", "eos_token_ids", "stop_token_ids"):
            value = place.get(key) if isinstance(place, dict) else None
            for one in value if isinstance(value, list) else [value]:
                if type(one) is int and one >= 0:
                    found.append(one)
    return found


class Ends:
    """Measures by the end ids, which the first batch settles."""

    def __init__(self, declared: Sequence[int]) -> None:
        self._declared = declared
        self._ids: np.ndarray | None = None

    def __call__(self, tokens: TokenBatch) -> dict[str, np.ndarray]:
        """Tokens after the first end id of each row; whether the row ends with one."""
        if not tokens.has("token_ids"):
            return {}
        if self._ids is None:
            self._ids = end_ids(tokens, self._declared)
        rows = tokens.num_rows
        loss = ~tokens.masked if tokens.masked is not None else np.ones(len(tokens.ids), dtype=bool)
        is_end = np.isin(tokens.ids, self._ids) & loss
        place = np.where(is_end, np.arange(len(is_end)), len(is_end))
        some = tokens.lengths > 0
        first = np.full(rows, len(is_end))
        if some.any():
            first[some] = np.minimum.reduceat(place, tokens.starts[:-1][some])
        after = loss & (np.arange(len(loss)) > first[tokens.row])
        return {
            "after_end": tokens.count(after),
            "loss_ids": tokens.count(loss),
            "ended_by": np.where(np.isin(tokens.last, self._ids), tokens.last, -1),
        }


def _find(look: Look) -> Iterator[Problem]:
    if not look.tokens.has("after_end"):
        return
    yield from _after(look)
    yield from _not_truncated(look)


def _after(look: Look) -> Iterator[Problem]:
    after, loss = look.tokens["after_end"], look.tokens["loss_ids"]
    use = look.first
    marked = use & (after > 0)
    share = after[use].sum() / max(loss[use].sum(), 1)
    if not marked.any() or share < 0.005:
        return
    lengths = look.rows.length[use]
    same = len(np.unique(lengths)) == 1
    yield problem(
        look,
        "mask.after-end",
        marked,
        f"{share:.0%} of mask tokens follow the first end-of-sequence id of their response, in "
        f"{int(marked.sum())} of {int(use.sum())} rows"
        + (f"; mask length = {lengths[0]:.0f} in all rows." if same and len(lengths) else "."),
        "error" if share > 0.2 else "warning",
        column="loss_mask",
        certainty="likely",
        hint="Mask what follows the first end id: padding takes loss here.",
    )


def _not_truncated(look: Look) -> Iterator[Problem]:
    cut = look.rows.truncated
    if cut is None:
        return
    use = look.first & cut
    ended = use & (look.tokens["ended_by"] >= 0)
    if ended.sum() < 3 or ended.sum() < 0.05 * use.sum():
        return
    ids, count = np.unique(look.tokens["ended_by"][ended], return_counts=True)
    order = np.argsort(-count)
    named = ", ".join(f"{ids[k]} ({count[k] / use.sum():.0%})" for k in order[:3])
    yield problem(
        look,
        "finish.truncated-but-ended",
        ended,
        f"{ended.sum() / use.sum():.0%} of the {int(use.sum())} 'truncated' rows end with an id that ends "
        f"responses: {named}. They stopped by themselves.",
        column="finish_reason",
        certainty="likely",
        hint="A model may have several end ids: compare with all of them.",
    )


CHECK = Entry(
    "what follows the end of a response",
    {
        "mask.after-end": "loss tokens after the first end-of-sequence id",
        "finish.truncated-but-ended": "rows that count as truncated and end with an end id",
    },
    _find,
    ("token_ids",),
)

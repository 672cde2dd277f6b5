"""Text that repeats itself: n-grams of token ids that occur again within a response."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from audit.analyses.checks.look import Entry, Group, Look, problem
from audit.analyses.checks.token_batch import TokenBatch
from audit.schema import Problem

N = 4
MUCH = 0.6
"""Share of a row's 4-grams that occurred before in it, from which it repeats itself; heuristic."""
LEAST = 16
"""Shorter rows are not judged: a few tokens repeat by chance; heuristic."""
_ROW_BITS = 22
_MIX = np.uint64(0x9E3779B97F4A7C15)


def _measure(tokens: TokenBatch) -> dict[str, np.ndarray]:
    if not tokens.has("token_ids"):
        return {}
    return {"repeated": repeated(tokens.ids, tokens.row, tokens.lengths)}


def repeated(ids: np.ndarray, row: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Share of the n-grams of each row that occurred before in it, float64, shape (R,); NaN for short rows.

    N-grams are compared by a hash of 42 bits within a row: two different ones of a row of 10^4 tokens are
    taken for equal with probability 1e-5.
    """
    rows = len(lengths)
    made = np.full(rows, np.nan)
    count = np.maximum(lengths - N + 1, 0)
    if len(ids) < N or not count.any():
        return made
    grams = len(ids) - N + 1
    whole = row[:grams] == row[N - 1 :]
    key = np.zeros(grams, dtype=np.uint64)
    for k in range(N):
        key = (key ^ ids[k : k + grams].astype(np.uint64)) * _MIX
        key ^= key >> np.uint64(29)
    key *= _MIX
    key >>= np.uint64(_ROW_BITS)
    key |= row[:grams].astype(np.uint64) << np.uint64(64 - _ROW_BITS)
    key = np.sort(key[whole])
    new = np.ones(len(key), dtype=bool)
    new[1:] = key[1:] != key[:-1]
    distinct = np.bincount((key[new] >> np.uint64(64 - _ROW_BITS)).astype(np.int64), minlength=rows)
    some = lengths >= LEAST
    made[some] = 1.0 - distinct[some] / count[some]
    return made


def _find(look: Look) -> Iterator[Problem]:
    if not look.tokens.has("repeated"):
        return
    share = look.tokens["repeated"]
    known = look.first & np.isfinite(share)
    loops = known & (share > MUCH)
    if loops.sum() < 3:
        return
    start, level, before = _since(look, known, loops)
    if level < 0.05:
        return
    late = loops & (look.rows.step >= start)
    among = known & (look.rows.step >= start)
    said = "" if before is None else f"From step {start}: "
    said += f"{level:.0%} of {int(among.sum())} rows of {LEAST} tokens or more repeat > {MUCH:.0%} of their "
    said += f"{N}-grams"
    said += f" ({before:.1%} before)" if before is not None else ""
    yield problem(
        look,
        "text.repeats",
        late,
        said + _reward(look, late) + ".",
        "warning" if before is not None or level < 0.9 else "info",
        column="token_ids",
        hint="Look at such rows: text that loops until the limit, or that a reward likes.",
    )


def _since(look: Look, known: np.ndarray, loops: np.ndarray) -> tuple[int, float, float | None]:
    """The step from which the share of such rows differs most from before, and both shares."""
    steps, at = np.unique(look.rows.step[known], return_inverse=True)
    rows = np.bincount(at, minlength=len(steps)).cumsum()
    found = np.bincount(at, weights=loops[known], minlength=len(steps)).cumsum()
    whole = float(found[-1] / rows[-1])
    if len(steps) < 3:
        return int(steps[0]), whole, None
    before, after = found[:-1] / rows[:-1], (found[-1] - found[:-1]) / (rows[-1] - rows[:-1])
    # Two shares, by how far the split raises the likelihood of the rows.
    gain = (
        _entropy(whole) * rows[-1] - _entropy(before) * rows[:-1] - _entropy(after) * (rows[-1] - rows[:-1])
    )
    best = int(np.argmax(np.where(after > before, gain, -1.0)))
    if after[best] < 2 * before[best] + 0.02 or gain[best] < 4.0:
        return int(steps[0]), whole, None
    return int(steps[best + 1]), float(after[best]), float(before[best])


def _entropy(p: np.ndarray | float) -> np.ndarray:
    q = np.clip(np.asarray(p, dtype=np.float64), 1e-12, 1 - 1e-12)
    return np.asarray(-q * np.log(q) - (1 - q) * np.log1p(-q))


def _reward(look: Look, rows: np.ndarray) -> str:
    use = look.grouped & np.isfinite(look.reward)
    groups = Group(look.rows.sample, use)
    if not (rows & use).any():
        return ""
    above = np.zeros(len(use))
    above[use] = look.reward[use] - groups.mean(look.reward)[groups.of]
    mean = float(above[rows & use].mean())
    return f"; their reward is {abs(mean):.2g} {'above' if mean >= 0 else 'below'} the mean of their groups"


CHECK = Entry(
    "text that repeats itself",
    {"text.repeats": "rows whose 4-grams mostly repeat, since which step, and their reward"},
    _find,
    ("token_ids",),
    _measure,
)

"""Row by row: the first step at which two runs that began alike differ, and in what."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from audit.analyses.pair import Pair
from audit.facts.rows import RunRows, dense
from audit.facts.tokenpass.text_key import NO_TEXT

ROUNDING = 1e-5
"""Relative difference up to which two numbers are one (float32, summed over a response); heuristic."""
LEAST = 4
"""Responses that the runs must share before they count as one batch; heuristic."""
SHARED = 0.5
"""Share of the rows of their first common step that must be the same responses; heuristic."""
LOGPS = (
    ("logp_sampler", "sampler"),
    ("logp_old", "old policy"),
    ("logp_ref", "reference"),
    ("logp_theta", "policy"),
)
"""The policy's come last: what the advantages changed shows in them."""


def first_difference(pair: Pair) -> str | None:
    """Say where two logs of the same samples part; None where they never held the same ones.

    Rows are paired by step, inner pass, prompt, and place in the group; a key that a log holds twice is left
    out. For runs that should be one, such as a synchronous trainer and an asynchronous one without lag.
    """
    at = _paired(pair)
    if at is None:
        return None
    a, b = at
    step, text = pair.a.step[a], _texts(pair, a, b)
    first = step == step.min()
    if text is None or (first & text).sum() < max(LEAST, SHARED * first.sum()):
        return None
    found = _other_prompts(pair, a)
    for name, differs in _columns(pair, a, b, text):
        for at_step in np.unique(step[differs])[:1].tolist():
            found.setdefault(at_step, (name, int((differs & (step == at_step)).sum())))
    steps = np.unique(step)
    if not found:
        return (
            f"Row by row the two logs are equal over their {len(steps)} common steps ({len(step):,} rows): "
            "no difference in any column that both hold."
        )
    start, (name, count) = min(found.items())
    total = int((pair.a.step == start).sum())
    said = f"Row by row the first difference is at step {start}, in {name} ({count} of {total} rows)"
    said += f"; none before step {start}" if start > steps[0] else ""
    later = [f"in {kind} at step {when}" for when, (kind, _) in sorted(found.items())[1:3]]
    return said + ("; then " + ", ".join(later) if later else "") + "."


def _other_prompts(pair: Pair, a: np.ndarray) -> dict[int, tuple[str, int]]:
    """The first step that both runs hold and where rows of A have no partner, and how many."""
    alone = np.isin(pair.a.step, pair.b.step)
    alone[a] = False
    first = pair.a.step[alone].min(initial=np.iinfo(np.int64).max)
    return {int(first): ("prompts", int((alone & (pair.a.step == first)).sum()))} if alone.any() else {}


def _paired(pair: Pair) -> tuple[np.ndarray, np.ndarray] | None:
    """Rows of A and of B that have one key."""
    if not all(rows.has("sample_index") for rows in pair.sides):
        return None
    keys = [
        [rows.step, rows.epoch, prompts, np.nan_to_num(rows.numpy("sample_index")).astype(np.int64)]
        for rows, prompts in zip(pair.sides, pair.prompts, strict=True)
    ]
    code = dense(*(np.concatenate(column) for column in zip(*keys, strict=True)))
    parts = code[: pair.a.num_rows], code[pair.a.num_rows :]
    once = [np.unique(part, return_index=True, return_counts=True) for part in parts]
    single = [(known[count == 1], at[count == 1]) for known, at, count in once]
    both, left, right = np.intersect1d(single[0][0], single[1][0], return_indices=True)
    return (single[0][1][left], single[1][1][right]) if len(both) else None


def _texts(pair: Pair, a: np.ndarray, b: np.ndarray) -> np.ndarray | None:
    """Pairs of rows with one response, bool; None where no token ids tell."""
    if not all(rows.facts is not None and "token_ids" in rows.run.columns for rows in pair.sides):
        return None
    assert pair.a.facts is not None
    assert pair.b.facts is not None
    left, right = pair.a.facts["text_key"][a], pair.b.facts["text_key"][b]
    return np.asarray((left == right) & (left != NO_TEXT))


def _columns(pair: Pair, a: np.ndarray, b: np.ndarray, text: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    """Columns in the order in which a trainer makes them, and the pairs of rows that differ; bool."""
    yield "responses", ~text
    yield "rewards", text & _apart(pair.a.numpy("reward")[a], pair.b.numpy("reward")[b])
    for policy in LOGPS[:-1]:
        yield from _log_probs(pair, (a, b), text, policy)
    left, right = pair.a.logged_advantage, pair.b.logged_advantage
    if left is not None and right is not None:
        yield "advantages", text & _apart(left[a], right[b])
    yield from _log_probs(pair, (a, b), text, LOGPS[-1])


def _log_probs(
    pair: Pair, at: tuple[np.ndarray, np.ndarray], text: np.ndarray, policy: tuple[str, str]
) -> Iterator[tuple[str, np.ndarray]]:
    """Their sums over the loss tokens of a response."""
    name, words = policy
    if all(rows.has(name) for rows in pair.sides):
        own, other = (_fact(rows, name)[rows_at] for rows, rows_at in zip(pair.sides, at, strict=True))
        yield f"log-probs of the {words}", text & _apart(own, other)


def _fact(rows: RunRows, name: str) -> np.ndarray:
    assert rows.facts is not None
    return rows.facts[name]


def _apart(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Values that are not one but for rounding; NaN equals NaN."""
    with np.errstate(invalid="ignore"):
        near = np.abs(x - y) <= ROUNDING * np.maximum(np.maximum(np.abs(x), np.abs(y)), 1.0)
    return np.asarray(~(near | (np.isnan(x) & np.isnan(y))))

"""Which prompts did both runs draw, and how far apart did they end on each?"""

from __future__ import annotations

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from audit.analyses.findings import Effect
from audit.analyses.pair import Pair
from audit.facts.rows import RunRows

MOST = 200
"""Prompts that are listed."""
LONGEST = 200
"""Characters of the text of a prompt that is listed."""


class SharedPrompt(msgspec.Struct, frozen=True):
    """A prompt that both runs drew."""

    prompt_id: str
    reward_a: float | None
    reward_b: float | None
    difference: float | None
    """Mean reward in B minus in A. One prompt is one cluster: there is no interval for it."""
    n: list[int]
    """Responses in A and in B."""
    text: str | None = None
    """Beginning of the prompt; None where the log of A holds none."""


class SharedPrompts(msgspec.Struct, frozen=True):
    """The prompts of both runs, those that ended furthest apart first."""

    prompts: list[SharedPrompt]
    """At most :data:`MOST`."""
    shared: int
    only_a: int
    only_b: int
    reward: Effect | None
    """Reward on the shared prompts, with an interval that resamples them; None where there are none."""
    last_step: int
    """Responses count up to the last step that both runs reached."""


def shared_prompts(pair: Pair) -> SharedPrompts:
    """Compare two runs prompt by prompt, over the first inner pass.

    Raises
    ------
    AuditError
        A log cannot be read.
    """
    in_a, in_b = pair.prompts
    use_a, use_b = (used & rows.grouped for used, rows in zip(pair.trained, pair.sides, strict=True))
    count = 1 + max((int(code.max(initial=-1)) for code in pair.prompts), default=-1)
    n = np.stack([np.bincount(code[use], minlength=count) for code, use in ((in_a, use_a), (in_b, use_b))])
    means = np.full((2, count), np.nan)
    for side, (rows, code, use) in enumerate(zip(pair.sides, pair.prompts, (use_a, use_b), strict=True)):
        reward = rows.numpy("reward")
        scored = use & np.isfinite(reward)
        total = np.bincount(code[scored], weights=reward[scored], minlength=count)
        with np.errstate(divide="ignore", invalid="ignore"):
            means[side] = total / np.bincount(code[scored], minlength=count)
    both = np.flatnonzero((n > 0).all(axis=0))
    gap = np.nan_to_num(np.abs(means[1] - means[0]), nan=-1.0)
    listed = both[np.lexsort((both, -gap[both]))][:MOST]
    ids = pair.a.table["prompt_id"]
    codes, first = np.unique(in_a, return_index=True)
    row_of = {code: int(first[np.searchsorted(codes, code)]) for code in listed.tolist()}
    names = {code: str(ids[row].as_py() or "") for code, row in row_of.items()}
    texts = _texts(pair.a, row_of)
    rewards = tuple((rows.numpy("reward"), np.ones(rows.num_rows)) for rows in pair.sides)
    use = (use_a & pair.seen_by_both[0], use_b & pair.seen_by_both[1])
    return SharedPrompts(
        prompts=[
            SharedPrompt(
                names[code],
                _known(means[0, code]),
                _known(means[1, code]),
                _known(means[1, code] - means[0, code]),
                n[:, code].tolist(),
                texts.get(code),
            )
            for code in listed.tolist()
        ],
        shared=len(both),
        only_a=int(((n[0] > 0) & (n[1] == 0)).sum()),
        only_b=int(((n[1] > 0) & (n[0] == 0)).sum()),
        reward=pair.share("reward on shared prompts", (rewards[0], rewards[1]), use),
        last_step=pair.last,
    )


def _texts(rows: RunRows, row_of: dict[int, int]) -> dict[int, str]:
    """Beginnings of the prompts at some rows, by code."""
    if not rows.has("prompt") or not row_of:
        return {}
    held = rows.run.responses(["prompt"])["prompt"].take(pa.array(row_of.values(), pa.int64()))
    begun = pc.utf8_slice_codeunits(held, 0, LONGEST).to_pylist()
    return {code: text for code, text in zip(row_of, begun, strict=True) if text is not None}


def _known(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None

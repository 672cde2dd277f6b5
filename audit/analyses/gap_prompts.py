"""Does the gap between sampler and trainer of one run lie on a few prompts, the same every time?"""

from __future__ import annotations

import numpy as np

from audit.analyses.findings import Looked, finding
from audit.analyses.pair import Pair

LARGER = 5.0
"""Factor over the other run on the same prompt, and over the run's own middle prompt; heuristic."""
LEAST_GAP = 0.01
"""Mean |g| of such a prompt, nats per token; heuristic."""
LEAST_ROWS = 8
"""Responses of a prompt that each run must have; heuristic."""
LEAST_PROMPTS = 2
"""Such prompts that there must be, with none in the other run; heuristic."""
_SHOWN = 5


def gap_prompts(pair: Pair, use: tuple[np.ndarray, np.ndarray]) -> Looked:
    """Compare mean |log pi_old - log pi_sampler| prompt by prompt: an average over all hides a few of them.

    Parameters
    ----------
    use : two ndarrays of bool, shapes (R_a,) and (R_b,)
        Responses with both log-probs.
    """
    found = Looked()
    number = int(max(codes.max(initial=-1) for codes in pair.prompts)) + 1
    gaps, rows_of, sums = [], [], []
    for rows, prompt, chosen in zip(pair.sides, pair.prompts, use, strict=True):
        assert rows.facts is not None
        gap = np.bincount(prompt[chosen], weights=rows.facts["mismatch"][chosen], minlength=number)
        tokens = np.bincount(prompt[chosen], weights=rows.facts["loss_tokens"][chosen], minlength=number)
        gaps.append(gap / np.maximum(tokens, 1.0))
        rows_of.append(np.bincount(prompt[chosen], minlength=number))
        sums.append(gap)
    both = np.minimum(rows_of[0], rows_of[1]) >= LEAST_ROWS
    if int(both.sum()) <= 2 * LEAST_PROMPTS:
        return found
    large = [
        both
        & (gaps[side] >= LEAST_GAP)
        & (gaps[side] >= LARGER * np.maximum(gaps[1 - side], np.median(gaps[side][both])))
        for side in (0, 1)
    ]
    counts = [int(side.sum()) for side in large]
    if max(counts) < LEAST_PROMPTS or min(counts):
        return found
    side = int(counts[1] > counts[0])
    held = float(sums[side][large[side]].sum() / max(sums[side].sum(), 1e-300))
    share = float(rows_of[side][large[side]].sum() / rows_of[side].sum())
    codes, first = np.unique(pair.prompts[side], return_index=True)
    named = first[np.isin(codes, np.flatnonzero(large[side]))][:_SHOWN]
    names = pair.sides[side].table["prompt_id"].take(named)
    summary = (
        f"{counts[side]} prompts of {'AB'[side]}, {share:.0%} of its responses, hold {held:.0%} of the gap "
        f"between its sampler and trainer: on each it is at least {LARGER:g} times that of the other run, "
        "and of the run's middle prompt."
    )
    evidence = {"kind": "few prompts", "a": counts[0], "b": counts[1], "difference": counts[1] - counts[0]}
    evidence |= {"share_of_gap": held, "share_of_responses": share, "prompts": names.to_pylist()}
    found.causes.append(finding("numerics.mismatch", 0.75, summary, evidence))
    return found

"""Equal responses with different rewards: a judge that is noisy, or a reward that moved."""

from __future__ import annotations

import msgspec
import numpy as np

from audit.analyses.samples import Samples, spans
from audit.analyses.text_codes import text_codes
from audit.facts.rows import RunRows, dense

TOLERANCE = 1e-6
"""Rewards closer than this are the same (float32 rounding)."""


class RewardTexts(msgspec.Struct, frozen=True):
    """Counts over responses to one prompt that say the same, and groups whose responses do not."""

    repeated: int
    """Texts that were sampled at least twice for a prompt."""
    differing: int
    """Of these, texts that got more than one reward."""
    largest_gap: float
    """The largest difference between two rewards of one text."""
    distinct_alike: int
    """Groups of at least two different texts whose rewards are all equal."""
    distinct: int
    """Groups of at least two different texts."""


def reward_texts(rows: RunRows, samples: Samples) -> RewardTexts:
    """Compare rewards with texts; the column ``response`` or ``token_ids`` must be there.

    Samples of several rows (trajectories) are left out: one reward goes with several texts.
    """
    text = text_codes(rows)
    assert text is not None
    use = samples.of_row >= 0
    alone = np.bincount(samples.of_row[use], minlength=len(samples.reward)) == 1
    said = np.full(len(samples.reward), -1, dtype=np.int64)
    said[samples.of_row[use]] = text[use]
    prompt = samples.prompt[samples.group]
    known = alone & (said >= 0)
    several = np.zeros(samples.num_groups, dtype=bool)
    if known.any():
        low, high = spans(said[known].astype(float), samples.group[known], samples.num_groups)
        several = high > low
    repeated, gaps = 0, np.zeros(0)
    named = known & (prompt >= 0)
    if named.any():
        code = dense(prompt[named], said[named])
        count = np.bincount(code)
        low, high = spans(samples.reward[named], code, len(count))
        repeated = int((count > 1).sum())
        gaps = (high - low)[count > 1]
    return RewardTexts(
        repeated=repeated,
        differing=int((gaps > TOLERANCE).sum()),
        largest_gap=float(gaps.max(initial=0.0)),
        distinct_alike=int((several & samples.alike).sum()),
        distinct=int(several.sum()),
    )

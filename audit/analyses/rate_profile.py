"""What groups are like at each success rate of their prompt, and prompts that are never or always solved."""

from __future__ import annotations

import msgspec
import numpy as np

from audit.analyses.rate_bins import EDGES
from audit.analyses.samples import Samples
from audit.analyses.shares import share_of
from audit.analyses.skips import Skips
from audit.stats import Estimate, ratio_of_sums


class RateBin(msgspec.Struct, frozen=True):
    """Groups whose prompt has a success rate in [low, high), by its other visits."""

    low: float
    high: float
    groups: int
    success: Estimate
    """Of the groups themselves; n counts samples."""
    zero_signal: Estimate
    """Share of groups whose rewards are all equal; n counts groups."""
    length: Estimate | None
    """Tokens per sample; n counts samples of known length."""


class Solved(msgspec.Struct, frozen=True):
    """Prompts whose every judged sample is right, or wrong; n counts prompts."""

    never: Estimate
    always: Estimate
    samples_on_never: Estimate
    """Share of the samples; n counts samples."""
    samples_on_always: Estimate
    median_samples: float
    """Judged samples of a prompt: few say little about never and always."""


def rate_profile(samples: Samples, bins: np.ndarray, skips: Skips) -> list[RateBin]:
    """Describe the groups of each bin that holds any."""
    lengths = np.isfinite(samples.tokens)
    if not lengths.any():
        skips.add("length by success rate", "length or token_ids, in tokens")
    of_sample, cluster = bins[samples.group], samples.cluster[samples.group]
    found = []
    for at in range(len(EDGES) - 1):
        here = bins == at
        if not here.any() or samples.correct is None:
            continue
        inside = of_sample == at
        found.append(
            RateBin(
                EDGES[at],
                EDGES[at + 1],
                int(here.sum()),
                _mean(samples.correct, inside, cluster),
                share_of(samples.alike, samples.cluster, here),
                _mean(samples.tokens, inside, cluster) if lengths.any() else None,
            )
        )
    return found


def solved(samples: Samples) -> Solved | None:
    """Count prompts that were never and always solved; None where samples are neither right nor wrong."""
    if samples.correct is None:
        return None
    prompt = samples.prompt[samples.group]
    judged = np.isfinite(samples.correct) & (prompt >= 0)
    if not judged.any():
        return None
    _, code = np.unique(prompt[judged], return_inverse=True)
    count = np.bincount(code)
    right = np.bincount(code, weights=samples.correct[judged])
    each = np.arange(len(count))
    never, always = right == 0, right == count
    return Solved(
        never=share_of(never, each),
        always=share_of(always, each),
        samples_on_never=share_of(never[code], code),
        samples_on_always=share_of(always[code], code),
        median_samples=float(np.median(count)),
    )


def _mean(values: np.ndarray, among: np.ndarray, cluster: np.ndarray) -> Estimate:
    use = among & np.isfinite(values)
    return ratio_of_sums(np.where(use, values, 0.0), use.astype(float), cluster, int(use.sum()))

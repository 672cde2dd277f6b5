"""The gap between the log-probs of trainer and sampler, per token."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec
import numpy as np

from audit.analyses.bucket_shares import prompt_sums
from audit.analyses.mismatch_weights import correlation
from audit.facts.rows import RunRows
from audit.stats import Estimate, bootstrap, estimate, ratio_of_sums

GAP_FACTS = (
    *("loss_tokens", "mismatch", "sampler_gap", "sampler_gap_square", "sampler_gap_max"),
    *("sampler_ratio", "sampler_ratio_square", "logp_old", "logp_sampler"),
    *("old_square", "sampler_square", "old_times_sampler"),
)


class Gap(msgspec.Struct, frozen=True):
    """g = log pi_old - log pi_sampler per loss token, nats."""

    size: Estimate
    """Mean |g|."""
    mean: Estimate
    """Mean g: below 0 the trainer finds the sampled tokens less likely than the engine did."""
    rms: Estimate
    k3: Estimate
    """exp(g) - 1 - g, unbiased for KL(sampler ‖ old) per token, for the tokens are the sampler's."""
    correlation: Estimate
    """Of log pi_old with log pi_sampler over tokens."""
    follows_logp: Estimate
    """Correlation of g with log pi_old: far from 0 where a temperature is in one of the two alone."""


def gap_of(rows: RunRows, use: np.ndarray) -> Gap:
    """Measure the gap on the loss tokens of the responses ``use``, bool, shape (R,)."""
    assert rows.facts is not None
    of = {name: rows.facts[name][use].astype(np.float64) for name in GAP_FACTS}
    n, prompt, count = of["loss_tokens"], rows.prompt[use], int(use.sum())
    old, sampler = of["logp_old"], of["logp_sampler"]
    pairs = of["old_times_sampler"]

    def mean(values: np.ndarray) -> Estimate:
        return ratio_of_sums(values, n, prompt, count)

    def correlated(columns: Sequence[np.ndarray]) -> Estimate:
        sums = np.column_stack([prompt_sums(column, prompt) for column in columns])
        return estimate(bootstrap(sums, correlation), count)

    square = mean(of["sampler_gap_square"])
    roots = [None if x is None else math.sqrt(x) for x in (square.value, square.low, square.high)]
    return Gap(
        size=mean(of["mismatch"]),
        mean=mean(of["sampler_gap"]),
        rms=Estimate(roots[0], roots[1], roots[2], count),
        k3=mean(of["sampler_ratio"] - n - of["sampler_gap"]),
        correlation=correlated([n, old, sampler, of["old_square"], of["sampler_square"], pairs]),
        follows_logp=correlated(
            [n, of["sampler_gap"], old, of["sampler_gap_square"], of["old_square"], of["old_square"] - pairs]
        ),
    )

"""Policy losses that a logged loss is held against: their value, summed over the tokens of each response."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from audit.analyses.infer_clip import LEVELS, USUAL, Bound, ClipFit
from audit.analyses.loss_sample import LossSample

_LOWS = (0.2, 0.1, 0.3, 0.02, 0.05, 0.15, 0.25)
_HIGHS = (0.28, 0.24, 0.22, 0.27, 0.3)
_CAPS = (*USUAL, 1.0, 2.0, 3.0, 4.0, 5.0, 9.0)
DUAL = 3.0
"""verl's ``clip_ratio_c``."""


class Surrogate(NamedTuple):
    """One policy loss."""

    kind: str
    level: str
    low: float | None = None
    high: float | None = None
    dual: float | None = None
    low_bound: Bound | None = None
    high_bound: Bound | None = None
    dual_shows: bool = False


def surrogates(
    sample: LossSample, clip: list[ClipFit], declared: Surrogate | None, *, clip_logged: bool
) -> Iterator[Surrogate]:
    """Candidates; where the clip fractions say which clip it is, those alone and what has none."""
    yield Surrogate("theta", "none")
    yield Surrogate("reinforce", "none")
    if not sample.moved:
        return
    capped = bool(np.any((sample.advantage < 0) & (sample.ratio("token") > DUAL)))
    duals = (None, DUAL) if capped else (None,)
    if clip:
        seen = dict.fromkeys((c.level, c.low, c.high) for c in clip)
        for (level, low, high), dual in itertools.product(seen, duals):
            yield Surrogate("ppo", level, low.nominal, high.nominal, dual, low, high, capped)
        return
    if declared is not None:
        yield declared._replace(dual=declared.dual if capped else None, dual_shows=capped)
    for level in LEVELS:
        yield Surrogate("none", level)
        pairs = [(low, high) for low in _LOWS for high in (low, *_HIGHS) if high >= low]
        for (low, high), dual in itertools.product(dict.fromkeys(pairs), duals):
            yield Surrogate("ppo", level, low, high, dual, dual_shows=capped)
    if not clip_logged:
        for cap in _CAPS:
            yield Surrogate("cispo", "token", None, cap)


@np.errstate(over="ignore", invalid="ignore")
def value(sample: LossSample, surrogate: Surrogate) -> np.ndarray:
    """Loss summed over the tokens of each response, shape (R,), to be minimised.

    PPO: -min(rho A, clip(rho) A), arXiv:1707.06347 eq. 7, from above bounded by -dual A where A < 0
    (arXiv:1912.09729 eq. 5). CISPO: -min(rho, 1 + epsilon_high) A log pi, arXiv:2506.13585 eq. 4.
    """
    a, ratio = sample.advantage, sample.ratio(surrogate.level)
    if surrogate.kind == "ppo":
        low = -np.inf if surrogate.low is None else 1.0 - surrogate.low
        high = np.inf if surrogate.high is None else 1.0 + surrogate.high
        made = np.maximum(-ratio * a, -np.clip(ratio, low, high) * a)
        if surrogate.dual is not None:
            made = np.where(a < 0, np.minimum(made, -surrogate.dual * a), made)
    elif surrogate.kind == "cispo":
        made = (
            -np.minimum(ratio, np.inf if surrogate.high is None else 1.0 + surrogate.high) * a * sample.theta
        )
    elif surrogate.kind == "reinforce":
        made = -a * sample.theta
    else:
        made = -ratio * a
    if surrogate.level == "product":
        # The response is one action: it enters the loss once, not once per token.
        made = made / sample.count[sample.row]
    return sample.per_row(made)


@np.errstate(over="ignore", invalid="ignore")
def kl_sums(sample: LossSample) -> dict[str, np.ndarray]:
    """Estimators of KL(theta ‖ reference) by name, summed over tokens, shape (R,), nats.

    Of d = log pi_theta - log pi_ref: k1 = d, k2 = d² / 2, k3 = exp(-d) - 1 + d (Schulman 2020).
    """
    d = sample.gap
    if d is None:
        return {}
    k3 = np.exp(-d) - 1.0 + d
    made = {"k3": k3, "k2": 0.5 * d * d, "k1": d, "abs": np.abs(d)}
    if sample.moved:
        made["k3 x ratio"] = k3 * sample.ratio("token")
    return {name: sample.per_row(values) for name, values in made.items()}

"""Closed forms of what each surrogate gives to a token, in loops over plain floats."""

from __future__ import annotations

import math
from dataclasses import dataclass

from audit.objectives.surrogates import Surrogate


@dataclass(frozen=True)
class Token:
    """A loss token as the surrogate sees it.

    ``correction`` is the product of its sampler corrections, ``absorbed`` its share of the log of them.
    """

    log: float
    ratio: float
    advantage: float
    theta: float = 0.0
    below: float = 0.0
    correction: float = 1.0
    absorbed: float = 0.0


@dataclass(frozen=True)
class Slope:
    """d surrogate / d log-prob, whether the trust region took it away, and the size of its terms."""

    value: float
    zeroed: bool
    size: float


def removed(ratio: float, advantage: float, clip: Surrogate) -> bool:
    """Whether max/min have moved PPO's surrogate off the ratio: flat in the ratio at this point."""
    if advantage == 0:
        return False
    low = -math.inf if clip.epsilon_low is None else 1 - clip.epsilon_low
    high = math.inf if clip.epsilon_high is None else 1 + clip.epsilon_high
    delta, dual = getattr(clip, "delta", None), getattr(clip, "dual", None)
    delta, dual = math.inf if delta is None else delta, math.inf if dual is None else dual
    if advantage > 0:
        return ratio > high or ratio > delta
    return ratio < low or ratio > dual or (ratio > delta and ratio > high)


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def vespo(row: list[Token], clip: Surrogate, advantage: float) -> float:
    """phi(W) of a response."""
    floor = math.log(1e-8)
    log = math.fsum(min(max(t.log, -20.0), 20.0) for t in row)
    log += math.fsum(t.absorbed for t in row)
    log = min(max(log, floor), 20.0)
    k, rate = (
        (clip.k_positive, clip.lambda_positive) if advantage >= 0 else (clip.k_negative, clip.lambda_negative)
    )
    return math.exp(rate + k * log - rate * math.exp(log))


def binary_kl(p: float, q: float) -> float:
    """KL between the coins with heads p and q."""
    p, q = min(p, 1 - 1e-12), min(q, 1 - 1e-12)
    heads = p * math.log(p / q) if p > 0 else 0.0
    tails = (1 - p) * (math.log1p(-p) - math.log1p(-q)) if p < 1 else 0.0
    return heads + tails


def covariances(batch: list[Token]) -> list[float]:
    if not batch:
        return []
    a = math.fsum(t.advantage for t in batch) / len(batch)
    p = math.fsum(t.theta for t in batch) / len(batch)
    return [(t.advantage - a) * (t.theta - p) for t in batch]


def slopes(row: list[Token], clip: Surrogate) -> list[Slope]:
    """Slopes of the loss tokens of one response, for surrogates that look no further."""
    out = []
    for t in row:
        A, rho = t.advantage, t.ratio
        value, zeroed = A * rho, False
        if clip.kind == "ppo":
            zeroed = removed(rho, A, clip)
        elif clip.kind == "cispo":
            low = -math.inf if clip.epsilon_low is None else 1 - clip.epsilon_low
            high = math.inf if clip.epsilon_high is None else 1 + clip.epsilon_high
            value = A * min(max(rho, low), high)
            zeroed = clip.masked and removed(rho, A, clip)
        elif clip.kind == "sapo":
            gate = sigmoid((clip.tau_positive if A > 0 else clip.tau_negative) * (rho - 1))
            value = A * 4 * gate * (1 - gate) * rho
        elif clip.kind == "vespo":
            value = A * vespo(row, clip, A)
        elif clip.kind == "regression":
            value = A - clip.tau * t.log
        elif clip.kind == "gmpo":
            bounded = [
                min(u.log, clip.epsilon_high) if u.advantage > 0 else max(u.log, -clip.epsilon_low)
                for u in row
            ]
            value = A * math.exp(math.fsum(bounded) / len(row))
            zeroed = (A > 0 and t.log > clip.epsilon_high) or (A < 0 and t.log < -clip.epsilon_low)
        elif clip.kind == "dppo":
            p, q = math.exp(t.below), math.exp(t.theta)
            moved = abs(q - p) if clip.divergence == "tv" else binary_kl(p, q)
            zeroed = (A > 0 and q > p and moved > clip.delta_high) or (
                A < 0 and q < p and moved > clip.delta_low
            )
            value = A * (rho if clip.cap is None else min(rho, clip.cap))
        elif clip.kind == "probability_mask":
            zeroed = abs(math.exp(t.theta) - math.exp(t.below)) > clip.delta
        size = abs(value) + (clip.tau * abs(t.log) if clip.kind == "regression" else 0.0)
        out.append(Slope(0.0 if zeroed and clip.kind != "gmpo" else value, zeroed, size))
    return out


def batch_slopes(batch: list[Token], clip: Surrogate) -> list[Slope]:
    """Slopes of the loss tokens of one micro-batch, for the surrogates that rank its tokens."""
    if not batch:
        return []
    cov = covariances(batch)
    drawn = max(int(clip.fraction * len(batch)), 1)
    if clip.kind == "kl_cov":
        top = set(sorted(range(len(batch)), key=lambda i: -cov[i])[:drawn])
        out = []
        for i, t in enumerate(batch):
            sign = (t.log > 0) - (t.log < 0) if i in top else 0
            value = t.advantage * t.ratio - clip.coefficient * sign
            out.append(Slope(value, False, abs(t.advantage * t.ratio) + clip.coefficient))
        return out
    cut = [removed(t.ratio, t.advantage, clip) for t in batch]
    window = {i for i, c in enumerate(cov) if clip.low < c < clip.high and not cut[i]}
    kept = 1 - min(drawn, len(window)) / len(window) if window else 1.0
    return [
        Slope(
            0.0 if cut[i] else t.advantage * t.ratio * (kept if i in window else 1.0),
            cut[i] or (i in window and kept == 0),
            abs(t.advantage * t.ratio),
        )
        for i, t in enumerate(batch)
    ]

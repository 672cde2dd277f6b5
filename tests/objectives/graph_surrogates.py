"""The surrogates as a trainer writes them, for autograd: values, gradients stopped where they are stopped.

Rectangles (B, T); ``mask`` is 1.0 at loss tokens. No closed form of a gradient appears here.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from audit.objectives.surrogates import Surrogate


@dataclass(frozen=True)
class Graph:
    """What a surrogate is written in."""

    theta: Tensor
    below: Tensor
    log: Tensor
    """Log-ratio per token, clamped."""
    ratio: Tensor
    """At the level that the objective asks for."""
    advantage: Tensor
    mask: Tensor
    absorbed: Tensor
    """Log of the sampler corrections, gradient stopped; one of a whole response is shared by its tokens."""
    micro: Tensor
    """Micro-batch of each row."""


def surrogate(g: Graph, clip: Surrogate) -> Tensor:
    """What the trainer maximises, per token; without the sampler corrections unless they are inside."""
    return WRITTEN[clip.kind](g, clip)


def _none(g: Graph, clip: Surrogate) -> Tensor:
    return g.ratio * g.advantage


def _bounded(ratio: Tensor, clip: Surrogate) -> Tensor:
    low = None if clip.epsilon_low is None else 1 - clip.epsilon_low
    high = None if clip.epsilon_high is None else 1 + clip.epsilon_high
    return ratio if low is None and high is None else torch.clamp(ratio, low, high)


def _ppo(g: Graph, clip: Surrogate) -> Tensor:
    delta, dual = getattr(clip, "delta", None), getattr(clip, "dual", None)
    capped = g.ratio if delta is None else torch.clamp(g.ratio, max=delta)
    best = torch.min(capped * g.advantage, _bounded(g.ratio, clip) * g.advantage)
    if dual is not None:
        best = torch.where(g.advantage < 0, torch.max(best, dual * g.advantage), best)
    return best


def _cut(g: Graph, clip: Surrogate) -> Tensor:
    """Where the second branch of PPO's minimum is strictly the smaller one."""
    return (_bounded(g.ratio, clip) * g.advantage < g.ratio * g.advantage).detach()


def _cispo(g: Graph, clip: Surrogate) -> Tensor:
    weight = _bounded(g.ratio, clip).detach()
    if clip.masked:
        weight = weight * ~_cut(g, clip)
    return weight * g.advantage * g.theta


def _either(where: Tensor, yes: float, no: float) -> Tensor:
    return torch.full(where.shape, no, dtype=torch.float64).masked_fill(where, yes)


def _sapo(g: Graph, clip: Surrogate) -> Tensor:
    tau = _either(g.advantage > 0, clip.tau_positive, clip.tau_negative)
    return torch.sigmoid(tau * (g.ratio - 1)) * 4 / tau * g.advantage


def _vespo(g: Graph, clip: Surrogate) -> Tensor:
    floor = torch.log(torch.tensor(1e-8, dtype=torch.float64)).item()
    log = ((g.log.clamp(-20.0, 20.0) + g.absorbed) * g.mask).sum(1, keepdim=True).clamp(floor, 20.0)
    up = g.advantage >= 0
    k = _either(up, clip.k_positive, clip.k_negative)
    rate = _either(up, clip.lambda_positive, clip.lambda_negative)
    phi = torch.exp(rate + k * log - rate * torch.exp(log)).detach()
    return phi * g.advantage * g.theta


def _regression(g: Graph, clip: Surrogate) -> Tensor:
    if clip.tau == 0:
        return g.advantage * g.log
    return -((g.advantage - clip.tau * g.log) ** 2) / (2 * clip.tau)


def _gmpo(g: Graph, clip: Surrogate) -> Tensor:
    clamped = torch.clamp(g.log, -clip.epsilon_low, clip.epsilon_high)
    one_sided = torch.where(g.advantage > 0, torch.minimum(g.log, clamped), torch.maximum(g.log, clamped))
    mean = (one_sided * g.mask).sum(1, keepdim=True) / g.mask.sum(1, keepdim=True).clamp(min=1.0)
    return torch.exp(mean) * g.advantage


def _dppo(g: Graph, clip: Surrogate) -> Tensor:
    q, p = g.theta.detach().exp(), g.below.exp()
    if clip.divergence == "tv":
        moved = torch.abs(q - p)
    else:
        coins = [torch.distributions.Bernoulli(probs=x.clamp(max=1 - 1e-12)) for x in (p, q)]
        moved = torch.distributions.kl_divergence(*coins)
    out = torch.where(g.advantage > 0, (q > p) & (moved > clip.delta_high), False)
    out = out | torch.where(g.advantage < 0, (q < p) & (moved > clip.delta_low), False)
    if clip.cap is None:
        return g.ratio * g.advantage * ~out
    return g.ratio / g.ratio.detach() * g.ratio.detach().clamp(max=clip.cap) * g.advantage * ~out


def _probability_mask(g: Graph, clip: Surrogate) -> Tensor:
    return g.ratio * g.advantage * ((g.theta.exp() - g.below.exp()).abs() <= clip.delta).detach()


def _covariance(g: Graph, inside: Tensor) -> Tensor:
    a = (g.advantage * inside).sum() / inside.sum()
    p = (g.theta.detach() * inside).sum() / inside.sum()
    return (g.advantage - a) * (g.theta.detach() - p)


def _clip_cov(g: Graph, clip: Surrogate) -> Tensor:
    """The mean over the draw is the surrogate times the chance of not being drawn."""
    chance = torch.ones_like(g.mask)
    for micro in g.micro.unique():
        inside = g.mask * (g.micro == micro)[:, None]
        if inside.sum() == 0:
            continue
        cov = torch.where((inside > 0) & ~_cut(g, clip), _covariance(g, inside), -torch.inf)
        window = (cov > clip.low) & (cov < clip.high)
        number = max(int(clip.fraction * inside.sum().item()), 1)
        if window.any():
            chance[window] = 1 - min(number / int(window.sum()), 1.0)
    return _ppo(g, clip) * chance


def _kl_cov(g: Graph, clip: Surrogate) -> Tensor:
    value = g.ratio * g.advantage
    for micro in g.micro.unique():
        inside = g.mask * (g.micro == micro)[:, None]
        number = int(inside.sum().item())
        if number == 0:
            continue
        cov = torch.where(inside > 0, _covariance(g, inside), -torch.inf)
        top = cov.flatten().topk(max(int(clip.fraction * number), 1)).indices
        chosen = torch.zeros_like(cov).flatten().index_fill(0, top, 1.0).view_as(cov)
        value = value - clip.coefficient * g.log.abs() * chosen
    return value


WRITTEN = {
    "none": _none,
    "ppo": _ppo,
    "cispo": _cispo,
    "sapo": _sapo,
    "vespo": _vespo,
    "regression": _regression,
    "gmpo": _gmpo,
    "dppo": _dppo,
    "probability_mask": _probability_mask,
    "clip_cov": _clip_cov,
    "kl_cov": _kl_cov,
}

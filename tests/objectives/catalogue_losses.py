"""The loss of every catalogue entry as its paper writes it, over padded rectangles, for autograd.

Nothing here reads an objective's fields: a field that says something else than the formula shows.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

G, GROUPS, WIDTH = 5, 3, 6
CONSTANT = 10.0
MAX_LENGTH, CACHE = 5, 3


@dataclass(frozen=True)
class Batch:
    """B responses of at most T tokens; log-probs, values (B, T), the rest (B, 1)."""

    theta: Tensor
    old: Tensor
    ref: Tensor
    sampler: Tensor
    value: Tensor
    mask: Tensor
    length: Tensor
    reward: Tensor
    accuracy: Tensor
    format: Tensor
    logged: Tensor
    greedy: Tensor
    """Reward of the greedy response of the row's group."""

    @property
    def tokens(self) -> Tensor:
        return self.mask.sum(1, keepdim=True)

    def row_mean(self, x: Tensor) -> Tensor:
        return ((x * self.mask).sum(1, keepdim=True) / self.tokens).mean()

    def row_sum(self, x: Tensor) -> Tensor:
        return (x * self.mask).sum() / len(x)

    def token_mean(self, x: Tensor) -> Tensor:
        return (x * self.mask).sum() / self.mask.sum()


def per_group(x: Tensor) -> Tensor:
    return x.reshape(GROUPS, G)


def mean(x: Tensor) -> Tensor:
    """Mean of each group, handed back per row."""
    return per_group(x).mean(1, keepdim=True).expand(-1, G).reshape(-1, 1)


def dead(x: Tensor) -> Tensor:
    spread = per_group(x).amax(1, keepdim=True) - per_group(x).amin(1, keepdim=True)
    return (spread == 0).expand(-1, G).reshape(-1, 1)


def z(x: Tensor) -> Tensor:
    """Standardised in the group, ddof 0; 0 in dead groups."""
    centred = torch.where(dead(x), 0.0, x - mean(x))
    return centred / torch.where(dead(x), 1.0, mean(centred**2).sqrt())


def whitened(x: Tensor, weight: Tensor) -> Tensor:
    centre = (x * weight).sum() / weight.sum()
    return (x - centre) / ((weight * (x - centre) ** 2).sum() / weight.sum()).sqrt()


def ratio(b: Batch) -> Tensor:
    return (b.theta - b.old).exp()


def whole(b: Batch) -> Tensor:
    return (((b.theta - b.old) * b.mask).sum(1, keepdim=True) / b.tokens).exp()


def clipped(rho: Tensor, A: Tensor, low: float = 0.2, high: float = 0.2) -> Tensor:
    return torch.min(rho * A, rho.clamp(1 - low, 1 + high) * A)


def dual(rho: Tensor, A: Tensor) -> Tensor:
    return torch.where(A < 0, torch.max(clipped(rho, A), 3.0 * A), clipped(rho, A))


def k3(b: Batch) -> Tensor:
    return (b.ref - b.theta).exp() - (b.ref - b.theta) - 1.0


def grpo_with(b: Batch, weight: Tensor) -> Tensor:
    return b.row_mean(weight * clipped(ratio(b), z(b.reward)) - 0.04 * k3(b))


def grpo(b: Batch) -> Tensor:
    return grpo_with(b, torch.ones(()))


def grpo_dual_clip(b: Batch) -> Tensor:
    return b.row_mean(dual(ratio(b), z(b.reward)) - 0.04 * k3(b))


def grpo_two_sided(b: Batch) -> Tensor:
    rho, A = ratio(b), z(b.reward)
    return b.row_mean(torch.min(rho.clamp(max=4.0) * A, rho.clamp(0.8, 1.2) * A))


def grpo_mis(b: Batch) -> Tensor:
    W = ((b.old - b.sampler) * b.mask).sum(1, keepdim=True).exp()
    return grpo_with(b, W * (W <= 3.0))


def grpo_icepop(b: Batch) -> Tensor:
    u = (b.old - b.sampler).exp()
    return grpo_with(b, u * ((u >= 0.5) & (u <= 5.0)))


def opo(b: Batch) -> Tensor:
    baseline = mean(b.tokens * b.reward) / mean(b.tokens)
    return b.token_mean((b.reward - baseline) * b.theta)


def gpg(b: Batch) -> Tensor:
    alpha = len(b.reward) / (len(b.reward) - dead(b.reward).sum())
    return b.token_mean(alpha * (b.reward - mean(b.reward)) * b.theta)


def reinforce_pp(b: Batch) -> Tensor:
    k1 = (b.old - b.ref) * b.mask
    A = b.reward - 0.01 * k1.flip(1).cumsum(1).flip(1)
    return b.token_mean(clipped(ratio(b), whitened(A, b.mask)))


def reinforce_pp_baseline(b: Batch) -> Tensor:
    A = whitened(b.reward - mean(b.reward), b.tokens)
    return b.token_mean(clipped(ratio(b), A) - 0.01 * 0.5 * (b.theta - b.ref) ** 2)


def ppo_gae(b: Batch) -> Tensor:
    A = torch.zeros_like(b.value)
    for i in range(len(b.value)):
        live = b.mask[i].nonzero().flatten().tolist()
        later, running = 0.0, 0.0
        for t in reversed(live):
            earned = -0.05 * (b.old[i, t] - b.ref[i, t]) + (b.reward[i, 0] if t == live[-1] else 0.0)
            running = earned + later - b.value[i, t] + 0.95 * running
            later = b.value[i, t]
            A[i, t] = running
    return b.token_mean(clipped(ratio(b), A))


def vtrace(b: Batch) -> Tensor:
    rho = (b.theta - b.sampler).exp().detach()
    return b.row_sum(rho.clamp(max=1.0) * b.logged * b.theta)


def dr_surrogate(b: Batch) -> Tensor:
    return (clipped(ratio(b), b.reward - mean(b.reward)) * b.mask).sum()


def dapo(b: Batch) -> Tensor:
    reward = b.reward - ((b.length.double() - (MAX_LENGTH - CACHE)) / CACHE).clamp(0.0, 1.0)
    live = b.mask * ~dead(reward)
    return (clipped(ratio(b), z(reward), 0.2, 0.28) * live).sum() / live.sum()


def bnpo(b: Batch) -> Tensor:
    surrogate = clipped(ratio(b), z(b.reward)) * b.mask
    return torch.stack([surrogate[s].sum() / b.mask[s].sum() for s in (slice(0, 7), slice(7, None))]).mean()


def gspo(b: Batch) -> Tensor:
    return b.row_mean(clipped(whole(b), z(b.reward), 3e-4, 4e-4))


def gspo_token(b: Batch) -> Tensor:
    s = whole(b).detach() * (b.theta - b.theta.detach()).exp()
    return b.row_mean(clipped(s, z(b.reward), 3e-4, 4e-4))


def luspo(b: Batch) -> Tensor:
    return b.row_sum(clipped(whole(b), z(b.reward), 3e-4, 4e-4))


def gmpo(b: Batch) -> Tensor:
    log, A = b.theta - b.old, z(b.reward)
    log = torch.where(A > 0, log.clamp(max=0.4), log.clamp(min=-0.4)) * b.mask
    return ((log.sum(1, keepdim=True) / b.tokens).exp() * A).mean()


def vespo(b: Batch) -> Tensor:
    A = z(b.reward)
    log = ((b.theta - b.old) * b.mask).sum(1, keepdim=True).detach()
    phi = torch.where(
        A >= 0, log.exp() ** 2 * (3.0 * (1 - log.exp())).exp(), log.exp() ** 3 * (2.0 * (1 - log.exp())).exp()
    )
    return b.token_mean(phi * A * b.theta)


def cispo(b: Batch) -> Tensor:
    return b.token_mean(ratio(b).clamp(max=5.0).detach() * z(b.reward) * b.theta)


def sapo(b: Batch) -> Tensor:
    A = z(b.reward)
    tau = torch.where(A > 0, 1.0, A.new_tensor(1.05))
    return b.row_mean(4.0 / tau * torch.sigmoid(tau * (ratio(b) - 1.0)) * A)


def dppo(b: Batch, far: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    A, p, q = z(b.reward), b.theta.exp().detach(), b.sampler.exp()
    outwards = ((A > 0) & (p > q)) | ((A < 0) & (p < q))
    return b.token_mean(~(outwards & far(p, q)) * (b.theta - b.sampler).exp() * A)


def coins(p: Tensor, q: Tensor) -> Tensor:
    return q * (q / p).log() + (1 - q) * ((1 - q) / (1 - p)).log()


def covariance(b: Batch) -> Tensor:
    A, on = z(b.reward).expand_as(b.theta), b.mask > 0
    return ((A - A[on].mean()) * (b.theta - b.theta[on].mean())).detach()


def clip_cov(b: Batch) -> Tensor:
    rho, A, cov = ratio(b), z(b.reward), covariance(b)
    kept = ~(((A > 0) & (rho > 1.2)) | ((A < 0) & (rho < 0.8)))
    window = (cov > 1.0) & (cov < 5.0) & (b.mask > 0) & kept
    return b.token_mean(clipped(rho, A) * (1.0 - window / window.sum().clamp(min=1)))


def kl_cov(b: Batch) -> Tensor:
    cov = torch.where(b.mask > 0, covariance(b), -torch.inf)
    chosen = cov == cov.max()
    return b.token_mean(ratio(b) * z(b.reward) - chosen * (b.theta - b.old).abs())


def gdpo(b: Batch) -> Tensor:
    A = whitened(z(b.accuracy) + z(b.format), torch.ones_like(b.reward))
    return b.row_mean(clipped(ratio(b), A))


def pass_at_k(b: Batch, k: int = 4) -> Tensor:
    A = torch.zeros_like(b.reward)
    for start in range(0, len(A), G):
        right = [bool(r > 0) for r in b.reward[start : start + G]]
        sets = list(itertools.combinations(range(G), k))
        value = [float(any(right[i] for i in chosen)) for chosen in sets]
        R = sum(value) / len(sets)
        std = (R * (1 - R)) ** 0.5
        for i in range(G):
            own = [v for v, chosen in zip(value, sets, strict=True) if i in chosen]
            A[start + i] = (sum(own) / len(own) - R) / (std or 1.0)
    return b.row_mean(clipped(ratio(b), A))


def pass_at_k_best(b: Batch) -> Tensor:
    top = per_group(b.reward).topk(2, dim=1).values
    lead = (top[:, :1] - top[:, 1:]).expand(-1, G).reshape(-1, 1)
    best = b.reward == per_group(b.reward).amax(1, keepdim=True).expand(-1, G).reshape(-1, 1)
    return b.row_sum(torch.where(best, lead, 0.0) * b.theta)


def maxrl(b: Batch) -> Tensor:
    return b.row_sum((b.reward - mean(b.reward)) / mean(b.reward) * b.theta)


GAINS: dict[str, Callable[[Batch], Tensor]] = {
    "reinforce": lambda b: b.row_sum(b.reward * b.theta),
    "rloo": lambda b: b.row_sum((b.reward - (G * mean(b.reward) - b.reward) / (G - 1)) * b.theta),
    "remax": lambda b: b.row_sum((b.reward - b.greedy) * b.theta),
    "opo": opo,
    "gpg": gpg,
    "reinforce_pp": reinforce_pp,
    "reinforce_pp_baseline": reinforce_pp_baseline,
    "ppo": lambda b: b.token_mean(clipped(ratio(b), b.logged)),
    "ppo_gae": ppo_gae,
    "ppo_dual_clip": lambda b: b.token_mean(dual(ratio(b), b.logged)),
    "decoupled_ppo": lambda b: b.token_mean((b.old - b.sampler).exp() * clipped(ratio(b), b.logged)),
    "vtrace": vtrace,
    "grpo": grpo,
    "dr_grpo": lambda b: dr_surrogate(b) / (len(b.reward) * CONSTANT),
    "dr_grpo_longest": lambda b: dr_surrogate(b) / (len(b.reward) * WIDTH),
    "dr_grpo_sum": lambda b: dr_surrogate(b) / WIDTH,
    "dapo": dapo,
    "bnpo": bnpo,
    "grpo_dual_clip": grpo_dual_clip,
    "grpo_two_sided": grpo_two_sided,
    "gspo": gspo,
    "gspo_token": gspo_token,
    "luspo": luspo,
    "gmpo": gmpo,
    "vespo": vespo,
    "cispo": cispo,
    "sapo": sapo,
    "dppo_tv": lambda b: dppo(b, lambda p, q: (p - q).abs() > 0.2),
    "dppo_kl": lambda b: dppo(b, lambda p, q: coins(p, q) > 0.05),
    "clip_cov": clip_cov,
    "kl_cov": kl_cov,
    "kimi": lambda b: b.row_sum((b.reward - mean(b.reward)) * b.theta - 0.05 * (b.theta - b.old) ** 2),
    "grpo_tis": lambda b: grpo_with(b, (b.old - b.sampler).exp().clamp(max=2.0)),
    "grpo_mis": grpo_mis,
    "grpo_icepop": grpo_icepop,
    "gdpo": gdpo,
    "pass_at_k": pass_at_k,
    "pass_at_k_best": pass_at_k_best,
    "maxrl": maxrl,
}
"""What each entry maximises: minus its loss."""

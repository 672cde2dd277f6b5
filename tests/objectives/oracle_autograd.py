"""The other second opinion: write down the loss that a trainer minimises and differentiate it.

Everything is padded to rectangles, statistics are matrix products with 0/1 membership matrices, and the
weights are minus what autograd returns for one optimiser step. No closed form of a gradient appears here.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from weight_cases import Row

from audit.objectives.objective import Objective


@dataclass(frozen=True)
class Answer:
    """One list of floats (or flags) per response."""

    advantage: list[float]
    weight: list[list[float]]
    zeroed: list[list[bool]]


def _pad(rows: list[Row], name: str, width: int) -> Tensor:
    """(R, T) rectangle, with 0 wherever the mask is off."""
    out = torch.zeros(len(rows), width, dtype=torch.float64)
    for i, row in enumerate(rows):
        for t, (value, on) in enumerate(zip(getattr(row, name), row.mask, strict=True)):
            if on:
                out[i, t] = value
    return out


def _k(theta: Tensor, ref: Tensor, estimator: str) -> Tensor:
    """KL estimate from r = log ref - log theta."""
    r = ref - theta
    if estimator == "k1":
        return -r
    if estimator == "k2":
        return 0.5 * r**2
    return torch.exp(r) - r - 1.0


def _rewards(rows: list[Row], objective: Objective, *, with_kl: bool) -> np.ndarray:
    reward = np.array([r.reward for r in rows], dtype=np.float64)
    length = np.array([len(r.mask) for r in rows], dtype=np.float64)
    shaping = objective.shaping
    if shaping.clip is not None:
        reward = np.clip(reward, *shaping.clip)
    reward = shaping.factor * reward + shaping.offset
    if shaping.overlong is not None:
        over = shaping.overlong
        into = np.clip((length - (over.max_length - over.cache)) / over.cache, 0.0, 1.0)
        reward = reward - over.penalty * into
    if with_kl and objective.kl.reward is not None:
        width = int(length.max(initial=1))
        on = torch.tensor([list(r.mask) + [False] * (width - len(r.mask)) for r in rows])
        k = _k(_pad(rows, "old", width), _pad(rows, "ref", width), objective.kl.reward.estimator)
        reward = reward - objective.kl.reward.coefficient * (k * on).sum(1).numpy()
    return reward


def _membership(codes: list[int]) -> np.ndarray:
    return (np.array(codes)[:, None] == np.unique(codes)[None, :]).astype(np.float64)


class _Statistics:
    """Mean and std of each pool, handed back per row."""

    def __init__(self, codes: list[int], values: np.ndarray, weight: np.ndarray) -> None:
        member = _membership(codes)
        clean = np.where(weight > 0, values, 0.0)
        self.count = member @ (member.T @ weight)
        self.mean = member @ ((member.T @ (weight * clean)) / np.maximum(member.T @ weight, 1e-300))
        self._squares = member @ (member.T @ (weight * np.where(weight > 0, clean - self.mean, 0.0) ** 2))
        low = np.where(weight > 0, values, np.inf)[:, None] + np.where(member > 0, 0.0, np.inf)
        high = np.where(weight > 0, values, -np.inf)[:, None] - np.where(member > 0, 0.0, np.inf)
        self.dead = (member @ (low.min(0) >= high.max(0))).astype(bool)

    def std(self, ddof: int) -> np.ndarray:
        with np.errstate(invalid="ignore", divide="ignore"):
            freedom = np.where(self.count - ddof > 1e-9, self.count - ddof, 0.0)
            return np.sqrt(self._squares / freedom)


def _pool_weight(rows: list[Row]) -> np.ndarray:
    return np.array([r.sample_weight * (r.scorable and not r.greedy) for r in rows], dtype=np.float64)


def advantages(rows: list[Row], objective: Objective) -> np.ndarray:
    """Advantage of every response, shape (R,)."""
    reward, weight = _rewards(rows, objective, with_kl=True), _pool_weight(rows)
    group = _Statistics([r.group for r in rows], reward, weight)
    batch = _Statistics([r.generation for r in rows], reward, weight)
    kind = objective.baseline.kind
    if kind == "logged":
        advantage = np.array([r.advantage for r in rows])
    else:
        with np.errstate(invalid="ignore", divide="ignore"):
            others = np.where(group.count > 1 + 1e-9, group.count - 1, np.nan)
            loo = (group.count * group.mean - reward) / others
            loo = np.where(np.isnan(others), reward, loo)
        greedy = np.zeros(len(rows))
        for i, row in enumerate(rows):
            for other, value in zip(rows, reward, strict=True):
                if kind == "greedy" and other.greedy and other.group == row.group:
                    greedy[i] = value
        baseline = {
            "none": np.zeros(len(rows)),
            "group_mean": group.mean,
            "leave_one_out": loo,
            "greedy": greedy,
            "batch_mean": batch.mean,
        }[kind]
        advantage = reward - baseline
        if kind in ("group_mean", "leave_one_out"):
            advantage = np.where(group.dead, 0.0, advantage)
        if objective.scale.kind != "none":
            pool = group if objective.scale.kind == "group_std" else batch
            with np.errstate(invalid="ignore", divide="ignore"):
                divided = advantage / (pool.std(objective.scale.ddof) + objective.scale.epsilon)
            advantage = np.where(pool.dead, advantage, divided)
        if objective.scale.reward_clip is not None:
            advantage = np.clip(advantage, *objective.scale.reward_clip)
        advantage = np.where(weight > 0, advantage, 0.0)
    return np.where([r.greedy for r in rows], 0.0, advantage)


def _ratio(theta: Tensor, below: Tensor, mask: Tensor, objective: Objective) -> Tensor:
    """(B, T) ratio with its gradient."""
    log = (theta - below) * mask
    if objective.ratio.level == "token":
        return torch.exp(log)
    total = log.sum(1, keepdim=True)
    if objective.ratio.level == "sequence":
        total = total / mask.sum(1, keepdim=True).clamp(min=1.0)
    return torch.exp(total).expand(log.shape)


def _surrogate(ratio: Tensor, theta: Tensor, advantage: Tensor, objective: Objective) -> Tensor:
    """What the trainer maximises, per token."""
    clip = objective.clip
    if clip.kind == "none":
        return ratio * advantage
    low = None if clip.epsilon_low is None else 1 - clip.epsilon_low
    high = None if clip.epsilon_high is None else 1 + clip.epsilon_high
    bounded = ratio if low is None and high is None else torch.clamp(ratio, low, high)
    if clip.kind == "cispo":
        return bounded.detach() * advantage * theta
    capped = ratio if clip.delta is None else torch.clamp(ratio, max=clip.delta)
    surrogate = torch.min(capped * advantage, bounded * advantage)
    if clip.dual is not None:
        surrogate = torch.where(advantage < 0, torch.max(surrogate, clip.dual * advantage), surrogate)
    return surrogate


def _aggregate(
    per_token: Tensor, mask: Tensor, row_on: Tensor, objective: Objective, tokens: float
) -> Tensor:
    """One number from per-token losses of rows that enter together; ``tokens`` is the N of token-mean."""
    constant = objective.aggregation.constant
    rows = row_on.sum().clamp(min=1.0)
    kind = objective.aggregation.kind
    row_sums = (per_token * mask).sum(1)
    if kind == "seq-mean-token-mean":
        return (row_sums / mask.sum(1).clamp(min=1.0) * row_on).sum() / rows
    if kind == "token-mean":
        return row_sums.sum() / max(tokens, 1e-300)
    if kind == "seq-mean-token-sum":
        return row_sums.sum() / rows
    if kind == "seq-mean-token-sum-norm":
        return (row_sums / constant).sum() / rows
    if kind == "token-sum":
        return row_sums.sum()
    return row_sums.sum() / constant


def answer(rows: list[Row], objective: Objective) -> Answer:
    """Differentiate the loss of every optimiser step of ``rows``."""
    width = max([len(r.mask) for r in rows] + [1])
    full = {name: _pad(rows, name, width) for name in ("theta", "old", "ref", "sampler")}
    mask = torch.tensor([list(r.mask) + [False] * (width - len(r.mask)) for r in rows])
    if objective.filter.mask_truncated:
        mask = mask & ~torch.tensor([r.truncated for r in rows])[:, None]
    on = torch.tensor([not r.greedy for r in rows])
    if objective.filter.dynamic_sampling:
        raw = _rewards(rows, objective, with_kl=False)
        on = on & ~torch.from_numpy(_Statistics([r.group for r in rows], raw, _pool_weight(rows)).dead)
    mask = (mask & on[:, None]).double()
    on = on.double()
    per_row = advantages(rows, objective)
    advantage = torch.from_numpy(per_row)[:, None].expand(-1, width).clone()
    if objective.baseline.kind == "logged" and any(r.token_advantage for r in rows):
        advantage = _pad(rows, "token_advantage", width)
    gradient = torch.zeros(len(rows), width, dtype=torch.float64)
    flat = torch.zeros(len(rows), width, dtype=torch.bool)
    update = torch.tensor([r.update for r in rows])
    micro = torch.tensor([r.micro for r in rows])
    generation = torch.tensor([r.generation for r in rows])
    for step in update.unique():
        theta = full["theta"].clone().requires_grad_(True)
        below = (
            theta.detach() if objective.ratio.denominator == "theta" else full[objective.ratio.denominator]
        )
        ratio = _ratio(theta, below, mask, objective)
        held = ratio.detach().clone().requires_grad_(True)
        surrogate = _surrogate(ratio, theta, advantage, objective)
        if objective.ratio.level == "product" and objective.clip.kind != "cispo":
            surrogate = surrogate / mask.sum(1, keepdim=True).clamp(min=1.0)  # one term per response
        per_token = -surrogate
        if objective.kl.loss is not None:
            k = _k(theta, full["ref"], objective.kl.loss.estimator)
            weighted = ratio * k if objective.kl.loss.gradient == "ratio" else k
            per_token = per_token + objective.kl.loss.coefficient * weighted
        here = (update == step).double()
        losses = []
        if objective.aggregation.scope == "micro_batch":
            for slice_ in micro[(update == step) & (on > 0)].unique():
                inside = here * (micro == slice_)
                piece = mask * inside[:, None]
                losses.append(_aggregate(per_token, piece, on * inside, objective, float(piece.sum())))
        else:
            piece = mask * here[:, None]
            tokens = float(piece.sum())
            if objective.aggregation.scope == "generation_batch":
                batch = generation == generation[update == step][0]
                share = float((on * here * batch).sum()) / max(float((on * batch).sum()), 1.0)
                tokens = float(mask[batch].sum()) * share
            losses.append(_aggregate(per_token, piece, on * here, objective, tokens))
        if not losses:
            continue
        loss = torch.stack(losses).mean()
        (slope,) = torch.autograd.grad(loss, theta)
        gradient += torch.where(here[:, None] > 0, slope, 0.0)
        if objective.clip.kind == "ppo":
            (reach,) = torch.autograd.grad(_surrogate(held, theta, advantage, objective).sum(), held)
            flat |= (reach == 0) & (advantage != 0) & (mask > 0) & (here[:, None] > 0)
    lengths = [len(r.mask) for r in rows]
    return Answer(
        advantage=per_row.tolist(),
        weight=[(-gradient[i, :n]).tolist() for i, n in enumerate(lengths)],
        zeroed=[flat[i, :n].tolist() for i, n in enumerate(lengths)],
    )

"""The other second opinion: write down the loss that a trainer minimises and differentiate it.

Everything is padded to rectangles, statistics are matrix products with 0/1 membership matrices, and the
weights are minus what autograd returns for one optimiser step. No closed form of a gradient appears here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import oracle_advantages
import oracle_counts
import torch
from graph_surrogates import Graph, surrogate
from torch import Tensor
from weight_cases import Row

from audit.objectives.corrections import Correction
from audit.objectives.objective import Aggregation, LossKL, Objective


@dataclass(frozen=True)
class Answer:
    """One list of floats (or flags) per response; flags where the loss itself shows them (PPO's clip)."""

    weight: list[list[float]]
    zeroed: list[list[bool]] | None


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
    if estimator == "abs":
        return torch.abs(r)
    return torch.exp(r) - r - 1.0


def _rewards(rows: list[Row], objective: Objective, *, with_kl: bool) -> np.ndarray:
    reward = np.array([r.reward for r in rows], dtype=np.float64)
    if objective.shaping.weights is not None:
        names = list(objective.shaping.weights)
        parts = np.array([[r.components[n] for n in names] for r in rows]).reshape(len(rows), len(names))
        reward = np.nansum(parts * np.array([objective.shaping.weights[n] for n in names]), axis=1)
        reward[np.isnan(parts).all(1)] = np.nan
    length = np.array([len(r.mask) for r in rows], dtype=np.float64)
    shaping = objective.shaping
    if shaping.clip is not None:
        reward = np.clip(reward, *shaping.clip)
    reward = shaping.factor * reward + shaping.offset
    if shaping.overlong is not None:
        over = shaping.overlong
        into = np.clip(
            (length - (over.max_length - over.cache)) / over.cache, 0.0, 1.0 if over.capped else None
        )
        reward = reward - over.penalty * into
    if with_kl and objective.kl.reward is not None and objective.kl.reward.stage == "before_baseline":
        width = int(length.max(initial=1))
        on = torch.tensor([list(r.mask) + [False] * (width - len(r.mask)) for r in rows])
        k = _k(
            _pad(rows, objective.kl.reward.policy, width),
            _pad(rows, "ref", width),
            objective.kl.reward.estimator,
        )
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


def _pool_weight(rows: list[Row], reward: np.ndarray) -> np.ndarray:
    trained = np.array([r.sample_weight * (not r.greedy) for r in rows], dtype=np.float64)
    return np.where(np.isnan(reward), 0.0, trained)


def advantages(rows: list[Row], objective: Objective) -> np.ndarray:
    """Advantage of every response, shape (R,)."""
    reward = _rewards(rows, objective, with_kl=True)
    weight = _pool_weight(rows, reward)
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
        advantage = np.where(np.isnan(baseline) & (kind == "greedy"), 0.0, reward - baseline)
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


def _ratio(log: Tensor, mask: Tensor, level: str) -> Tensor:
    """(B, T) ratio with its gradient, from log-ratios."""
    if level == "token":
        return torch.exp(log)
    total = (log * mask).sum(1, keepdim=True)
    if level == "product":
        return torch.exp(total).expand(log.shape)
    geometric = torch.exp(total / mask.sum(1, keepdim=True).clamp(min=1.0)).expand(log.shape)
    return geometric if level == "sequence" else geometric.detach() * torch.exp(log - log.detach())


def _correction(full: dict[str, Tensor], mask: Tensor, advantage: Tensor, how: Correction) -> Tensor:
    """(B, T) weight of one sampler correction; ``mask`` is that of the log."""
    u = torch.nan_to_num(full[how.numerator].detach() - full[how.against], nan=0.0) * mask
    if how.level != "token":
        u = u.sum(1, keepdim=True).expand(u.shape)
    if how.level == "sequence":
        u = u / mask.sum(1, keepdim=True).clamp(min=1.0)
    weight = torch.exp(u)
    if how.action == "truncate":
        return weight.clamp(how.low or 0.0, how.high)
    off = torch.zeros_like(weight, dtype=torch.bool)
    if how.low is not None:
        off |= weight < how.low
    if how.high is not None:
        off |= weight > how.high
    if how.keep_nonnegative:
        off &= advantage < 0
    return (weight if how.action == "mask" else torch.ones_like(weight)).masked_fill(off, 0.0)


def _kl_term(theta: Tensor, full: dict[str, Tensor], log: Tensor, ratio: Tensor, kl: LossKL) -> Tensor:
    """(B, T) KL in the loss, without its coefficient."""
    other = full[kl.against or "ref"]
    if kl.gradient == "straight_through":
        weight = 1.0 if kl.ratio_cap is None else ratio.detach().clamp(max=kl.ratio_cap)
        return weight * 0.5 * (theta - other) ** 2
    d = theta - other
    if kl.input_clamp is not None:
        d = d.clamp(-kl.input_clamp, kl.input_clamp)
    k = _k(d, torch.zeros_like(d), kl.estimator)
    if kl.output_clamp is not None:
        k = k.clamp(-kl.output_clamp, kl.output_clamp)
    if kl.gradient == "ratio":
        return ratio * k
    if kl.gradient == "pathwise":
        return k
    # NeMo-RL: what a clamp holds has no gradient, neither from k nor from the ratio.
    free = (d == theta - other) & (k == _k(d, torch.zeros_like(d), kl.estimator))
    return torch.where(free, torch.exp(theta - theta.detach()) * k, k.detach())


@dataclass(frozen=True)
class _Scope:
    """The rows that one loss value spans: its tokens, those that count, and those that enter."""

    mask: Tensor
    counts: Tensor
    """(B,) tokens that count in normalisers."""
    row_on: Tensor
    group: Tensor
    length: Tensor
    tokens: float


def _aggregate(per_token: Tensor, scope: _Scope, how: Aggregation) -> Tensor:
    """One number from per-token losses of rows that enter together."""
    sums = (per_token * scope.mask).sum(1)
    counts = scope.counts * scope.row_on
    rows = (scope.row_on if how.rows == "all" else (counts > 0).double()).sum().clamp(min=1.0)
    if how.constant == "longest":
        constant = (scope.length * scope.row_on).max().clamp(min=1.0).item()
    else:
        constant = how.constant
    if how.kind == "seq-mean-token-mean":
        total = (sums / (counts.clamp(min=1.0) + how.epsilon)).sum() / rows
    elif how.kind == "token-mean":
        total = sums.sum() / (scope.tokens + how.epsilon)
    elif how.kind == "prompt-mean-token-mean":
        prompts = scope.group[scope.row_on > 0].unique()
        means = [
            sums[scope.group == p].sum() / (counts[scope.group == p].sum().clamp(min=1.0) + how.epsilon)
            for p in prompts
        ]
        total = torch.stack(means).mean() if means else sums.sum() * 0.0
    elif how.kind.startswith("seq-mean-token-sum"):
        total = sums.sum() / (constant if how.kind.endswith("-norm") else 1.0) / rows
    else:
        total = sums.sum() / (constant if how.kind.endswith("-norm") else 1.0)
    return total * how.factor


def _high_entropy(entropy: Tensor, mask: Tensor, micro: Tensor, share: float) -> Tensor:
    keep = torch.ones_like(mask)
    if share < 1.0:
        for m in micro.unique():
            inside = (mask > 0) & (micro == m)[:, None]
            if inside.any():
                bound = torch.quantile(entropy[inside], 1 - share)
                keep[inside] = (entropy[inside] >= bound).double()
    return keep


def answer(rows: list[Row], objective: Objective) -> Answer:
    """Differentiate the loss of every optimiser step of ``rows``."""
    width = max([len(r.mask) for r in rows] + [1])
    full = {name: _pad(rows, name, width) for name in ("theta", "old", "ref", "sampler", "entropy")}
    logged = torch.tensor([list(r.mask) + [False] * (width - len(r.mask)) for r in rows])
    mask = logged
    if objective.filter.mask_truncated:
        mask = mask & ~torch.tensor([r.truncated for r in rows])[:, None]
    on = torch.tensor([not r.greedy for r in rows])
    if objective.filter.dynamic_sampling:
        raw = _rewards(rows, objective, with_kl=False)
        on = on & ~torch.from_numpy(_Statistics([r.group for r in rows], raw, _pool_weight(rows, raw)).dead)
    table = oracle_advantages.of_tokens(rows, objective)
    advantage = torch.zeros(len(rows), width, dtype=torch.float64)
    for i, cells in enumerate(table):
        for t, (value, _) in enumerate(cells):
            advantage[i, t] = value
    if objective.filter.zero_advantage:
        on = on & torch.tensor(oracle_counts.in_loss(rows, objective))
    mask = (mask & on[:, None]).double()
    on = on.double()
    policy_weight, kl_weight, counting = torch.ones_like(mask), torch.ones_like(mask), mask.clone()
    absorbed = torch.zeros_like(mask)
    for how in objective.ratio.corrections:
        weight = _correction(full, logged.double(), advantage, how)
        policy_weight = policy_weight * weight
        share = torch.ones_like(mask) if how.level == "token" else mask.sum(1, keepdim=True).clamp(min=1.0)
        absorbed = absorbed + weight.log().clamp(np.log(1e-8), 20.0) / share
        if how.weighs_kl:
            kl_weight = kl_weight * weight
        if how.leaves_denominator:
            counting = counting * (weight != 0)
    update = torch.tensor([r.update for r in rows])
    micro = torch.tensor([r.micro for r in rows])
    generation = torch.tensor([r.generation for r in rows])
    entropic = _high_entropy(full["entropy"], mask, micro, objective.filter.top_entropy)
    gradient = torch.zeros(len(rows), width, dtype=torch.float64)
    flat = torch.zeros(len(rows), width, dtype=torch.bool)
    group = torch.tensor([r.group for r in rows])
    length = torch.tensor([len(r.mask) for r in rows], dtype=torch.float64)
    counts = counting.sum(1)

    def value(per_token: Tensor, how: Aggregation, step: Tensor) -> Tensor:
        here = (update == step).double()
        losses = []
        if how.scope == "micro_batch":
            for slice_ in micro[(update == step) & (on > 0)].unique():
                inside = here * (micro == slice_) * on
                tokens = max(float((counts * inside).sum()), 1.0)
                piece = _Scope(mask * inside[:, None], counts, inside, group, length, tokens)
                losses.append(_aggregate(per_token, piece, how))
        else:
            tokens = max(float((counts * here * on).sum()), 1.0)
            if how.scope == "generation_batch":
                batch = generation == generation[update == step][0]
                share = float((on * here * batch).sum()) / max(float((on * batch).sum()), 1.0)
                total = max(float((counts * on)[batch].sum()), 1.0) + how.epsilon
                tokens = total * share - how.epsilon if share > 0 else 1.0
            piece = _Scope(mask * here[:, None], counts, on * here, group, length, tokens)
            losses.append(_aggregate(per_token, piece, how))
        return torch.stack(losses).mean() if losses else per_token.sum() * 0.0

    for step in update.unique():
        theta = full["theta"].clone().requires_grad_(True)
        name = objective.ratio.denominator
        below = theta.detach() if name == "theta" else full[name]
        log = (theta - below) * mask
        if objective.ratio.clamp is not None:
            log = log.clamp(-objective.ratio.clamp, objective.ratio.clamp)
        ratio = _ratio(log, mask, objective.ratio.level)
        graph = Graph(theta, below, log, ratio, advantage, mask, absorbed, micro)
        written = surrogate(graph, objective.clip)
        if objective.clip.kind != "vespo":
            written = written * policy_weight
        written = written * entropic
        if objective.ratio.level == "product" and objective.clip.kind not in ("cispo", "vespo"):
            written = written / mask.sum(1, keepdim=True).clamp(min=1.0)  # one term per response
        loss = value(-written, objective.aggregation, step)
        kl = objective.kl.loss
        if kl is not None:
            term = kl.coefficient * kl_weight * _kl_term(theta, full, log, ratio, kl)
            loss = loss + value(term, kl.aggregation or objective.aggregation, step)
        (slope,) = torch.autograd.grad(loss, theta)
        here = (update == step)[:, None]
        gradient += torch.where(here, slope, 0.0)
        if objective.clip.kind == "ppo":
            held = ratio.detach().clone().requires_grad_(True)
            (reach,) = torch.autograd.grad(surrogate(replace(graph, ratio=held), objective.clip).sum(), held)
            flat |= (reach == 0) & (advantage != 0) & (mask > 0) & here
    lengths = [len(r.mask) for r in rows]
    return Answer(
        weight=[(-gradient[i, :n]).tolist() for i, n in enumerate(lengths)],
        zeroed=[flat[i, :n].tolist() for i, n in enumerate(lengths)]
        if objective.clip.kind == "ppo"
        else None,
    )

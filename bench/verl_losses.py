"""The nine objectives by verl's released estimators and losses, and its KL estimates; float32."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from conformance.verl_calls import estimator, verl
from torch import Tensor

from bench.padded import MicroBatch, Update
from bench.sizes import BUDGET

Loss = Callable[[MicroBatch, Tensor], Tensor]
KINDS = {"k1": "kl", "k2": "mse", "k3": "low_var_kl"}


def _remax(update: Update) -> Tensor:
    mask = update.outcome.weight
    return verl().algos.get_adv_estimator_fn("remax")(update.reward[:, None], update.baseline, mask)[0]


def _of(name: str, **options: Any) -> Callable[[Update], Tensor]:
    made = estimator(name, **options)
    return lambda update: made(update.outcome)


ROWS = {"loss_agg_mode": "seq-mean-token-mean"}
OBJECTIVES: dict[str, tuple[Callable[[Update], Tensor], str, dict[str, Any]]] = {
    "reinforce": (lambda update: update.reward[:, None], "gpg", {}),
    "rloo": (_of("rloo_vectorized"), "gpg", {}),
    "remax": (_remax, "gpg", {}),
    "ppo": (lambda update: update.advantage[:, None], "vanilla", {}),
    "grpo": (_of("grpo_vectorized"), "vanilla", {**ROWS, "kl": 0.04}),
    "dr_grpo": (
        _of("grpo", norm_adv_by_std_in_grpo=False),
        "vanilla",
        {"loss_agg_mode": "seq-mean-token-sum-norm"},
    ),
    "dapo": (_of("grpo_vectorized"), "vanilla", {"clip_ratio_low": 0.2, "clip_ratio_high": 0.28}),
    "gspo": (_of("grpo_vectorized"), "gspo", {**ROWS, "clip_ratio_low": 3e-4, "clip_ratio_high": 4e-4}),
    "cispo": (_of("grpo_vectorized"), "cispo", {"clip_ratio_low": 0.2, "clip_ratio_high": 4.0}),
}
"""Advantages, loss, options of the actor; ``kl`` is the coefficient of k3 in the loss."""


def losses(update: Update) -> dict[str, Loss]:
    """Advantages of an update are formed here, once for each objective."""
    return {name: _loss(update, *entry) for name, entry in OBJECTIVES.items()}


def _loss(update: Update, advantages: Any, mode: str, options: dict[str, Any]) -> Loss:
    lib, advantage = verl(), advantages(update).float()
    actor = dict(options)
    coefficient = actor.pop("kl", 0.0)
    config = lib.actor(
        strategy="fsdp",
        rollout_n=8,
        ppo_micro_batch_size_per_gpu=1,
        policy_loss=lib.policy(loss_mode=mode),
        **actor,
        global_batch_info={
            "dp_size": 1,
            "batch_num_tokens": update.tokens,
            "global_batch_size": len(update.reward),
            "loss_scale_factor": BUDGET,
        },
    )
    chosen = lib.algos.get_policy_loss_fn(mode)
    aggregation = actor.get("loss_agg_mode", "token-mean")

    def loss(part: MicroBatch, theta: Tensor) -> Tensor:
        total, _ = chosen(
            old_log_prob=part.old,
            log_prob=theta,
            advantages=advantage[part.rows].expand(theta.shape),
            response_mask=part.mask,
            loss_agg_mode=aggregation,
            config=config,
            rollout_is_weights=None,
        )
        if coefficient:
            estimate = lib.algos.kl_penalty(theta, part.ref, KINDS["k3"])
            info = config.global_batch_info
            total = total + coefficient * lib.algos.agg_loss(estimate, part.mask, aggregation, **info)
        return total

    return loss


def kl_sums(part: MicroBatch) -> list[Tensor]:
    """k1, k2, k3 of theta and the reference, summed over each response."""
    with torch.no_grad():
        found = [verl().algos.kl_penalty(part.theta, part.ref, kind) for kind in KINDS.values()]
        return [(values * part.mask).sum(1) for values in found]

"""verl 0.9.1: its estimators and losses, called on a padded batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from types import SimpleNamespace
from typing import Any

from torch import Tensor

from conformance.batch import Batch
from conformance.case import Answer, gradient
from conformance.stubs import stub

Estimator = Callable[[Batch], Tensor]
"""From a batch to advantages, shape (R, T)."""


@cache
def verl() -> SimpleNamespace:
    """The modules that decide."""
    stub("ray", "vllm", "flash_attn", "deepspeed", "megatron")
    from verl.trainer.ppo import core_algos, rollout_corr_helper
    from verl.workers.config import ActorConfig, PolicyLossConfig

    return SimpleNamespace(
        algos=core_algos, corrections=rollout_corr_helper, actor=ActorConfig, policy=PolicyLossConfig
    )


def estimator(name: str, **options: Any) -> Estimator:
    """Advantages by the registered estimator ``name``, from rewards at the last loss token."""

    def advantages(batch: Batch) -> Tensor:
        made = verl().algos.get_adv_estimator_fn(name)(
            token_level_rewards=batch.token_rewards(),
            response_mask=batch.weight,
            index=batch.group.numpy(),
            **options,
        )
        return made[0]

    return advantages


GRPO = estimator("grpo")


def answer(
    advantages: Estimator,
    actor: Mapping[str, Any] | None = None,
    policy: Mapping[str, Any] | None = None,
    *,
    constant: float | None = None,
    kl: tuple[str, float] | None = None,
    weights: Callable[[Batch], Tensor] | None = None,
    mask: Callable[[Batch], Tensor] | None = None,
    kept_tokens: bool = False,
    denominator: str = "old",
) -> Callable[[Batch], Answer]:
    """Gradient of the loss that an actor with these options minimises, over all micro-batches of the update.

    Parameters
    ----------
    actor, policy
        Fields of verl's ActorConfig and PolicyLossConfig.
    constant
        ``loss_scale_factor``.
    kl
        Kind and coefficient of the KL in the loss.
    weights, mask
        Sampler correction: weights of tokens, and the response mask after rejection.
    kept_tokens
        Whether the global token count is that of ``mask``.
    """
    actor, policy = dict(actor or {}), dict(policy or {})
    mode = actor.get("loss_agg_mode", "token-mean")

    def of(batch: Batch) -> Answer:
        lib, advantage = verl(), advantages(batch).double()
        full = batch.weight
        used = full if mask is None else mask(batch).double()
        config = lib.actor(
            strategy="fsdp",
            rollout_n=4,
            ppo_micro_batch_size_per_gpu=1,
            policy_loss=lib.policy(**policy),
            **actor,
            global_batch_info={
                "dp_size": 1,
                "batch_num_tokens": (used if kept_tokens else full).sum(),
                "global_batch_size": batch.rows,
                "loss_scale_factor": constant,
            },
        )
        chosen = lib.algos.get_policy_loss_fn(policy.get("loss_mode", "vanilla"))
        below = getattr(batch, denominator)

        def loss(theta: Tensor) -> Tensor:
            total = theta.new_zeros(())
            for rows in batch.slices():
                part, _ = chosen(
                    old_log_prob=below[rows],
                    log_prob=theta[rows],
                    advantages=advantage[rows],
                    response_mask=used[rows],
                    loss_agg_mode=mode,
                    config=config,
                    rollout_is_weights=None if weights is None else weights(batch)[rows],
                )
                total = total + part
                if kl is not None:
                    estimate = lib.algos.kl_penalty(theta[rows], batch.ref[rows], kl[0])
                    info = config.global_batch_info
                    total = total + kl[1] * lib.algos.agg_loss(estimate, used[rows], mode, **info)
            return total

        return Answer(advantage, gradient(batch, loss))

    return of

"""SkyRL: ``trainer.algorithm`` to an objective.

Read: skyrl/backends/skyrl_train/utils/{ppo_utils,off_policy_correction_utils}.py, workers/worker.py,
skyrl/train/{trainer,config/config}.py of the released package 0.3.0; a9564572e (2026-08-21) for later CISPO
defaults. Where it departs from the papers:

- the KL in the loss is on by default, and always a mean over rows of row means; k3 has its input clamped to
  ±20 and its value to ±10 (in the reward too, which is not followed here).
- the loss reduction is folded into the advantages first, so the covariance losses see A / N.
- masks of the off-policy correction leave the normaliser as it was.
- a group of one trains on the raw reward; MaxRL with a group mean below 0 turns its sign (here: 0).
- ``rollout_is`` has PPO's band, but a token outside of it is dropped whatever its advantage.
- ``dppo`` and ``rollout_is`` compare with the sampler; without its log-probs dppo takes the old policy.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from audit.errors import BadObjective
from audit.objectives.dialects.config import Options
from audit.objectives.dialects.declared import Declared
from audit.objectives.dialects.skyrl_loss import surrogate
from audit.objectives.objective import (
    KL,
    Aggregation,
    Baseline,
    Filter,
    LossKL,
    Objective,
    RewardKL,
    Scale,
    Whiten,
)

_A = "trainer.algorithm."
_WHITEN = Whiten(ddof=1, epsilon=1e-8, epsilon_in="variance")
_ROWS = Aggregation(kind="seq-mean-token-mean")


class _Algorithm(Options):
    def __getitem__(self, key: str) -> Any:
        return super().__getitem__(self.full(key))

    def full(self, key: str) -> str:
        return key if "." in key else f"{_A}{key}"


def objective_from_config(config: Mapping[str, Any], version: str, trainer: str | None = None) -> Declared:
    """Read a recorded config (its ``trainer.algorithm``, or that section alone) as SkyRL would.

    Raises
    ------
    BadObjective
        An option that an objective cannot express.
    """
    del trainer
    o = _Algorithm.pinned("SkyRL", "skyrl", config, version)
    if o["use_entropy_loss"]:
        raise o.refuse("use_entropy_loss", "an entropy bonus in the loss")
    if o["advantage_batch_normalize"]:
        raise o.refuse("advantage_batch_normalize", "the mean is taken over padding too")
    if (o["kl_ctrl"] or {}).get("type", "fixed") != "fixed":
        raise o.refuse("kl_ctrl", "the coefficient adapts")
    estimator, loss = o["advantage_estimator"], o["policy_loss_type"]
    aggregation = _aggregation(o)
    baseline, scale = _advantage(o, estimator)
    ratio, clip = surrogate(o, loss)
    objective = Objective(
        name=f"skyrl-{estimator}" + (f"-{loss}" if loss != "regular" else ""),
        filter=_filter(o, aggregation),
        baseline=baseline,
        scale=scale,
        ratio=ratio,
        clip=clip,
        aggregation=aggregation,
        kl=_kl(o, estimator, aggregation),
    )
    return o.declared(objective)


def _advantage(o: Options, estimator: str) -> tuple[Baseline, Scale]:
    std = Scale(kind="group_std", ddof=1, epsilon=1e-6) if o["grpo_norm_by_std"] else Scale()
    if estimator == "reinforce++" and o["gamma"] != 1.0:
        raise o.refuse("gamma", "discounted returns without a critic")
    table = {
        "grpo": (Baseline(kind="group_mean", singleton="raw"), std),
        "rloo": (Baseline(kind="leave_one_out"), Scale()),
        "maxrl": (Baseline(kind="group_mean", singleton="raw"), Scale(kind="group_mean", epsilon=1e-6)),
        "reinforce++": (Baseline(), Scale(whiten=_WHITEN)),
        "gae": (Baseline(kind="gae", gamma=o["gamma"], lam=o["lambd"]), Scale(whiten=_WHITEN)),
    }
    return o.one_of("advantage_estimator", table)


def _aggregation(o: Options) -> Aggregation:
    if o["loss_reduction"] == "seq_mean_token_sum_norm" and o["max_seq_len"] is None:
        raise BadObjective(
            "SkyRL's seq_mean_token_sum_norm needs max_seq_len, which this config leaves unset."
        )
    table = {
        "token_mean": Aggregation(kind="token-mean"),
        "token_mean_legacy": Aggregation(kind="token-mean", scope="micro_batch"),
        "sequence_mean": _ROWS,
        "prompt_mean": Aggregation(kind="prompt-mean-token-mean"),
        "seq_mean_token_sum_norm": Aggregation(kind="seq-mean-token-sum-norm", constant=o["max_seq_len"]),
    }
    return o.one_of("loss_reduction", table)


def _kl(o: Options, estimator: str, aggregation: Aggregation) -> KL:
    coefficient, kind = o["kl_loss_coef"], o["kl_estimator_type"]
    in_loss, in_reward = o["use_kl_loss"], o["use_kl_in_reward"]
    if in_loss and in_reward:
        raise BadObjective("SkyRL takes KL in the reward or in the loss: set use_kl_loss=false.")
    if not coefficient or not (in_loss or in_reward):
        return KL()
    if in_reward:
        by_token: Any = {"reinforce++": "to_go", "gae": "token"}.get(estimator)
        if by_token is None:
            return KL(reward=RewardKL(coefficient=coefficient, estimator=kind))
        reward = RewardKL(coefficient=coefficient, estimator=kind, stage="after_scale", form=by_token)
        return KL(reward=reward)
    return KL(
        loss=LossKL(
            coefficient=coefficient,
            estimator=kind,
            input_clamp=20.0 if kind == "k3" else None,
            output_clamp=10.0 if kind == "k3" else None,
            aggregation=None if aggregation == _ROWS else _ROWS,
        )
    )


def _filter(o: Options, aggregation: Aggregation) -> Filter:
    masked = o["zero_variance_filter"]
    if masked and (aggregation.kind != "token-mean" or (o["use_kl_loss"] and o["kl_loss_coef"])):
        raise o.refuse("zero_variance_filter", "groups are masked but stay in the count of rows")
    sampled = (o["dynamic_sampling"] or {}).get("type") is not None
    return Filter(dynamic_sampling=masked or sampled, mask_truncated=o["generator.apply_overlong_filtering"])

"""tinker-cookbook: ``rl.train.Config`` to an objective.

Read: tinker_cookbook/rl/{data_processing,metrics,train}.py of the released package 0.6.1; the losses run on
the service and are known from its documentation [read only]. Where it departs from the papers:

- the loss is a sum over tokens, without a normaliser: twice the batch is twice the gradient.
- the ratio is against the sampler; only ``ppo`` and ``cispo`` bound it, by absolute thresholds.
- advantages are centred in the group, not divided by a std.
- the KL penalty adds kl_penalty_coef · (mean KL - KL of the token), of the sampler to the base model.
- asynchronous runs train with ``async_config.loss_fn`` instead of ``loss_fn``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from audit.objectives.dialects.config import Options
from audit.objectives.dialects.declared import Declared
from audit.objectives.objective import (
    KL,
    Aggregation,
    Baseline,
    Filter,
    Objective,
    Ratio,
    RewardKL,
)
from audit.objectives.surrogates import AnySurrogate, CISPOClip, NoClip, PPOClip, Regression


def objective_from_config(config: Mapping[str, Any], version: str, trainer: str | None = None) -> Declared:
    """Read a recorded training config as tinker-cookbook would.

    Raises
    ------
    BadObjective
        An option that an objective cannot express, or a loss whose definition is not public.
    """
    del trainer
    o = Options.pinned("tinker-cookbook", "tinker", config, version)
    loss = o["loss_fn"]
    if o["async_config"] is not None:
        loss = o["async_config"].get("loss_fn", "stable_reinforce")
        if loss == "stable_reinforce":
            raise o.refuse("async_config", "the loss stable_reinforce runs on the service")
    coefficient = o["kl_penalty_coef"]
    if coefficient and o["kl_discount_factor"]:
        raise o.refuse("kl_discount_factor", "discounted sums of a centred KL")
    kl = RewardKL(coefficient=coefficient, stage="after_scale", form="centred", policy="sampler")
    objective = Objective(
        name=f"tinker-{loss}",
        filter=Filter(dynamic_sampling=o["remove_constant_reward_groups"]),
        baseline=Baseline(kind="group_mean"),
        ratio=Ratio(denominator="sampler"),
        clip=_clip(o, loss),
        aggregation=Aggregation(kind="token-sum"),
        kl=KL(reward=kl if coefficient else None),
    )
    return o.declared(objective)


def _clip(o: Options, loss: str) -> AnySurrogate:
    given = o["loss_fn_config"] or {}
    # The documented thresholds; epsilon is their distance from 1.
    band = {
        "epsilon_low": 1.0 - given.get("clip_low_threshold", 0.8),
        "epsilon_high": given.get("clip_high_threshold", 1.2) - 1.0,
    }
    if loss == "importance_sampling":
        return NoClip()
    if loss == "ppo":
        return PPOClip(**band)
    if loss == "cispo":
        return CISPOClip(**band)
    if loss == "dro" and "beta" in given:
        return Regression(tau=given["beta"])
    raise o.refuse("loss_fn", f"{loss} runs on the service, and its settings are not in the config")

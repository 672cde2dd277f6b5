"""slime, and its fork miles: the arguments of a run to an objective.

Read: slime/utils/ppo_utils.py, slime/backends/megatron_utils/{loss,cp_utils}.py, slime/ray/rollout.py and
slime/utils/arguments.py at 624b824a8 (2026-08-21, 0.3.1) [read only: no released package]; miles is taken to
have the same. Where it departs from the papers:

- if the samples do not number n_samples_per_prompt · rollout_batch_size, the whole batch is one group.
- a row mean divides by the loss tokens of the whole rollout, which its segments share.
- ``kl_coef`` does nothing with grpo, gspo and cispo; the default ``kl_loss_type`` k1 has no mean gradient.
- ``low_var_kl`` is k3 with its value clamped to ±10 (in the reward too, not followed here); k3 is not.
- cispo keeps the lower bound unless eps_clip >= 1.
- the off-policy sequence mask compares theta with the policy that the ratio divides by.
- with one optimiser step per rollout the old policy is theta itself, and the ratio 1.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from audit.objectives.dialects.config import Options
from audit.objectives.dialects.declared import Declared
from audit.objectives.objective import (
    KL,
    Aggregation,
    Baseline,
    Correction,
    Filter,
    LossKL,
    Objective,
    Ratio,
    RewardKL,
    Scale,
    Whiten,
)
from audit.objectives.surrogates import CISPOClip, PPOClip

_GROUPED = ("grpo", "gspo", "cispo")
_WHITEN = Whiten(ddof=1, epsilon=1e-8, epsilon_in="variance")


def objective_from_config(config: Mapping[str, Any], version: str, trainer: str | None = None) -> Declared:
    """Read recorded arguments ("eps_clip" or "--eps-clip") as slime would.

    Raises
    ------
    BadObjective
        An option that an objective cannot express.
    """
    del trainer
    o = Options.pinned("slime", "slime", config, version)
    own = "a function of the run's own"
    o.need_off(
        entropy_coef="an entropy bonus in the loss",
        use_opd="distillation from a teacher",
        disable_compute_advantages_and_returns="there are no advantages",
        custom_loss_function_path=own,
        custom_advantage_function_path=own,
        custom_pg_loss_reducer_function_path=own,
        custom_reward_post_process_path=own,
    )
    if not o["compute_advantages_and_returns"]:
        raise o.refuse("compute_advantages_and_returns", "there are no advantages")
    if o["loss_type"] != "policy_loss":
        raise o.refuse("loss_type", "not a policy gradient")
    estimator: str = o["advantage_estimator"]
    low = o["eps_clip"]
    high = low if o["eps_clip_high"] is None else o["eps_clip_high"]
    cispo = estimator == "cispo"
    baseline, scale = _advantage(o, estimator)
    if o["ref_update_interval"]:
        o.notes.append("The reference is not frozen (ref_update_interval): logp_ref is what each step used.")
    objective = Objective(
        name=f"slime-{estimator}",
        filter=_filter(o),
        baseline=baseline,
        scale=scale,
        ratio=_ratio(o, estimator),
        clip=CISPOClip(epsilon_low=low, epsilon_high=high)
        if cispo
        else PPOClip(epsilon_low=low, epsilon_high=high, dual=o["eps_clip_c"]),
        aggregation=Aggregation(
            kind="token-mean" if o["calculate_per_token_loss"] else "seq-mean-token-mean"
        ),
        kl=_kl(o, estimator),
    )
    return o.declared(objective)


def _advantage(o: Options, estimator: str) -> tuple[Baseline, Scale]:
    kinds = dict.fromkeys((*_GROUPED, "reinforce_plus_plus_baseline"), "group_mean")
    kind: Any = o.one_of("advantage_estimator", {**kinds, "reinforce_plus_plus": "none", "ppo": "gae"})
    normalised = o["rewards_normalization"] and not o["disable_rewards_normalization"]
    if kind == "group_mean" and not normalised:
        kind = "none"
    if kind != "gae" and estimator == "reinforce_plus_plus" and o["gamma"] != 1.0:
        raise o.refuse("gamma", "discounted returns without a critic")
    discount = {"gamma": o["gamma"], "lam": o["lambd"]} if kind == "gae" else {}
    std = o["grpo_std_normalization"] and not o["disable_grpo_std_normalization"]
    divided = estimator in _GROUPED and normalised and std
    if divided and o["n_samples_per_prompt"] == 1:
        o.notes.append("n_samples_per_prompt=1: slime's std of one reward is not a number; here it is 0.")
    whiten = _WHITEN if o["normalize_advantages"] else None
    scale = Scale(whiten=whiten)
    if divided:
        scale = Scale(kind="group_std", ddof=1, epsilon=1e-6, whiten=whiten)
    return Baseline(kind=kind, **discount), scale


def _ratio(o: Options, estimator: str) -> Ratio:
    denominator: Any = "sampler" if o["use_rollout_logprobs"] else "old"
    corrections = []
    if o["use_tis"]:
        path = o["custom_tis_function_path"] or "vanilla_tis_function"
        actions = {"vanilla_tis_function": "truncate", "icepop_function": "mask"}
        action: Any = actions.get(path.rpartition(".")[2])
        if action is None:
            raise o.refuse("custom_tis_function_path", "a function of the run's own")
        corrections.append(Correction(action=action, low=o["tis_clip_low"], high=o["tis_clip"]))
    if o["use_opsm"]:
        gate = Correction(
            action="gate",
            level="sequence",
            numerator="theta",
            against=denominator,
            low=math.exp(-o["opsm_delta"]),
            keep_nonnegative=True,
        )
        corrections.append(gate)
    level: Any = "sequence" if estimator == "gspo" else "token"
    return Ratio(denominator=denominator, level=level, corrections=tuple(corrections))


def _kl(o: Options, estimator: str) -> KL:
    kinds: dict[str, Any] = {"k1": "k1", "k2": "k2", "k3": "k3", "low_var_kl": "k3"}
    kind = o.one_of("kl_loss_type", kinds)
    reward = loss = None
    if o["kl_coef"] and estimator in _GROUPED:
        o.notes.append(f"kl_coef={o['kl_coef']} does nothing with {estimator}.")
    elif o["kl_coef"]:
        form: Any = "to_go" if estimator == "reinforce_plus_plus" else "token"
        policy: Any = "sampler" if o["use_rollout_logprobs"] else "old"
        reward = RewardKL(
            coefficient=o["kl_coef"], estimator=kind, stage="after_scale", form=form, policy=policy
        )
    if o["use_kl_loss"] and o["kl_loss_coef"]:
        clamped, unbiased = o["kl_loss_type"] == "low_var_kl", o["use_unbiased_kl"]
        if unbiased and estimator == "gspo":
            raise o.refuse("use_unbiased_kl", "KL weighted by token ratios beside a response ratio")
        if unbiased and clamped:
            o.notes.append("low_var_kl clamps ratio · k at 10, here k: they differ where k is near 10.")
        loss = LossKL(
            coefficient=o["kl_loss_coef"],
            estimator=kind,
            gradient="ratio" if unbiased else "pathwise",
            output_clamp=10.0 if clamped else None,
        )
    return KL(reward=reward, loss=loss)


def _filter(o: Options) -> Filter:
    path = o["dynamic_sampling_filter_path"]
    if path and path.endswith("check_reward_nonzero_std"):
        return Filter(dynamic_sampling=True)
    if path:
        o.notes.append(f"Groups were kept by {path}, which was not read: all that were logged count.")
    return Filter()

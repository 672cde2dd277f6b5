"""open-instruct: the arguments of ``grpo_fast`` to an objective.

Read: open_instruct/{grpo_utils,grpo_fast,data_loader,model_utils,rl_utils}.py at e6c3044aa (2026-08-20) [read
only: no released package]. Where it departs from the papers:

- advantages are centred, not divided by a std (``centered``); ``standard`` has ddof 0.
- the clip is wider above (0.272) by default; cispo has no lower bound.
- the KL of the loss is on (0.05); estimator 2 is k3 without the ratio, 3 is ratio · k1; log-ratios to the
  reference are clamped to ±40.
- the ratio of trainer to sampler is truncated at 2 by default and multiplies the policy term only.
- groups without spread are dropped by default.
- the policy under the ratio is theta itself with one mini-batch and one epoch: the ratio is then 1.
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
    Correction,
    Filter,
    LossKL,
    Objective,
    Ratio,
    Scale,
)
from audit.objectives.surrogates import AnySurrogate, CISPOClip, PPOClip

_ESTIMATORS: dict[int, dict[str, Any]] = {
    0: {"estimator": "k1"},
    1: {"estimator": "k2"},
    2: {"estimator": "k3"},
    3: {"estimator": "k1", "gradient": "ratio"},
}


def objective_from_config(config: Mapping[str, Any], version: str, trainer: str | None = None) -> Declared:
    """Read recorded arguments ("clip_higher" or "--clip_higher") as open-instruct would.

    Raises
    ------
    BadObjective
        An option that an objective cannot express.
    """
    del trainer
    o = Options.pinned("open-instruct", "open_instruct", config, version, mixed=("loss_denominator",))
    o.need_off(mask_truncated_completions="cut-off rows go before groups are cut, which shifts the groups")
    low, high = o["clip_lower"], o["clip_higher"]
    clips: dict[str, AnySurrogate] = {
        "dapo": PPOClip(epsilon_low=low, epsilon_high=high),
        "cispo": CISPOClip(epsilon_high=high),
    }
    scales = {"centered": Scale(), "standard": Scale(kind="group_std", epsilon=1e-8)}
    from_sampler = o["use_vllm_logprobs"]
    if o["num_mini_batches"] == o["num_epochs"] == 1 and not from_sampler:
        o.notes.append("One mini-batch and one epoch: the policy ratio is 1 and the clip never acts.")
    if o["ref_policy_update_freq"]:
        o.notes.append(
            "The reference is not frozen (ref_policy_update_freq): logp_ref is what each step used."
        )
    objective = Objective(
        name=f"open-instruct-{o['loss_fn']}",
        filter=Filter(dynamic_sampling=o["filter_zero_std_samples"]),
        baseline=Baseline(kind="group_mean"),
        scale=o.one_of("advantage_normalization_type", scales),
        ratio=Ratio(denominator="sampler" if from_sampler else "old", corrections=_corrections(o)),
        clip=o.one_of("loss_fn", clips),
        aggregation=_aggregation(o["loss_denominator"]),
        kl=KL(loss=_kl(o)),
    )
    return o.declared(objective)


def _aggregation(denominator: str | float) -> Aggregation:
    if denominator == "token":
        return Aggregation(kind="token-mean")
    return Aggregation(kind="token-sum-norm", constant=float(denominator))


def _corrections(o: Options) -> tuple[Correction, ...]:
    """Bounds of 0 are off."""
    if not o["use_rho_correction"] or o["use_vllm_logprobs"]:
        return ()
    level: Any = "sequence" if o["rho_mask_sequence_level"] else "token"
    low, high = o["rho_mask_lower_bound"] or None, o["rho_mask_upper_bound"] or None
    clamp_low, clamp_high = o["rho_clamp_lower_bound"] or None, o["rho_clamp_upper_bound"] or None
    weight = Correction(level=level, low=clamp_low, high=clamp_high)
    if low is None and high is None:
        return (weight,)
    if o["rho_mask_tv_divergence"]:
        raise o.refuse("rho_mask_tv_divergence", "a gate on a divergence from the sampler")
    return weight, Correction(action="gate", level=level, low=low, high=high)


def _kl(o: Options) -> LossKL | None:
    if not o["beta"] or not o["load_ref_policy"]:
        return None
    how = o.one_of("kl_estimator", _ESTIMATORS)
    return LossKL(coefficient=o["beta"], input_clamp=40.0, **how)

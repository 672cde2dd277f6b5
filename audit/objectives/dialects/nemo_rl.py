"""NeMo-RL: the sections ``grpo`` and ``loss_fn`` to an objective.

Read: nemo_rl/algorithms/loss/loss_functions.py, advantage_estimator.py, utils.py, grpo.py,
reward_functions.py and examples/configs/grpo_math_1B.yaml at 7ea279abf (2026-08-22, after 0.7.0; tags 0.6.0
and 0.7.0 for the KL gradient) [read only: no released package]. Where it departs from the papers:

- baseline and std are both those of the other responses of the group (ddof 1); where the others all agree
  nothing is divided, so a lone success has advantage 1.
- every mean divides by count + 1e-8 (for rows this is not followed here).
- from 0.7.0 the k of the loss is multiplied by a ratio of value 1 whose gradient counts; its clamps
  (input ±20, output ±10) leave no gradient at all.
- responses cut off by ``overlong_filtering`` leave the row count too, not the baseline.
- the overlong penalty has no cap at -1.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from audit.errors import BadObjective
from audit.objectives.dialects.config import Options
from audit.objectives.dialects.declared import Declared
from audit.objectives.dialects.nemo_rl_reward import advantage_of, shaping_of
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
)
from audit.objectives.surrogates import AnySurrogate, CISPOClip, NoClip, PPOClip


def objective_from_config(config: Mapping[str, Any], version: str, trainer: str | None = None) -> Declared:
    """Read a recorded master config of GRPO as NeMo-RL would.

    Raises
    ------
    BadObjective
        An option that an objective cannot express.
    """
    del trainer
    o = Options.pinned("NeMo-RL", "nemo_rl", config, version)
    o.need_off(
        grpo__seq_logprob_error_threshold="responses are masked by their distance from the sampler",
        grpo__invalid_tool_call_advantage="single tokens get an advantage of their own",
        grpo__malformed_thinking_advantage="single tokens get an advantage of their own",
        loss_fn__positive_example_nll_weight="a likelihood term on successes in the loss",
    )
    estimator = {"name": "grpo", **(o["grpo.adv_estimator"] or {})}
    baseline, scale = advantage_of(o, estimator)
    whole = o["loss_fn.sequence_level_importance_ratios"]
    by_token = o["loss_fn.token_level_loss"]
    if whole and by_token:
        raise BadObjective("NeMo-RL's sequence_level_importance_ratios needs token_level_loss=False.")
    clip = _clip(o)
    objective = Objective(
        name=f"nemo-rl-{estimator['name']}" + ("-gspo" if whole else ""),
        shaping=shaping_of(o),
        filter=_filter(o, baseline),
        baseline=baseline,
        scale=scale,
        ratio=_ratio(o, on_policy=isinstance(clip, NoClip)),
        clip=clip,
        aggregation=Aggregation(
            kind="token-mean" if by_token else "seq-mean-token-mean", rows="nonempty", epsilon=1e-8
        ),
        kl=_kl(o, estimator["name"]),
    )
    return o.declared(objective)


def _filter(o: Options, baseline: Baseline) -> Filter:
    dynamic = o["grpo.use_dynamic_sampling"]
    if dynamic and baseline.kind == "leave_one_out":
        why = "rows are dropped where the other rewards agree, a lone success with them"
        raise o.refuse("grpo.use_dynamic_sampling", why)
    if dynamic and (o["grpo.reward_shaping"] or {}).get("enabled"):
        o.notes.append("Groups were kept by their reward before the overlong penalty.")
    return Filter(dynamic_sampling=dynamic, mask_truncated=o["grpo.overlong_filtering"])


def _clip(o: Options) -> AnySurrogate:
    if o["loss_fn.disable_ppo_ratio"] and o["loss_fn.ratio_clip_c"] is not None:
        raise o.refuse("loss_fn.ratio_clip_c", "without the ratio it bounds a log-prob")
    if o["loss_fn.disable_ppo_ratio"] or o["loss_fn.force_on_policy_ratio"]:
        return NoClip()
    low, high = o["loss_fn.ratio_clip_min"], o["loss_fn.ratio_clip_max"]
    if o["loss_fn.use_cispo"]:
        return CISPOClip(epsilon_low=low, epsilon_high=high)
    return PPOClip(epsilon_low=low, epsilon_high=high, dual=o["loss_fn.ratio_clip_c"])


def _ratio(o: Options, *, on_policy: bool) -> Ratio:
    whole = o["loss_fn.sequence_level_importance_ratios"]
    corrections = _corrections(o, "product" if whole else "token")
    if on_policy:
        return Ratio(corrections=corrections)
    return Ratio(denominator="old", level="sequence" if whole else "token", corrections=corrections)


def _corrections(o: Options, level: Any) -> tuple[Correction, ...]:
    if not o["loss_fn.use_importance_sampling_correction"]:
        return ()
    high = o["loss_fn.truncated_importance_sampling_ratio"]
    low = o["loss_fn.truncated_importance_sampling_ratio_min"]
    if high is None:
        return (Correction(level=level),)
    tables = {
        "tis": (Correction(level=level, low=low, high=high),),
        "icepop": (Correction(action="mask", level=level, low=low, high=high),),
        "seq-mask-tis": (
            Correction(action="gate", level="sequence", low=low, high=high),
            Correction(level=level),
        ),
    }
    return o.one_of("loss_fn.truncated_importance_sampling_type", tables)


def _kl(o: Options, estimator: str) -> KL:
    coefficient, kind = o["loss_fn.reference_policy_kl_penalty"], o["loss_fn.reference_policy_kl_type"]
    if not coefficient:
        return KL()
    if o["loss_fn.use_kl_in_reward"]:
        if estimator != "reinforce_plus_plus":
            o.notes.append(
                f"use_kl_in_reward takes KL out of the loss, and {estimator} puts it nowhere else."
            )
            return KL()
        reward = RewardKL(coefficient=coefficient, estimator=kind, stage="after_scale", form="token")
        return KL(reward=reward)
    if o["loss_fn.use_on_policy_kl_approximation"]:
        raise o.refuse("loss_fn.use_on_policy_kl_approximation", "KL weighted by the ratio to the sampler")
    return KL(
        loss=LossKL(
            coefficient=coefficient,
            estimator=kind,
            gradient="pathwise" if o.older_than("0.7.0") else "unit_ratio",
            input_clamp=o["loss_fn.kl_input_clamp_value"],
            output_clamp=o["loss_fn.kl_output_clamp_value"],
        )
    )

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
from audit.objectives.dialects.config import Options, bounds
from audit.objectives.dialects.declared import Declared
from audit.objectives.objective import (
    KL,
    Aggregation,
    Baseline,
    Correction,
    Filter,
    LossKL,
    Objective,
    Overlong,
    Ratio,
    RewardKL,
    Scale,
    Shaping,
    Whiten,
)
from audit.objectives.surrogates import AnySurrogate, CISPOClip, NoClip, PPOClip

READ = "0.7.0"
DEFAULTS: dict[str, Any] = {
    "grpo.normalize_rewards": True,
    "grpo.use_leave_one_out_baseline": True,
    "grpo.overlong_filtering": False,
    "grpo.advantage_clip_low": None,
    "grpo.advantage_clip_high": None,
    "grpo.use_dynamic_sampling": False,
    "grpo.reward_shaping": None,
    "grpo.reward_scaling": None,
    "grpo.seq_logprob_error_threshold": None,
    "grpo.invalid_tool_call_advantage": None,
    "grpo.malformed_thinking_advantage": None,
    "grpo.adv_estimator": None,
    "loss_fn.reference_policy_kl_penalty": 0.01,
    "loss_fn.reference_policy_kl_type": "k3",
    "loss_fn.kl_input_clamp_value": 20.0,
    "loss_fn.kl_output_clamp_value": 10.0,
    "loss_fn.ratio_clip_min": 0.2,
    "loss_fn.ratio_clip_max": 0.2,
    "loss_fn.ratio_clip_c": None,
    "loss_fn.use_on_policy_kl_approximation": False,
    "loss_fn.use_importance_sampling_correction": False,
    "loss_fn.truncated_importance_sampling_type": None,
    "loss_fn.truncated_importance_sampling_ratio": None,
    "loss_fn.truncated_importance_sampling_ratio_min": None,
    "loss_fn.sequence_level_importance_ratios": False,
    "loss_fn.token_level_loss": True,
    "loss_fn.force_on_policy_ratio": False,
    "loss_fn.use_kl_in_reward": False,
    "loss_fn.use_cispo": False,
    "loss_fn.disable_ppo_ratio": False,
    "loss_fn.positive_example_nll_weight": 0.0,
}
_WHITEN = Whiten(epsilon=1e-8, epsilon_in="floor")


def objective_from_config(config: Mapping[str, Any], version: str, trainer: str | None = None) -> Declared:
    """Read a recorded master config of GRPO as NeMo-RL would.

    Raises
    ------
    BadObjective
        An option that an objective cannot express.
    """
    del trainer
    o = Options("NeMo-RL", config, version, read=READ, defaults=DEFAULTS)
    o.need_off(
        grpo__seq_logprob_error_threshold="responses are masked by their distance from the sampler",
        grpo__invalid_tool_call_advantage="single tokens get an advantage of their own",
        grpo__malformed_thinking_advantage="single tokens get an advantage of their own",
        loss_fn__positive_example_nll_weight="a likelihood term on successes in the loss",
    )
    estimator = {"name": "grpo", **(o["grpo.adv_estimator"] or {})}
    baseline, scale = _advantage(o, estimator)
    whole = o["loss_fn.sequence_level_importance_ratios"]
    by_token = o["loss_fn.token_level_loss"]
    if whole and by_token:
        raise BadObjective("NeMo-RL's sequence_level_importance_ratios needs token_level_loss=False.")
    clip = _clip(o)
    objective = Objective(
        name=f"nemo-rl-{estimator['name']}" + ("-gspo" if whole else ""),
        shaping=_shaping(o),
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


def _advantage(o: Options, estimator: dict[str, Any]) -> tuple[Baseline, Scale]:
    clip = bounds(o["grpo.advantage_clip_low"], o["grpo.advantage_clip_high"])
    name = estimator["name"]
    if name == "grpo":
        loo = estimator.get("use_leave_one_out_baseline", o["grpo.use_leave_one_out_baseline"])
        baseline = Baseline(kind="leave_one_out" if loo else "group_mean")
        if not estimator.get("normalize_rewards", o["grpo.normalize_rewards"]):
            return baseline, Scale(clip=clip)
        kind = "leave_one_out_std" if loo else "group_std"
        return baseline, Scale(kind=kind, ddof=1, epsilon=1e-6, clip=clip)  # type: ignore[arg-type]
    if name == "reinforce_plus_plus":
        centred = estimator.get("minus_baseline", True)
        return Baseline(kind="group_mean" if centred else "none"), Scale(whiten=_WHITEN, clip=clip)
    if name == "raw_reward":
        whiten = _WHITEN if estimator.get("normalize_advantages") else None
        return Baseline(), Scale(whiten=whiten, clip=clip)
    raise BadObjective(
        f"NeMo-RL's adv_estimator.name={name!r} is not expressible as an objective from its config "
        "(gdpo: its components are not named; gae: decoupled lambdas; or unknown)."
    )


def _shaping(o: Options) -> Shaping:
    scaling, shaping = o["grpo.reward_scaling"] or {}, o["grpo.reward_shaping"] or {}
    clip, factor, offset = None, 1.0, 0.0
    if scaling.get("enabled"):
        clip = (scaling.get("source_min", 0.0), scaling.get("source_max", 1.0))
        low, high = scaling.get("target_min", 0.0), scaling.get("target_max", 1.0)
        factor = (high - low) / (clip[1] - clip[0])
        offset = low - factor * clip[0]
    return Shaping(clip=clip, factor=factor, offset=offset, overlong=_overlong(shaping))


def _overlong(shaping: Mapping[str, Any]) -> Overlong | None:
    if not shaping.get("enabled"):
        return None
    coefficient = shaping.get("stop_properly_penalty_coef")
    if coefficient is not None:
        if coefficient == 1:
            return None
        msg = f"NeMo-RL's reward_shaping.stop_properly_penalty_coef={coefficient} is not expressible as an "
        raise BadObjective(f"{msg}objective: the reward of cut-off responses is rescaled.")
    names = ("max_response_length", "overlong_buffer_length", "overlong_buffer_penalty")
    missing = [name for name in names if shaping.get(name) is None]
    if missing:
        raise BadObjective(f"NeMo-RL's reward_shaping needs {missing[0]}, which this config leaves unset.")
    length, cache, penalty = (shaping[name] for name in names)
    return Overlong(max_length=length, cache=cache, penalty=penalty, capped=False)


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

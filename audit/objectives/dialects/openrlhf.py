"""OpenRLHF: the options of ``train_ppo_ray`` to an objective.

Read: openrlhf/models/loss.py, models/utils.py, trainer/ppo_utils/experience_maker.py, length_penalty.py,
samples_generator.py and cli/train_ppo_ray.py of the released package 0.11.2. Where it departs from the
papers:

- the reward clip bounds the reward after baseline and std; then KL is taken off, each token paying for itself
  and for what follows, so KL is not divided by the std.
- ``gae``, ``reinforce`` and ``reinforce_baseline`` standardise over loss tokens, population variance.
- the KL in the loss is always a mean over the tokens of the optimiser step, whatever ``loss_agg_mode`` is;
  its value is clamped to ±10 (in the reward too, which is not followed here), with ``unbiased_gradient``
  it has the gradient min(ratio, 10) · d.
- a response-level correction only decides which responses stay; those keep their token weights.
- ``gspo`` forces the row mean, and with a correction on, its ratio is against the sampler.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from audit.errors import BadObjective
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
    Overlong,
    Ratio,
    RewardKL,
    Scale,
    Shaping,
    Whiten,
)
from audit.objectives.surrogates import PPOClip

_BASELINES = {
    "gae": "gae",
    "reinforce": "none",
    "rloo": "leave_one_out",
    "reinforce_baseline": "group_mean",
    "group_norm": "group_mean",
    "dr_grpo": "group_mean",
    "flash_reinforce": "batch_mean",
}
_WHITENED = ("gae", "reinforce", "reinforce_baseline")
_TOKENS = Aggregation(kind="token-mean")
_ROWS = Aggregation(kind="seq-mean-token-mean", rows="nonempty", epsilon=1e-8)


def objective_from_config(config: Mapping[str, Any], version: str, trainer: str | None = None) -> Declared:
    """Read recorded options, nested or dotted ("actor.eps_clip"), as OpenRLHF 0.10 or newer would.

    Raises
    ------
    BadObjective
        An option that an objective cannot express, or a version with the flat names of before 0.10.
    """
    del trainer
    o = Options.pinned("OpenRLHF", "openrlhf", config, version)
    if o.older_than("0.10.0"):
        msg = f"OpenRLHF {version}: options are known from 0.10.0 on, by their dotted names."
        raise BadObjective(msg)
    o.need_off(actor__entropy_coef="an entropy bonus in the loss", algo__kl__target="the coefficient adapts")
    estimator: str = o["algo.advantage.estimator"]
    kind: Any = o.one_of("algo.advantage.estimator", _BASELINES)
    gae = kind == "gae"
    if estimator == "reinforce" and o["algo.advantage.gamma"] != 1.0:
        raise o.refuse("algo.advantage.gamma", "discounted returns without a critic")
    if estimator in _WHITENED and o["algo.advantage.no_std_norm"]:
        raise o.refuse("algo.advantage.no_std_norm", "advantages are centred over the batch but not scaled")
    discount = {"gamma": o["algo.advantage.gamma"], "lam": o["algo.advantage.lambd"]} if gae else {}
    clip = tuple(o["reward.clip_range"]) if o["reward.clip_range"] else None
    grouped = estimator == "group_norm"
    gspo = o.one_of("actor.policy_loss_type", {"ppo": False, "gspo": True})
    rows = o.one_of("actor.loss_agg_mode", {"token-mean": False, "seq-mean-token-mean": True}) or gspo
    low, high = o["actor.eps_clip_low_high"] or (o["actor.eps_clip"],) * 2
    objective = Objective(
        name=f"openrlhf-{estimator}" + ("-gspo" if gspo else ""),
        shaping=Shaping(clip=clip if gae else None, overlong=_overlong(o)),
        filter=_filter(o),
        baseline=Baseline(kind=kind, **discount),
        scale=Scale(
            kind="group_std" if grouped else "none",
            ddof=1 if grouped else 0,
            epsilon=1e-9 if grouped else 0.0,
            reward_clip=None if gae else clip,
            whiten=Whiten(epsilon=1e-8, epsilon_in="floor") if estimator in _WHITENED else None,
        ),
        ratio=_ratio(o, gspo),
        clip=PPOClip(epsilon_low=low, epsilon_high=high, dual=o["actor.dual_clip"]),
        aggregation=_ROWS if rows else _TOKENS,
        kl=_kl(o, gae, gspo, rows),
    )
    return o.declared(objective)


def _ratio(o: Options, gspo: bool) -> Ratio:
    on = o["algo.advantage.is_correction_level"] != "off"
    if gspo:
        return Ratio(denominator="sampler" if on else "old", level="sequence")
    return Ratio(denominator="old", clamp=20.0, corrections=_corrections(o) if on else ())


def _corrections(o: Options) -> tuple[Correction, ...]:
    if o["algo.advantage.is_correction_gating"] != "ratio":
        raise o.refuse("algo.advantage.is_correction_gating", "a gate on a divergence from the sampler")
    threshold = tuple(o["algo.advantage.is_correction_threshold"])
    low, high = (None, *threshold) if len(threshold) == 1 else threshold
    if o.one_of("algo.advantage.is_correction_level", {"token": False, "seq": True}):
        return Correction(action="gate", level="sequence", low=low, high=high), Correction()
    clipped = o.one_of("algo.advantage.is_correction_mode", {"mask": False, "clip": True})
    return (Correction(action="truncate" if clipped else "mask", low=low, high=high),)


def _kl(o: Options, gae: bool, gspo: bool, rows: bool) -> KL:
    coefficient, estimator = o["algo.kl.init_coef"], o["algo.kl.estimator"]
    if coefficient <= 0:
        return KL()
    if not o["algo.kl.use_loss"]:
        form: Any = "token" if gae else "to_go"
        reward = RewardKL(coefficient=coefficient, estimator=estimator, stage="after_scale", form=form)
        return KL(reward=reward)
    unbiased = o["algo.kl.unbiased_gradient"]
    if unbiased and gspo:
        raise o.refuse("algo.kl.unbiased_gradient", "KL weighted by token ratios beside a response ratio")
    return KL(
        loss=LossKL(
            coefficient=coefficient,
            estimator=estimator,
            gradient="straight_through" if unbiased else "pathwise",
            output_clamp=None if unbiased else 10.0,
            ratio_cap=10.0 if unbiased else None,
            aggregation=_TOKENS if rows else None,
        )
    )


def _overlong(o: Options) -> Overlong | None:
    if o["reward.stop_properly_penalty_coef"] not in (None, 1, 1.0):
        raise o.refuse("reward.stop_properly_penalty_coef", "the reward of cut-off responses is rescaled")
    cache = o["reward.overlong_buffer_len"]
    if cache is None:
        return None
    length = o["rollout.max_new_tokens"] or o["data.max_len"]
    return Overlong(max_length=length, cache=int(cache), penalty=o["reward.overlong_penalty_factor"])


def _filter(o: Options) -> Filter:
    if not o["algo.dynamic_filtering_enable"]:
        return Filter()
    if tuple(o["algo.dynamic_filtering_range"]) != (0, 1):
        raise o.refuse("algo.dynamic_filtering_range", "groups are kept by their mean score")
    o.notes.append("Groups were kept where 0 < mean score < 1: those with two different rewards, if 0 or 1.")
    return Filter(dynamic_sampling=True)

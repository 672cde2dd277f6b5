"""AReaL: ``actor`` (PPOActorConfig) to an objective.

Read: areal/trainer/ppo/actor.py, areal/utils/functional/functional.py, areal/utils/data.py (Normalization)
and areal/api/cli_args.py of the released package 1.0.4. Where it departs from the papers:

- without ``reward_norm`` the advantage is the raw reward less 0.1 times the KL to go; without a reference
  its log-probs count as 0, so that KL is the log-prob of the response. Its k is clamped to ±10 (not here).
- the reward is shifted, scaled and clipped before it is normalised.
- a leave-one-out mean makes the std one about each row's own leave-one-out mean.
- by default nothing is recomputed: the ratio and the KL are those of the sampler's log-probs.
- decoupled: the ratio is to the recomputed policy; rejection sampling makes the weight of that policy over
  the sampler; masked tokens stay in the count.
- with a response-level ratio the advantage is averaged over the response first.
- the overlong penalty has no cap at -1, counts loss tokens, and comes before the reward clip.
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
    Objective,
    Overlong,
    Ratio,
    RewardKL,
    Scale,
    Shaping,
    Whiten,
)
from audit.objectives.surrogates import SAPO, AnySurrogate, PPOClip

READ = "1.0.4"
DEFAULTS: dict[str, Any] = {
    "actor.eps_clip": 0.2,
    "actor.eps_clip_higher": None,
    "actor.c_clip": None,
    "actor.m2_threshold": None,
    "actor.reward_norm": None,
    "actor.reward_scaling": 1.0,
    "actor.reward_bias": 0.0,
    "actor.reward_clip": 20.0,
    "actor.overlong_reward_penalty": False,
    "actor.overlong_tokens": None,
    "actor.overlong_penalty_factor": None,
    "actor.mask_no_eos_with_zero": False,
    "actor.discount": 1.0,
    "actor.gae_lambda": 1.0,
    "actor.adv_norm": None,
    "actor.kl_ctl": 0.1,
    "actor.kl_estimator": "k1",
    "actor.use_sapo_loss": False,
    "actor.sapo_tau_pos": 1.0,
    "actor.sapo_tau_neg": 1.05,
    "actor.recompute_logprob": False,
    "actor.use_decoupled_loss": False,
    "actor.rejection_sampling": None,
    "actor.importance_sampling_level": "token",
    "actor.prox_logp_method": "recompute",
    "actor.max_new_tokens": 1024,
    "critic": None,
}
_NORM: dict[str, Any] = {
    "mean_level": "batch",
    "mean_leave1out": False,
    "std_level": "batch",
    "std_unbiased": True,
    "eps": 1e-5,
    "group_size": 1,
}
_REJECTION = {
    "level": "token",
    "action": "mask",
    "metric": "ratio",
    "agg": "mean",
    "upper": 5.0,
    "lower": None,
}


def objective_from_config(config: Mapping[str, Any], version: str, trainer: str | None = None) -> Declared:
    """Read a recorded experiment config, or its ``actor`` alone, as AReaL would.

    Raises
    ------
    BadObjective
        An option that an objective cannot express.
    """
    del trainer
    o = Options("AReaL", config, version, read=READ, defaults=DEFAULTS, sections=("actor",))
    o.need_off(
        actor__m2_threshold="tokens are masked by a moment of the batch (M2PO)",
        actor__mask_no_eos_with_zero="the normalised reward of cut-off responses is set to 0",
    )
    gae = o["critic"] is not None
    baseline, scale = _advantage(o, gae)
    ratio = _ratio(o)
    coefficient = o["actor.kl_ctl"]
    if coefficient:
        o.notes.append("Without a reference model its log-probs count as 0 in the KL of the reward.")
    reward = RewardKL(
        coefficient=coefficient,
        estimator=o["actor.kl_estimator"],
        stage="after_scale",
        form="token" if gae else "to_go",
        policy="old" if o["actor.recompute_logprob"] and not o["actor.use_decoupled_loss"] else "sampler",
    )
    objective = Objective(
        name="areal-gae" if gae else "areal",
        shaping=_shaping(o),
        baseline=baseline,
        scale=scale,
        ratio=ratio,
        clip=_clip(o),
        aggregation=Aggregation(kind="token-mean"),
        kl=KL(reward=reward if coefficient else None),
    )
    return o.declared(objective)


def _shaping(o: Options) -> Shaping:
    factor, bias, clip = o["actor.reward_scaling"], o["actor.reward_bias"], o["actor.reward_clip"]
    if factor <= 0:
        raise o.refuse("actor.reward_scaling", "the reward is turned round or lost")
    overlong = None
    if o["actor.overlong_reward_penalty"]:
        overlong = Overlong(
            max_length=o["actor.max_new_tokens"],
            cache=o["actor.overlong_tokens"],
            penalty=factor * o["actor.overlong_penalty_factor"],
            capped=False,
        )
        o.notes.append(f"The reward clip of ±{clip} is applied before the overlong penalty, not after it.")
    bounds = (-clip / factor - bias, clip / factor - bias)
    return Shaping(clip=bounds, factor=factor, offset=bias * factor, overlong=overlong)


def _advantage(o: Options, gae: bool) -> tuple[Baseline, Scale]:
    whiten = _whiten(o)
    if gae:
        if o["actor.reward_norm"] is not None:
            raise o.refuse("actor.reward_norm", "the reward is normalised before a critic is subtracted")
        baseline = Baseline(kind="gae", gamma=o["actor.discount"], lam=o["actor.gae_lambda"])
        return baseline, Scale(whiten=whiten)
    for key in ("actor.discount", "actor.gae_lambda"):
        if o[key] != 1.0:
            raise o.refuse(key, "discounted returns without a critic")
    if o["actor.reward_norm"] is None:
        return Baseline(), Scale(whiten=whiten)
    norm = {**_NORM, **o["actor.reward_norm"]}
    mean, std, size, epsilon = norm["mean_level"], norm["std_level"], norm["group_size"], norm["eps"]
    if "group" in (mean, std) and size == 1:
        raise o.refuse("actor.reward_norm", "groups of group_size=1: every advantage is 0")
    loo = norm["mean_leave1out"] and mean is not None
    if std is not None and mean != std:
        raise o.refuse("actor.reward_norm", "a std that is not about its own mean")
    if loo and mean == "batch":
        raise o.refuse("actor.reward_norm", "a leave-one-out mean over the batch")
    if mean is None:
        return Baseline(), Scale(whiten=whiten)
    kinds: Any = {"group": "group_mean", "batch": "batch_mean"}
    kind = kinds[mean]
    if std is None:
        return Baseline(kind="leave_one_out" if loo else kind), Scale(whiten=whiten)
    if loo:
        # Both the deviation and its std are G / (G - 1) times those about the mean: only epsilon shrinks.
        epsilon = epsilon * (size - 1) / size
    divisor: Any = f"{std}_std"
    ddof: Any = int(norm["std_unbiased"])
    return Baseline(kind=kind), Scale(kind=divisor, ddof=ddof, epsilon=epsilon, whiten=whiten)


def _whiten(o: Options) -> Whiten | None:
    if o["actor.adv_norm"] is None:
        return None
    norm = {**_NORM, **o["actor.adv_norm"]}
    levels = (norm["mean_level"], norm["std_level"])
    if levels == (None, None):
        return None
    if levels != ("batch", "batch") or norm["mean_leave1out"]:
        raise o.refuse("actor.adv_norm", "standardised within groups of tokens, or in part")
    ddof: Any = int(norm["std_unbiased"])
    return Whiten(ddof=ddof, epsilon=norm["eps"])


def _ratio(o: Options) -> Ratio:
    level: Any = o.one_of("actor.importance_sampling_level", {name: name for name in ("token", "sequence")})
    if not o["actor.use_decoupled_loss"]:
        if o["actor.rejection_sampling"] is not None:
            o.notes.append("rejection_sampling does nothing without use_decoupled_loss.")
        return Ratio(denominator="old" if o["actor.recompute_logprob"] else "sampler", level=level)
    if o["actor.prox_logp_method"] == "loglinear":
        raise o.refuse("actor.prox_logp_method", "the policy under the ratio is interpolated")
    return Ratio(denominator="old", level=level, corrections=_corrections(o))


def _corrections(o: Options) -> tuple[Correction, ...]:
    if o["actor.rejection_sampling"] is None:
        return ()
    r: dict[str, Any] = {**_REJECTION, **o["actor.rejection_sampling"]}
    if r["metric"] != "ratio" or (r["level"] == "sequence" and r["agg"] == "max"):
        raise o.refuse("actor.rejection_sampling", "a window on another statistic than the ratio")
    low, high, masks = r["lower"], r["upper"], r["action"] == "mask"
    if r["level"] == "sequence" and r["agg"] == "sum":
        if not masks:
            raise o.refuse("actor.rejection_sampling", "the mean is clamped where the sum is out of bounds")
        gate = Correction(action="gate", level="product", low=low, high=high)
        return gate, Correction(level="sequence")
    return (Correction(action="mask" if masks else "truncate", level=r["level"], low=low, high=high),)


def _clip(o: Options) -> AnySurrogate:
    if o["actor.use_sapo_loss"]:
        if o["actor.use_decoupled_loss"]:
            raise BadObjective("AReaL's use_sapo_loss needs use_decoupled_loss=false.")
        return SAPO(tau_positive=o["actor.sapo_tau_pos"], tau_negative=o["actor.sapo_tau_neg"])
    low, high = o["actor.eps_clip"], o["actor.eps_clip_higher"]
    return PPOClip(epsilon_low=low, epsilon_high=low if high is None else high, dual=o["actor.c_clip"])

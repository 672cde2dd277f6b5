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
from audit.objectives.dialects.areal_reward import advantage_of, shaping_of
from audit.objectives.dialects.config import Options
from audit.objectives.dialects.declared import Declared
from audit.objectives.objective import (
    KL,
    Aggregation,
    Correction,
    Objective,
    Ratio,
    RewardKL,
)
from audit.objectives.surrogates import SAPO, AnySurrogate, PPOClip

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
    o = Options.pinned("AReaL", "areal", config, version, sections=("actor",))
    o.need_off(
        actor__m2_threshold="tokens are masked by a moment of the batch (M2PO)",
        actor__mask_no_eos_with_zero="the normalised reward of cut-off responses is set to 0",
    )
    gae = o["critic"] is not None
    baseline, scale = advantage_of(o, gae)
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
        shaping=shaping_of(o),
        baseline=baseline,
        scale=scale,
        ratio=ratio,
        clip=_clip(o),
        aggregation=Aggregation(kind="token-mean"),
        kl=KL(reward=reward if coefficient else None),
    )
    return o.declared(objective)


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

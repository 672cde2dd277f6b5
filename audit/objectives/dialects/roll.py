"""ROLL: PPOConfig and RLVRConfig to an objective.

Read: roll/utils/{functionals,train_infer_corrections}.py, roll/pipeline/rlvr/{actor_worker,actor_pg_worker,
rlvr_config}.py and roll/configs/base_config.py at 8eb27cc2d (2026-08-19, 0.3.0) [read only: no released
package]. Where it departs from the papers:

- ``adv_estimator: grpo`` forces group mean and group std; otherwise norm_mean_type and norm_std_type decide.
- the reward clip bounds the reward after that; KL of ``add_token_level_kl`` is then paid to go, and the token
  rewards are clipped again (not followed here).
- row means divide by count + 1e-8; ``seq-mean-token-sum-norm`` divides by the padded width, not by rows.
- ``token-mean`` does not mask its numerator: filters in the loss do not remove a token from it.
- dual clip is at 1 + 2 · pg_clip; the k3 of the loss is clamped at 10.
- rows without loss tokens (``max_len_mask``, ``difficulty_mask``) leave the count of rows; those that a
  filter in the loss empties stay in it.
- with ActorPGWorker ``pg_variant`` chooses the surrogate; ``vanilla`` has no ratio.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from audit.errors import BadObjective
from audit.objectives.dialects.config import Options
from audit.objectives.dialects.declared import Declared
from audit.objectives.dialects.roll_loss import clip_of, ratio_of
from audit.objectives.objective import (
    KL,
    Aggregation,
    Baseline,
    Filter,
    LossKL,
    Objective,
    RewardKL,
    Scale,
    Shaping,
    Whiten,
)

_WHITEN = Whiten(ddof=1, epsilon=1e-8, epsilon_in="variance")


def objective_from_config(config: Mapping[str, Any], version: str, trainer: str | None = None) -> Declared:
    """Read a recorded RLVR pipeline config as ROLL would.

    Raises
    ------
    BadObjective
        An option that an objective cannot express.
    """
    del trainer
    o = Options.pinned("ROLL", "roll", config, version)
    distilled, weighted = "distillation from a teacher", "responses are weighted by another quantity"
    o.need_off(
        entropy_loss_coef="an entropy bonus in the loss",
        postive_loss_coef="a likelihood term on successes in the loss",
        use_topr_neg_loss_coef="another loss on failures",
        use_topr_loss="another loss on failures",
        difficulty_loss_weight=weighted,
        length_loss_weight=weighted,
        error_max_len_clip="rows are masked by score and length",
        whiten_rewards="token rewards are standardised before the advantage",
        target_kl="the coefficient adapts",
        is_pure_opd=distilled,
        use_opd=distilled,
    )
    if o["use_policy_loss_type"] != "PPO":
        raise o.refuse("use_policy_loss_type", "it was not read")
    gae = o["adv_estimator"] == "gae"
    bound = (-o["reward_clip"], o["reward_clip"]) if o["reward_clip"] else None
    baseline, scale = _advantage(o, gae, bound)
    variant = "ppo"
    if o["actor_train.worker_cls"].endswith("ActorPGWorker"):
        variant = o["actor_train.pg_variant"]
    clip = clip_of(o, variant)
    aggregation = _aggregation(o)
    objective = Objective(
        name=f"roll-{o['adv_estimator']}" + (f"-{variant}" if variant != "ppo" else ""),
        shaping=Shaping(clip=bound if gae else None),
        filter=_filter(o),
        baseline=baseline,
        scale=scale,
        ratio=ratio_of(o, clip, aggregation),
        clip=clip,
        aggregation=aggregation,
        kl=_kl(o, gae),
    )
    return o.declared(objective)


def _advantage(o: Options, gae: bool, bound: tuple[float, float] | None) -> tuple[Baseline, Scale]:
    if o["adv_estimator"] not in ("gae", "reinforce", "grpo"):
        raise o.refuse("adv_estimator", "steps of an agent have their own groups, or it is unknown")
    whiten = _WHITEN if o["whiten_advantages"] else None
    clip = (-o["advantage_clip"], o["advantage_clip"]) if o["advantage_clip"] is not None else None
    mean, std = o["norm_mean_type"], o["norm_std_type"]
    if o["adv_estimator"] == "grpo":
        mean = std = "group"
    if gae:
        if (mean, std) != (None, None):
            raise o.refuse("norm_mean_type" if mean else "norm_std_type", "normalised before a critic")
        baseline = Baseline(kind="gae", gamma=o["gamma"], lam=o["lambd"])
        return baseline, Scale(whiten=whiten, clip=clip)
    if o["gamma"] != 1:
        raise o.refuse("gamma", "discounted returns without a critic")
    if "running" in (mean, std) or (mean is None and std is not None) or (mean, std) == ("batch", "group"):
        raise o.refuse(
            "norm_std_type", f"with norm_mean_type={mean!r} groups without spread blow up, or run on"
        )
    means: Any = {None: "none", "group": "group_mean", "batch": "batch_mean"}
    stds: Any = {None: "none", "group": "group_std", "batch": "batch_std"}
    how: dict[str, Any] = {"ddof": 1, "epsilon": 1e-6} if std is not None else {}
    kind = o.one_of("norm_std_type", stds) if o["adv_estimator"] != "grpo" else stds[std]
    scale = Scale(kind=kind, **how, reward_clip=bound, whiten=whiten, clip=clip)
    return Baseline(kind=means[mean]), scale


def _aggregation(o: Options) -> Aggregation:
    factor = o["rl_loss_coef"]
    # Rows are counted before the filters of the loss empty some of them.
    filters = (o["train_infer_correction"] or {}).get("filters") or ()
    late = any(rule.get("enabled") for rule in filters) and not o["enable_old_logprobs_recompute"]
    rows: Any = "all" if late else "nonempty"
    if o["loss_agg_mode"] == "seq-mean-token-sum-norm":
        if o["sequence_length"] is None:
            msg = "ROLL's seq-mean-token-sum-norm divides by the padded width: sequence_length is unset."
            raise BadObjective(msg)
        o.notes.append("The divisor is the padded width, taken as sequence_length - 1.")
    table = {
        "seq-mean-token-mean": Aggregation(rows=rows, epsilon=1e-8, factor=factor),
        "token-mean": Aggregation(kind="token-mean", factor=factor),
        "seq-mean-token-sum": Aggregation(kind="seq-mean-token-sum", rows=rows, factor=factor),
        "seq-mean-token-sum-norm": Aggregation(
            kind="token-sum-norm", constant=float((o["sequence_length"] or 2) - 1), factor=factor
        ),
    }
    return o.one_of("loss_agg_mode", table)


def _kl(o: Options, gae: bool) -> KL:
    reward = loss = None
    if o["add_token_level_kl"] and o["init_kl_coef"]:
        if o["kl_penalty"] == "full":
            raise o.refuse("kl_penalty", "the KL of whole distributions")
        kind: Any = o.one_of("kl_penalty", {"kl": "k1", "abs": "abs", "mse": "k2"})
        form: Any = "token" if gae else "to_go"
        reward = RewardKL(coefficient=o["init_kl_coef"], estimator=kind, stage="after_scale", form=form)
    if o["use_kl_loss"] and o["kl_loss_coef"]:
        loss = LossKL(coefficient=o["kl_loss_coef"], output_clamp=10.0)
    return KL(reward=reward, loss=loss)


def _filter(o: Options) -> Filter:
    dynamic = o["difficulty_mask"]
    if dynamic and (o["difficulty_low_threshold"], o["difficulty_high_threshold"]) != (0, 1):
        raise o.refuse("difficulty_mask", "groups are kept by their mean score")
    if dynamic:
        o.notes.append(
            "Groups were kept where 0 < mean score < 1: those with two different rewards, if 0 or 1."
        )
    return Filter(dynamic_sampling=dynamic, mask_truncated=o["max_len_mask"])

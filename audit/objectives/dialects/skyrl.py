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
from audit.objectives.surrogates import DPPO, SAPO, AnySurrogate, CISPOClip, NoClip, PPOClip

READ = "0.3.0"
_A = "trainer.algorithm."
DEFAULTS: dict[str, Any] = {
    f"{_A}advantage_estimator": "grpo",
    f"{_A}kl_ctrl": None,
    f"{_A}kl_estimator_type": "k3",
    f"{_A}use_kl_in_reward": False,
    f"{_A}use_kl_loss": True,
    f"{_A}kl_loss_coef": 0.001,
    f"{_A}use_entropy_loss": False,
    f"{_A}advantage_batch_normalize": False,
    f"{_A}policy_loss_type": "regular",
    f"{_A}loss_reduction": "token_mean",
    f"{_A}grpo_norm_by_std": True,
    f"{_A}zero_variance_filter": False,
    f"{_A}lambd": 1.0,
    f"{_A}gamma": 1.0,
    f"{_A}eps_clip_low": 0.2,
    f"{_A}eps_clip_high": 0.2,
    f"{_A}clip_ratio_c": 3.0,
    f"{_A}tis_imp_ratio_cap": -1.0,
    f"{_A}use_tis": False,
    f"{_A}off_policy_correction": None,
    f"{_A}sapo": None,
    f"{_A}dynamic_sampling": None,
    f"{_A}cispo": None,
    f"{_A}dppo": None,
    f"{_A}max_seq_len": None,
    "generator.apply_overlong_filtering": False,
}
UNRELATED = "entropy_loss_coef value_clip value_head_prefix zero_variance_filter_tol clip_cov kl_cov"
_CORRECTION: dict[str, Any] = {
    "tis_ratio_type": None,
    "token_tis_ratio_clip_high": 2.0,
    "sequence_tis_ratio_clip_high": 5.0,
    "sequence_mask_metric": None,
    "geo_mask_high": 1.01,
    "geo_mask_low": 0.99,
    "product_mask_high": 2.0,
    "product_mask_low": 0.5,
    "outlier_token_is_threshold_low": None,
    "outlier_token_is_threshold_high": None,
    "token_mask_is_threshold_low": None,
    "token_mask_is_threshold_high": None,
}
_WHITEN = Whiten(ddof=1, epsilon=1e-8, epsilon_in="variance")
_ROWS = Aggregation(kind="seq-mean-token-mean")


class _Algorithm(Options):
    def __getitem__(self, key: str) -> Any:
        return super().__getitem__(key if "." in key else f"{_A}{key}")


def objective_from_config(config: Mapping[str, Any], version: str, trainer: str | None = None) -> Declared:
    """Read a recorded config (its ``trainer.algorithm``, or that section alone) as SkyRL would.

    Raises
    ------
    BadObjective
        An option that an objective cannot express.
    """
    del trainer
    o = _Algorithm("SkyRL", config, version, read=READ, defaults=DEFAULTS, unrelated=UNRELATED)
    if o["use_entropy_loss"]:
        raise o.refuse("use_entropy_loss", "an entropy bonus in the loss")
    if o["advantage_batch_normalize"]:
        raise o.refuse("advantage_batch_normalize", "the mean is taken over padding too")
    if (o["kl_ctrl"] or {}).get("type", "fixed") != "fixed":
        raise o.refuse("kl_ctrl", "the coefficient adapts")
    estimator, loss = o["advantage_estimator"], o["policy_loss_type"]
    aggregation = _aggregation(o)
    baseline, scale = _advantage(o, estimator)
    ratio, clip = _surrogate(o, loss)
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


def _surrogate(o: Options, loss: str) -> tuple[Ratio, AnySurrogate]:
    low, high = o["eps_clip_low"], o["eps_clip_high"]
    if loss in ("clip_cov", "kl_cov"):
        raise o.refuse("policy_loss_type", "its covariances are those of the advantage over the normaliser")
    if loss == "cross_entropy":
        raise o.refuse("policy_loss_type", "a likelihood, not a policy gradient")
    corrections = () if loss == "importance_sampling" else _corrections(o)
    ppo = PPOClip(epsilon_low=low, epsilon_high=high)
    old = Ratio(denominator="old", clamp=20.0, corrections=corrections)
    sampler = Ratio(denominator="sampler", clamp=20.0, corrections=corrections)
    # Weight rho inside the band and 0 outside, without gradient: a correction of theta on a ratio of 1.
    band = Correction(action="mask", numerator="theta", low=max(1.0 - low, 0.0), high=1.0 + high)
    sapo, dppo = o["sapo"] or {}, o["dppo"] or {}
    table: dict[str, tuple[Ratio, AnySurrogate]] = {
        "regular": (old, ppo),
        "dual_clip": (old, PPOClip(epsilon_low=low, epsilon_high=high, dual=o["clip_ratio_c"])),
        "gspo": (Ratio(denominator="old", level="sequence_token", corrections=corrections), ppo),
        "sapo": (
            old,
            SAPO(tau_positive=sapo.get("tau_pos", 1.0), tau_negative=sapo.get("tau_neg", 1.05)),
        ),
        "cispo": (old, _cispo(o)),
        "rollout_is": (Ratio(corrections=(band, *corrections)), NoClip()),
        "dppo": (
            sampler,
            DPPO(
                divergence=dppo.get("dppo_type", "binary_tv").removeprefix("binary_"),
                delta_low=dppo.get("delta_low", 0.2),
                delta_high=dppo.get("delta_high", 0.2),
            ),
        ),
        "importance_sampling": (Ratio(denominator="old"), NoClip()),
    }
    return o.one_of("policy_loss_type", table)


def _cispo(o: Options) -> CISPOClip:
    """Bounds [1, 6] in 0.3.0, [0, 5] after it."""
    low, high = (1.0, 4.0) if o.newer_than(READ) else (0.0, 5.0)
    given = o["cispo"] or {}
    return CISPOClip(
        epsilon_low=given.get("cispo_eps_clip_low", low), epsilon_high=given.get("cispo_eps_clip_high", high)
    )


def _corrections(o: Options) -> tuple[Correction, ...]:
    c = {**_CORRECTION, **(o["off_policy_correction"] or {})}
    if o["use_tis"]:
        c.update(tis_ratio_type="token", token_tis_ratio_clip_high=o["tis_imp_ratio_cap"])
    if c["outlier_token_is_threshold_low"] is not None or c["outlier_token_is_threshold_high"] is not None:
        raise o.refuse("off_policy_correction", "one token drops its whole response (outlier_token)")
    made = []
    low, high = c["token_mask_is_threshold_low"], c["token_mask_is_threshold_high"]
    if low is not None and high is not None:
        made.append(Correction(action="gate", low=low, high=high))
    levels: dict[str | None, Any] = {"token": "token", "sequence": "product", "geometric": "sequence"}
    kind, metric = c["tis_ratio_type"], c["sequence_mask_metric"]
    if kind not in (None, "token", "sequence") or metric not in (None, "geometric", "product"):
        raise BadObjective(f"SkyRL has no tis_ratio_type {kind!r} with sequence_mask_metric {metric!r}.")
    if kind is not None:
        made.append(Correction(level=levels[kind], high=c[f"{kind}_tis_ratio_clip_high"]))
    if metric is not None:
        name = "geo" if metric == "geometric" else metric
        low, high = c[f"{name}_mask_low"], c[f"{name}_mask_high"]
        made.append(Correction(action="gate", level=levels.get(metric, "product"), low=low, high=high))
    return tuple(made)


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

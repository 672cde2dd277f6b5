"""TRL 1.16: losses, scales, KL forms, sampler modes and filters of its GRPO, RLOO and GMPO trainers."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

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
    Shaping,
    Whiten,
)
from audit.objectives.surrogates import GMPO, SAPO, VESPO, CISPOClip, NoClip, PPOClip
from conformance.batch import EVEN, Kind
from conformance.case import Case
from conformance.trl_calls import answer

TWO = Kind(groups=EVEN, micro_batches=4, updates=2)
SHARED = Aggregation(kind="token-mean", scope="generation_batch")
ROWS = Aggregation(kind="seq-mean-token-mean", scope="micro_batch")
SUMS = Aggregation(kind="seq-mean-token-sum", scope="micro_batch")
STD = Scale(kind="group_std", ddof=1, epsilon=1e-4)
BASE = Objective(
    baseline=Baseline(kind="group_mean"),
    scale=STD,
    ratio=Ratio(denominator="old"),
    clip=PPOClip(epsilon_low=0.2, epsilon_high=0.2),
    aggregation=SHARED,
)
SEQUENCE = Ratio(denominator="old", level="sequence")
NARROW = PPOClip(epsilon_low=0.05, epsilon_high=0.06)
BOTH = {"right": 1.0, "form": 0.3}


def pull(gradient: str) -> KL:
    """k3 in the loss."""
    return KL(loss=LossKL(coefficient=0.3, gradient=gradient))


def case(
    name: str,
    objective: Objective,
    *,
    kind: Kind = TWO,
    trainer: str = "grpo",
    weights: dict[str, float] | None = None,
    **options: Any,
) -> Case:
    """One config; ``epsilon_low`` is TRL's ``epsilon``."""
    config = {"epsilon" if key == "epsilon_low" else key: value for key, value in options.items()}
    old = config.pop("old", True)
    if trainer != "rloo":
        config.setdefault("beta", 0.0)
        config.setdefault("max_completion_length", 13)
    else:
        config.setdefault("beta", 0.0)
    if weights is not None and "multi_objective_aggregation" in config:
        config |= {"reward_funcs": list(weights), "reward_weights": list(weights.values())}
    config |= {"gradient_accumulation_steps": 2, "steps_per_generation": 4, "num_iterations": 2 if old else 1}
    return Case(
        "trl",
        "1.16.0",
        name,
        objective,
        answer(trainer, weights, **options),
        kind=kind,
        config=None if not old or (weights is not None and "reward_funcs" not in config) else config,
        trainer={"grpo": "GRPOTrainer", "rloo": "RLOOTrainer", "gmpo": "GMPOTrainer"}[trainer],
    )


def sampled(mode: str, objective: Objective = BASE, low: float | None = None, **correction: Any) -> Case:
    """vLLM importance sampling."""
    made = Correction(low=low, high=1.5, **correction)
    return case(
        f"vLLM {mode}" + (", with a lower bound" if low is not None else ""),
        objective.replace(ratio=Ratio(denominator="old", corrections=(made,))),
        use_vllm=True,
        vllm_importance_sampling_mode=mode,
        vllm_importance_sampling_clip_max=1.5,
        **({"vllm_importance_sampling_clip_min": low} if low is not None else {}),
    )


THRESHOLD = 0.02
OPSM = Correction(
    action="gate", level="sequence", numerator="theta", low=math.exp(-THRESHOLD), keep_nonnegative=True
)
LOO = Objective(
    baseline=Baseline(kind="leave_one_out"),
    ratio=Ratio(denominator="old", level="product"),
    clip=PPOClip(epsilon_low=0.2, epsilon_high=0.2),
    aggregation=SUMS,
)

CASES = [
    case("grpo", BASE.replace(aggregation=ROWS), loss_type="grpo"),
    case(
        "bnpo",
        BASE.replace(aggregation=Aggregation(kind="token-mean", scope="micro_batch")),
        loss_type="bnpo",
    ),
    case(
        "dr_grpo",
        BASE.replace(
            scale=Scale(),
            aggregation=Aggregation(kind="seq-mean-token-sum-norm", scope="micro_batch", constant=13.0),
        ),
        loss_type="dr_grpo",
        scale_rewards="none",
    ),
    case("dapo", BASE, loss_type="dapo"),
    case(
        "dapo, clip higher",
        BASE.replace(clip=PPOClip(epsilon_low=0.2, epsilon_high=0.28)),
        loss_type="dapo",
        epsilon_high=0.28,
    ),
    case(
        "grpo, batch std",
        BASE.replace(scale=Scale(kind="batch_std", ddof=1, epsilon=1e-4)),
        scale_rewards="batch",
    ),
    case("cispo", BASE.replace(clip=CISPOClip(epsilon_high=0.1)), loss_type="cispo", epsilon_high=1.1),
    case("no old policy: ratio of 1", BASE.replace(ratio=Ratio(), clip=NoClip()), old=False),
    case(
        "cispo, forgotten cap",
        BASE.replace(clip=CISPOClip(epsilon_high=-0.8)),
        loss_type="cispo",
    ),
    case(
        "sapo",
        BASE.replace(clip=SAPO(tau_positive=1.0, tau_negative=1.05), aggregation=ROWS),
        loss_type="sapo",
    ),
    case(
        "gspo",
        BASE.replace(ratio=SEQUENCE, clip=NARROW, aggregation=ROWS),
        loss_type="grpo",
        importance_sampling_level="sequence",
        epsilon_low=0.05,
        epsilon_high=0.06,
    ),
    case(
        "luspo",
        BASE.replace(ratio=SEQUENCE, clip=NARROW, aggregation=SUMS),
        loss_type="luspo",
        importance_sampling_level="sequence",
        epsilon_low=0.05,
        epsilon_high=0.06,
    ),
    case("luspo, token ratios", BASE.replace(aggregation=SUMS), loss_type="luspo"),
    case("vespo", BASE.replace(clip=VESPO()), loss_type="vespo"),
    case(
        "vespo, vLLM token_truncate",
        BASE.replace(clip=VESPO(), ratio=Ratio(denominator="old", corrections=(Correction(high=1.5),))),
        loss_type="vespo",
        use_vllm=True,
        vllm_importance_sampling_mode="token_truncate",
        vllm_importance_sampling_clip_max=1.5,
    ),
    case(
        "vespo, vLLM token_mask",
        BASE.replace(
            clip=VESPO(), ratio=Ratio(denominator="old", corrections=(Correction(action="mask", high=1.4),))
        ),
        loss_type="vespo",
        use_vllm=True,
        vllm_importance_sampling_mode="token_mask",
        vllm_importance_sampling_clip_max=1.4,
    ),
    case(
        "two-sided clip",
        BASE.replace(clip=PPOClip(epsilon_low=0.2, epsilon_high=0.2, delta=1.5)),
        delta=1.5,
        kind=replace(TWO, drift=0.8),
    ),
    case("KL, pathwise", BASE.replace(kl=pull("pathwise")), beta=0.3, use_bias_correction_kl=False),
    case("KL, times the ratio", BASE.replace(kl=pull("ratio")), beta=0.3),
    case(
        "KL, times the ratio, far",
        BASE.replace(kl=pull("ratio")),
        beta=0.3,
        kind=replace(TWO, far_ref=2.5),
    ),
    case(
        "gspo, KL times the ratio of the response",
        BASE.replace(ratio=SEQUENCE, clip=NARROW, aggregation=ROWS, kl=pull("ratio")),
        loss_type="grpo",
        importance_sampling_level="sequence",
        epsilon_low=0.05,
        epsilon_high=0.06,
        beta=0.3,
    ),
    case(
        "off-policy sequence mask",
        BASE.replace(ratio=Ratio(denominator="old", corrections=(OPSM,))),
        use_vllm=True,
        vllm_importance_sampling_correction=False,
        off_policy_mask_threshold=THRESHOLD,
    ),
    case("top-entropy tokens", BASE.replace(filter=Filter(top_entropy=0.3)), top_entropy_quantile=0.3),
    case(
        "truncated masked",
        BASE.replace(filter=Filter(mask_truncated=True)),
        mask_truncated_completions=True,
    ),
    case(
        "grpo, truncated masked",
        BASE.replace(filter=Filter(mask_truncated=True), aggregation=ROWS),
        loss_type="grpo",
        mask_truncated_completions=True,
    ),
    sampled("token_truncate"),
    sampled("token_truncate", low=0.8),
    sampled("token_mask", action="mask"),
    sampled("token_mask", low=0.8, action="mask"),
    sampled("sequence_truncate", level="product"),
    sampled("sequence_mask", action="mask", level="product"),
    case(
        "several rewards, some missing",
        BASE.replace(shaping=Shaping(weights=BOTH)),
        weights=BOTH,
        kind=replace(TWO, missing=True),
    ),
    case(
        "normalize_then_sum (GDPO)",
        BASE.replace(
            shaping=Shaping(weights=BOTH, per_component=True),
            scale=Scale(
                kind="group_std",
                ddof=1,
                epsilon=1e-4,
                whiten=Whiten(level="sequence", ddof=1, epsilon=1e-4),
            ),
        ),
        weights=BOTH,
        multi_objective_aggregation="normalize_then_sum",
    ),
    case(
        "normalize_then_sum (GDPO), some missing",
        BASE.replace(
            shaping=Shaping(weights=BOTH, per_component=True),
            scale=Scale(
                kind="group_std",
                ddof=1,
                epsilon=1e-4,
                whiten=Whiten(level="sequence", ddof=1, epsilon=1e-4),
            ),
        ),
        weights=BOTH,
        multi_objective_aggregation="normalize_then_sum",
        kind=replace(TWO, missing=True),
    ),
    case("rloo", LOO, trainer="rloo"),
    case(
        "rloo, KL in the reward",
        LOO.replace(kl=KL(reward=RewardKL(coefficient=0.05))),
        trainer="rloo",
        beta=0.05,
    ),
    case(
        "rloo, clipped reward, normalised",
        LOO.replace(
            shaping=Shaping(clip=(-0.25, 1.0)),
            scale=Scale(whiten=Whiten(level="sequence", ddof=1, epsilon=1e-4)),
            kl=KL(reward=RewardKL(coefficient=0.05)),
        ),
        trainer="rloo",
        beta=0.05,
        reward_clip_range=(-0.25, 1.0),
        normalize_advantages=True,
    ),
    case(
        "rloo, several rewards, some missing",
        LOO.replace(shaping=Shaping(weights=BOTH)),
        trainer="rloo",
        weights=BOTH,
        kind=replace(TWO, missing=True),
    ),
    case(
        "gmpo",
        BASE.replace(clip=GMPO(epsilon_low=0.2, epsilon_high=0.3), aggregation=ROWS),
        trainer="gmpo",
        epsilon_low=0.2,
        epsilon_high=0.3,
    ),
    case(
        "gmpo, KL",
        BASE.replace(clip=GMPO(epsilon_low=0.4, epsilon_high=0.4), aggregation=ROWS, kl=pull("pathwise")),
        trainer="gmpo",
        epsilon_low=0.4,
        epsilon_high=0.4,
        beta=0.3,
    ),
]

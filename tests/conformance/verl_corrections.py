"""verl 0.9.1: rollout correction: importance weights, rejection, and the modes that bypass the old policy."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from scipy.optimize import brentq
from torch import Tensor

from audit.objectives.objective import KL, Aggregation, Correction, LossKL, Objective, Ratio
from audit.objectives.surrogates import NoClip
from conformance.batch import Batch, Kind
from conformance.case import Case
from conformance.verl_calls import GRPO, answer, verl
from conformance.verl_estimators import FRAMEWORK, VERSION
from conformance.verl_losses import BASE, ROWS

MISMATCH = Kind(mismatch=0.4)
K3_WINDOW = tuple(math.exp(brentq(lambda u: math.exp(u) - 1 - u - 0.05, *side)) for side in ((-1, 0), (0, 1)))
"""Ratios at which r - 1 - log r is 0.05."""


def weights(level: str, threshold: float | str) -> Callable[[Batch], Tensor]:
    """Importance weights of tokens."""
    return lambda batch: verl().corrections.compute_rollout_correction_weights(
        batch.old - batch.sampler, batch.weight, level, threshold
    )[0]


def rejection(kind: str, threshold: str) -> Callable[[Batch], Tensor]:
    """The response mask after rejection."""
    return lambda batch: verl().corrections.compute_rollout_rejection_mask(
        batch.old - batch.sampler, batch.weight, kind, threshold
    )[0]


def case(
    name: str,
    objective: Objective,
    theirs: Callable[..., Any],
    correction: dict[str, Any],
    actor: dict[str, Any] | None = None,
) -> Case:
    """A correction; its options stand where verl's config has them."""
    return Case(
        FRAMEWORK,
        VERSION,
        name,
        objective,
        theirs,
        kind=MISMATCH,
        config={
            "algorithm": {"adv_estimator": "grpo", "rollout_correction": correction},
            "actor_rollout_ref": {"actor": actor or {}, "rollout": {"n": 4}},
        },
    )


def weighted(name: str, of: str, threshold: float | str, **correction: Any) -> Case:
    """Importance weights on the vanilla loss."""
    made = Correction(**correction)
    return case(
        f"rollout IS, {name}",
        BASE.replace(ratio=Ratio(denominator="old", clamp=20.0, corrections=(made,))),
        answer(GRPO, weights=weights(of, threshold)),
        {"rollout_is": of, "rollout_is_threshold": threshold},
    )


def rejected(
    name: str,
    kind: str,
    threshold: str,
    *,
    kept: bool,
    aggregation: Aggregation | None = None,
    **correction: Any,
) -> Case:
    """Rejection on the vanilla loss, with the token count before or after it."""
    made = Correction(action="gate", weighs_kl=True, leaves_denominator=kept, **correction)
    objective = BASE.replace(ratio=Ratio(denominator="old", clamp=20.0, corrections=(made,)))
    actor = {}
    if aggregation is not None:
        objective = objective.replace(aggregation=aggregation)
        actor = {"loss_agg_mode": aggregation.kind}
    theirs = answer(GRPO, actor, mask=rejection(kind, threshold), kept_tokens=kept)
    options = {"rollout_rs": kind, "rollout_rs_threshold": threshold}
    made_case = case(f"rollout RS, {name}", objective, theirs, options, actor)
    if kept and aggregation is None:  # the older trainer counts tokens after rejection
        made_case.config["trainer"] = {"use_v1": False}  # type: ignore[index]
    return made_case


def bypassed(name: str, objective: Objective, **correction: Any) -> Case:
    """No old policy: the ratio is to the sampler."""
    options = {"bypass_mode": True, **correction}
    policy = {"loss_mode": "bypass_mode", "rollout_correction": correction}
    theirs = answer(GRPO, {}, policy, denominator="sampler")
    return case(f"bypass, {name}", objective, theirs, options)


CASES = [
    weighted("token, truncated", "token", 1.3, high=1.3),
    weighted("token, icepop", "token", "0.7_1.3", action="mask", low=0.7, high=1.3),
    weighted("sequence, truncated", "sequence", 1.5, level="product", high=1.5),
    weighted("sequence, icepop", "sequence", "0.3_3", level="product", action="mask", low=0.3, high=3.0),
    rejected("token k1, all tokens counted", "token_k1", "0.7_1.4", kept=False, low=1 / 1.4, high=1 / 0.7),
    rejected("token k1, kept tokens counted", "token_k1", "0.7_1.4", kept=True, low=1 / 1.4, high=1 / 0.7),
    rejected("sequence sum k1", "seq_sum_k1", "0.4_2.5", kept=False, level="product", low=0.4, high=2.5),
    rejected(
        "sequence mean k1", "seq_mean_k1", "0.9_1.1", kept=True, level="sequence", low=1 / 1.1, high=1 / 0.9
    ),
    rejected("token k2", "token_k2", "0.05", kept=False, low=math.exp(-(0.1**0.5)), high=math.exp(0.1**0.5)),
    rejected("token k3", "token_k3", "0.05", kept=False, low=K3_WINDOW[0], high=K3_WINDOW[1]),
    rejected(
        "token k1, row mean over kept tokens",
        "token_k1",
        "0.7_1.4",
        kept=True,
        aggregation=ROWS,
        low=1 / 1.4,
        high=1 / 0.7,
    ),
    case(
        "rollout RS, token k1, with a KL",
        BASE.replace(
            ratio=Ratio(
                denominator="old",
                clamp=20.0,
                corrections=(Correction(action="gate", weighs_kl=True, low=1 / 1.4, high=1 / 0.7),),
            ),
            kl=KL(loss=LossKL(coefficient=0.3, estimator="k1")),
        ),
        answer(GRPO, mask=rejection("token_k1", "0.7_1.4"), kl=("kl", 0.3)),
        {"rollout_rs": "token_k1", "rollout_rs_threshold": "0.7_1.4"},
        actor={"use_kl_loss": True, "kl_loss_type": "kl", "kl_loss_coef": 0.3},
    ),
    bypassed("PPO clip", BASE.replace(ratio=Ratio(denominator="sampler", clamp=20.0)), loss_type="ppo_clip"),
    bypassed(
        "REINFORCE, truncated",
        BASE.replace(ratio=Ratio(corrections=(Correction(numerator="theta", high=1.3),)), clip=NoClip()),
        loss_type="reinforce",
        rollout_is="token",
        rollout_is_threshold=1.3,
    ),
    bypassed(
        "REINFORCE, sequence weight",
        BASE.replace(
            ratio=Ratio(corrections=(Correction(numerator="theta", level="product", high=2.0),)),
            clip=NoClip(),
        ),
        loss_type="reinforce",
        rollout_is="sequence",
        rollout_is_threshold=2.0,
    ),
]

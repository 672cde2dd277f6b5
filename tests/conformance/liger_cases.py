"""Liger 0.8.5: ``ppo_loss_fn`` of its fused GRPO loss, on advantages that TRL's statements form.

The fused kernel computes log-probs from hidden states and calls this function on each chunk of rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

from audit.objectives.objective import Aggregation, Correction, Objective, Ratio, Scale
from audit.objectives.surrogates import SAPO, VESPO, CISPOClip, NoClip, PPOClip
from conformance.batch import EVEN, Batch, Kind
from conformance.case import Answer, Case, gradient
from conformance.stubs import stub
from conformance.trl_calls import DEFAULTS, advantages, sampler_weights
from conformance.trl_cases import BASE, NARROW, SEQUENCE, STD, pull

ONE = Kind(groups=EVEN)
TOKENS = Aggregation(kind="token-mean")
ROWS = Aggregation(kind="seq-mean-token-mean")
START = BASE.replace(aggregation=TOKENS)


def answer(
    *, scale: str = "group", sampler: dict[str, Any] | None = None, old: bool = True, **options: Any
) -> Callable[[Batch], Answer]:
    """Gradient of the chunk that is the whole batch; ``sampler``: options of TRL's vLLM correction."""
    options = {"beta": 0.0, **options}

    def of(batch: Batch) -> Answer:
        stub("triton")
        from liger_kernel.chunked_loss.grpo_loss import LigerFusedLinearGRPOFunction

        made = advantages("grpo", {**DEFAULTS, "scale_rewards": scale}, batch, None)
        ratio = sampler_weights({**DEFAULTS, **sampler}, batch) if sampler else None

        def loss(theta: Tensor) -> Tensor:
            return LigerFusedLinearGRPOFunction.ppo_loss_fn(
                theta,
                batch.weight,
                made,
                batch.weight,
                ref_per_token_logps=batch.ref,
                old_per_token_logps=batch.old if old else None,
                vllm_is_ratio=ratio,
                **options,
            )[0]

        return Answer(made, gradient(batch, loss))

    return of


def case(name: str, objective: Objective, kind: Kind = ONE, **options: Any) -> Case:
    """One call."""
    config = {"beta": 0.0, **{k: v for k, v in options.items() if k not in ("scale", "sampler", "old")}}
    told = None if "sampler" in options or "old" in options else config
    return Case("liger", "0.8.5", name, objective, answer(**options), kind=kind, config=told)


CASES = [
    case("grpo", START.replace(aggregation=ROWS), loss_type="grpo"),
    case("bnpo", START, loss_type="bnpo"),
    case(
        "dr_grpo",
        START.replace(scale=Scale(), aggregation=Aggregation(kind="seq-mean-token-sum-norm", constant=13.0)),
        loss_type="dr_grpo",
        max_completion_length=13,
        scale="none",
    ),
    case("dapo", START, loss_type="dapo"),
    case("cispo", START.replace(clip=CISPOClip(epsilon_high=0.1)), loss_type="cispo", epsilon_high=1.1),
    case("sapo", START.replace(clip=SAPO(), aggregation=ROWS), loss_type="sapo"),
    case("vespo", START.replace(clip=VESPO()), loss_type="vespo"),
    case(
        "vespo, token weights",
        START.replace(clip=VESPO(), ratio=Ratio(denominator="old", corrections=(Correction(high=1.5),))),
        loss_type="vespo",
        sampler={"vllm_importance_sampling_mode": "token_truncate", "vllm_importance_sampling_clip_max": 1.5},
    ),
    case(
        "gspo",
        START.replace(ratio=SEQUENCE, clip=NARROW, aggregation=ROWS),
        loss_type="grpo",
        importance_sampling_level="sequence",
        epsilon_low=0.05,
        epsilon_high=0.06,
    ),
    case(
        "gspo, KL",
        START.replace(ratio=SEQUENCE, clip=NARROW, aggregation=ROWS, kl=pull("pathwise")),
        loss_type="grpo",
        importance_sampling_level="sequence",
        epsilon_low=0.05,
        epsilon_high=0.06,
        beta=0.3,
    ),
    case(
        "gspo, KL times the ratio",
        START.replace(ratio=SEQUENCE, clip=NARROW, aggregation=ROWS, kl=pull("ratio")),
        loss_type="grpo",
        importance_sampling_level="sequence",
        epsilon_low=0.05,
        epsilon_high=0.06,
        beta=0.3,
        use_bias_correction_kl=True,
    ),
    case(
        "luspo",
        START.replace(ratio=SEQUENCE, clip=NARROW, aggregation=Aggregation(kind="seq-mean-token-sum")),
        loss_type="luspo",
        importance_sampling_level="sequence",
        epsilon_low=0.05,
        epsilon_high=0.06,
    ),
    case(
        "dapo, truncated weights, two-sided clip, KL times the ratio",
        START.replace(
            ratio=Ratio(denominator="old", corrections=(Correction(high=1.5),)),
            clip=PPOClip(epsilon_low=0.2, epsilon_high=0.2, delta=1.5),
            kl=pull("ratio"),
        ),
        loss_type="dapo",
        delta=1.5,
        beta=0.3,
        use_bias_correction_kl=True,
        sampler={"vllm_importance_sampling_mode": "token_truncate", "vllm_importance_sampling_clip_max": 1.5},
        kind=Kind(groups=EVEN, drift=0.8),
    ),
    case("dapo, no old policy", START.replace(ratio=Ratio(), clip=NoClip()), loss_type="dapo", old=False),
    case("dapo, KL", START.replace(scale=STD, kl=pull("pathwise")), loss_type="dapo", beta=0.3),
]

"""unsloth_zoo 2026.10.9: ``grpo_compute_loss``, compiled from the installed file.

The package itself patches torch and transformers when it is imported; the function needs neither.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from audit.objectives.objective import KL, Aggregation, Correction, LossKL, Objective, Ratio, Scale
from audit.objectives.surrogates import SAPO, VESPO, CISPOClip, PPOClip
from conformance.batch import Batch, Kind
from conformance.case import Answer, Case, gradient
from conformance.trl_calls import DEFAULTS, advantages, trl
from conformance.trl_cases import BASE, NARROW, OPSM, SEQUENCE, THRESHOLD, TWO

ROWS = Aggregation(kind="seq-mean-token-mean", scope="micro_batch")
SUMS = Aggregation(kind="seq-mean-token-sum", scope="micro_batch")


@cache
def compute_loss() -> Callable[..., Any]:
    """The function alone."""
    spec = find_spec("unsloth_zoo")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    path = Path(spec.submodule_search_locations[0]) / "rl_replacements.py"
    tree = ast.parse(path.read_text(encoding="utf-8"))
    body = [n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == "grpo_compute_loss"]
    place: dict[str, Any] = {"torch": torch, "math": math}
    exec(compile(ast.Module(body, []), str(path), "exec"), place)
    made: Callable[..., Any] = place["grpo_compute_loss"]
    return made


def answer(*, scale: str = "group", beta: float = 0.0, **options: Any) -> Callable[[Batch], Answer]:
    """Gradient over the micro-batches of one update."""

    def of(batch: Batch) -> Answer:
        made = advantages("grpo", {**DEFAULTS, "scale_rewards": scale}, batch, None)
        grpo = trl().grpo.GRPOTrainer

        def loss(theta: Tensor) -> Tensor:
            total = theta.new_zeros(())
            for rows in batch.slices():
                found = compute_loss()(
                    batch.ref[rows],
                    theta[rows],
                    batch.old[rows],
                    batch.sampler[rows],
                    torch.zeros(len(rows), batch.width, dtype=torch.int64),
                    batch.weight[rows],
                    beta,
                    made[rows],
                    num_items_in_batch=batch.mask.sum(),
                    current_gradient_accumulation_steps=batch.kind.micro_batches // batch.kind.updates,
                    steps_per_generation=batch.kind.micro_batches,
                    get_gamma_weights=grpo.get_gamma_weights,
                    get_off_policy_mask=grpo.get_off_policy_mask,
                    **options,
                )
                total = total + found[0]
            return total

        return Answer(made, gradient(batch, loss))

    return of


def case(name: str, objective: Objective, kind: Kind = TWO, **options: Any) -> Case:
    """One call per micro-batch."""
    renamed = {"epsilon_low": "epsilon", "scale": "scale_rewards"}
    config = {
        "trl_version": "1.16.0",
        "epsilon_high": 0.2,
        "beta": 0.0,
        "use_bias_correction_kl": False,
        "mask_truncated_completions": False,
        "max_completion_length": 13,
        "gradient_accumulation_steps": 2,
        "steps_per_generation": 4,
        "num_iterations": 2,
        **{renamed.get(key, key): value for key, value in options.items()},
    }
    if "off_policy_mask_threshold" in config:
        config |= {"use_vllm": True}
    return Case("unsloth", "2026.10.9", name, objective, answer(**options), kind=kind, config=config)


def sampled(mode: str, **correction: Any) -> Case:
    """A correction for the engine's log-probs."""
    made = Correction(high=1.1 if "geometric" in mode else 1.5, **correction)
    return case(
        f"vLLM {mode}",
        BASE.replace(ratio=Ratio(denominator="old", corrections=(made,))),
        loss_type="dapo",
        use_vllm=True,
        vllm_importance_sampling_correction=True,
        vllm_importance_sampling_mode=mode,
        vllm_importance_sampling_clip_max=made.high,
    )


def pull(gradient: str) -> KL:
    """k3 in the loss, clamped."""
    return KL(loss=LossKL(coefficient=0.3, gradient=gradient, input_clamp=20.0, output_clamp=10.0))


FAR = replace(TWO, far_ref=3.0)

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
        max_completion_length=13,
        scale="none",
    ),
    case("dapo", BASE, loss_type="dapo"),
    case("dapo, KL", BASE.replace(kl=pull("pathwise")), loss_type="dapo", beta=0.3),
    case("dapo, KL beyond its clamps", BASE.replace(kl=pull("pathwise")), FAR, loss_type="dapo", beta=0.3),
    case(
        "cispo",
        BASE.replace(clip=CISPOClip(epsilon_high=0.1)),
        loss_type="cispo",
        epsilon_high=1.1,
    ),
    case("sapo", BASE.replace(clip=SAPO(), aggregation=ROWS), loss_type="sapo"),
    case("vespo", BASE.replace(clip=VESPO()), loss_type="vespo"),
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
    case(
        "two-sided clip",
        BASE.replace(clip=PPOClip(epsilon_low=0.2, epsilon_high=0.2, delta=1.5)),
        replace(TWO, drift=0.8),
        loss_type="dapo",
        delta=1.5,
    ),
    case(
        "off-policy sequence mask",
        BASE.replace(ratio=Ratio(denominator="old", corrections=(OPSM,))),
        loss_type="dapo",
        off_policy_mask_threshold=THRESHOLD,
    ),
    sampled("token_truncate"),
    sampled("token_mask", action="mask"),
    sampled("sequence_truncate", level="product"),
    sampled("sequence_mask", action="mask", level="product"),
    sampled("geometric_truncate", level="sequence"),
    sampled("geometric_mask", action="mask", level="sequence"),
]

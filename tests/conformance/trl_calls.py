"""TRL 1.16: its loss functions with a stand-in for the trainer, its advantages by its own statements.

The statements that form advantages and sampler weights stand inside one long method that also generates; they
are cut out of the installed source and executed as they are.
"""

from __future__ import annotations

import inspect
import math
import textwrap
from collections import defaultdict
from collections.abc import Callable
from functools import cache
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from conformance.batch import Batch
from conformance.case import Answer, gradient

DEFAULTS: dict[str, Any] = {
    "loss_type": "dapo",
    "importance_sampling_level": "token",
    "beta": 0.0,
    "epsilon_low": 0.2,
    "epsilon_high": 0.2,
    "delta": None,
    "max_completion_length": 13,
    "use_bias_correction_kl": True,
    "scale_rewards": "group",
    "multi_objective_aggregation": "sum_then_normalize",
    "top_entropy_quantile": 1.0,
    "off_policy_mask_threshold": None,
    "mask_truncated_completions": False,
    "use_vllm": False,
    "vllm_importance_sampling_correction": True,
    "vllm_importance_sampling_mode": "sequence_mask",
    "vllm_importance_sampling_clip_min": None,
    "vllm_importance_sampling_clip_max": 3.0,
    "sapo_temperature_pos": 1.0,
    "sapo_temperature_neg": 1.05,
    "vespo_k_pos": 2.0,
    "vespo_lambda_pos": 3.0,
    "vespo_k_neg": 3.0,
    "vespo_lambda_neg": 2.0,
    "reward_clip_range": None,
    "normalize_advantages": False,
}


@cache
def trl() -> SimpleNamespace:
    """The trainers."""
    import trl.trainer.grpo_trainer as grpo
    import trl.trainer.rloo_trainer as rloo
    from trl.experimental.gmpo import GMPOTrainer

    return SimpleNamespace(grpo=grpo, rloo=rloo, gmpo=GMPOTrainer)


@cache
def statements(trainer: str, first: str, last: str) -> Any:
    """Lines of ``_generate_and_score_completions`` from the one with ``first`` to the one before ``last``."""
    module = getattr(trl(), trainer)
    made = getattr(module, f"{trainer.upper()}Trainer")._generate_and_score_completions
    lines = inspect.getsource(inspect.unwrap(made)).splitlines()
    start = next(i for i, line in enumerate(lines) if first in line)
    stop = next(i for i, line in enumerate(lines) if i > start and last in line)
    return compile(textwrap.dedent("\n".join(lines[start:stop])), f"{module.__file__}:{first}", "exec")


def stand_in(options: dict[str, Any], batch: Batch, theta: Tensor, rows: Tensor) -> SimpleNamespace:
    """Everything that the loss functions read from their trainer."""
    entropy = batch.entropy[rows]
    slices = batch.kind.micro_batches
    made = SimpleNamespace(
        **options,
        args=SimpleNamespace(**options, steps_per_generation=slices),
        model=SimpleNamespace(training=True),
        accelerator=SimpleNamespace(
            num_processes=1,
            process_index=0,
            gather=lambda x: x,
            gather_for_metrics=lambda x: x,
            reduce=lambda x, reduction: x,
            pad_across_processes=lambda x, **_: x,
            sync_gradients=True,
        ),
        current_gradient_accumulation_steps=slices // batch.kind.updates,
        aux_loss_enabled=False,
        _entropy_bonus_enabled=False,
        _metrics={"train": defaultdict(list)},
        _get_per_token_logps_and_entropies=lambda *_, **__: (theta[rows], entropy, None),
    )
    grpo = trl().grpo.GRPOTrainer
    made.get_high_entropy_mask = lambda *args: grpo.get_high_entropy_mask(made, *args)
    made.get_off_policy_mask = grpo.get_off_policy_mask
    made.get_gamma_weights = grpo.get_gamma_weights
    return made


def advantages(
    trainer: str, options: dict[str, Any], batch: Batch, weights: dict[str, float] | None
) -> Tensor:
    """Advantage of each response, shape (R,), by the trainer's own statements."""
    each = [batch.reward] if weights is None else [batch.components[name] for name in weights]
    module = getattr(trl(), trainer)
    self = SimpleNamespace(
        **options,
        reward_weights=torch.tensor([1.0] if weights is None else list(weights.values())).double(),
        reward_funcs=each,
    )
    place = {
        **vars(module),
        "self": self,
        "device": "cpu",
        "num_generations": batch.kind.groups[0],
        "rewards_per_func": torch.stack(each, 1),
        "gather": lambda x: x,
        "old_per_token_logps": batch.old,
        "ref_per_token_logps": batch.ref,
        "completion_mask": batch.weight,
    }
    exec(statements(trainer, "unscorable_mask = ", "# Slice to keep only the local part"), place)
    made: Tensor = place["advantages"]
    return made


def sampler_weights(options: dict[str, Any], batch: Batch) -> Tensor:
    """``importance_sampling_ratio``, shape (R, T) or (R, 1)."""
    place = {
        **vars(trl().grpo),
        "self": SimpleNamespace(**options),
        "old_per_token_logps": batch.old,
        "sampling_per_token_logps": batch.sampler,
        "completion_mask": batch.inside.double(),
        "tool_mask": batch.weight,
        "math": math,
    }
    exec(
        statements(
            "grpo", "per_token_logps_diff = (old_", "# Compute the per-token log probabilities for the ref"
        ),
        {**place, "mask": batch.weight},
        place,
    )
    made: Tensor = place["vllm_importance_sampling_ratio"]
    return made


def answer(
    trainer: str = "grpo", weights: dict[str, float] | None = None, *, old: bool = True, **options: Any
) -> Callable[[Batch], Answer]:
    """Gradient over the micro-batches of one update; ``weights`` combine reward components."""
    options = {**DEFAULTS, **options}

    def of(batch: Batch) -> Answer:
        scored = "rloo" if trainer == "rloo" else "grpo"
        made = advantages(scored, options, batch, weights)
        kind = {
            "grpo": trl().grpo.GRPOTrainer,
            "rloo": trl().rloo.RLOOTrainer,
            "gmpo": trl().gmpo,
        }[trainer]
        mask = batch.weight
        if options["mask_truncated_completions"]:
            mask = mask * ~batch.truncated[:, None]
        ratio = sampler_weights(options, batch) if options["use_vllm"] else None
        accumulation = batch.kind.micro_batches // batch.kind.updates

        def loss(theta: Tensor) -> Tensor:
            total = theta.new_zeros(())
            for rows in batch.slices():
                prompt = torch.zeros(len(rows), 1, dtype=torch.int64)
                inputs = {
                    "prompt_ids": prompt,
                    "prompt_mask": prompt + 1,
                    "completion_ids": torch.zeros(len(rows), batch.width, dtype=torch.int64),
                    "completion_mask": mask[rows],
                    "advantages": made[rows],
                    "old_per_token_logps": batch.old[rows] if old else None,
                    "old_logps": (batch.old * mask).sum(1)[rows],
                    "ref_per_token_logps": batch.ref[rows],
                    "num_items_in_batch": mask.sum(),
                }
                if ratio is not None:
                    inputs["importance_sampling_ratio"] = ratio[rows]
                    inputs["sampling_per_token_logps"] = batch.sampler[rows]
                part = kind._compute_loss(
                    stand_in(options, batch, theta, rows), SimpleNamespace(training=True), inputs
                )
                # RLOOTrainer leaves the division by accumulation steps to transformers.
                total = total + (part / accumulation if trainer == "rloo" else part)
            return total

        return Answer(made, gradient(batch, loss))

    return of

"""Weights against the gradient of TRL's own loss function, called with a stand-in for the trainer."""

from __future__ import annotations

from collections import defaultdict
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from weight_cases import Row, responses_of, tokens_of

from audit.objectives.objective import (
    KL,
    Aggregation,
    Baseline,
    LossKL,
    Objective,
    Ratio,
    Scale,
)
from audit.objectives.surrogates import CISPOClip, PPOClip, Surrogate
from audit.objectives.weights import effective_weights

ACCUMULATION, SLICES, ROWS, WIDTH = 2, 4, 6, 7
"""Two updates of two micro-batches of six rows (two groups of three) share one generation batch."""

MICRO = Aggregation(kind="seq-mean-token-mean", scope="micro_batch")
SHARED = Aggregation(kind="token-mean", scope="generation_batch")
BAND = PPOClip(epsilon_low=0.2, epsilon_high=0.28)
SEQUENCE = Ratio(denominator="old", level="sequence")


def objective(
    aggregation: Aggregation, clip: Surrogate = BAND, ratio: Ratio | None = None, gradient: str | None = None
) -> Objective:
    return Objective(
        baseline=Baseline(kind="group_mean"),
        scale=Scale(kind="group_std", ddof=1, epsilon=1e-4),
        ratio=ratio or Ratio(denominator="old"),
        clip=clip,
        aggregation=aggregation,
        kl=KL() if gradient is None else KL(loss=LossKL(coefficient=0.3, gradient=gradient)),
    )


CASES: dict[str, tuple[dict[str, Any], Objective]] = {
    "grpo": ({"loss_type": "grpo"}, objective(MICRO)),
    "grpo, KL": ({"loss_type": "grpo", "beta": 0.3}, objective(MICRO, gradient="pathwise")),
    "grpo, KL times ratio": (
        {"loss_type": "grpo", "beta": 0.3, "use_bias_correction_kl": True},
        objective(MICRO, gradient="ratio"),
    ),
    "bnpo, delta": (
        {"loss_type": "bnpo", "delta": 1.5},
        objective(
            Aggregation(kind="token-mean", scope="micro_batch"),
            PPOClip(epsilon_low=0.2, epsilon_high=0.28, delta=1.5),
        ),
    ),
    "bnpo, delta inside the band": (
        {"loss_type": "bnpo", "delta": 1.1},
        objective(
            Aggregation(kind="token-mean", scope="micro_batch"),
            PPOClip(epsilon_low=0.2, epsilon_high=0.28, delta=1.1),
        ),
    ),
    "dr_grpo": (
        {"loss_type": "dr_grpo", "max_completion_length": 11},
        objective(Aggregation(kind="seq-mean-token-sum-norm", scope="micro_batch", constant=11.0)),
    ),
    "dapo": ({"loss_type": "dapo"}, objective(SHARED)),
    "dapo, KL": ({"loss_type": "dapo", "beta": 0.3}, objective(SHARED, gradient="pathwise")),
    "cispo": (
        {"loss_type": "cispo", "epsilon_high": 1.1},
        objective(SHARED, CISPOClip(epsilon_high=1.1 - 1)),
    ),
    "gspo": (
        {"loss_type": "grpo", "importance_sampling_level": "sequence"},
        objective(MICRO, ratio=SEQUENCE),
    ),
    "gspo, KL times ratio": (
        {
            "loss_type": "grpo",
            "importance_sampling_level": "sequence",
            "beta": 0.3,
            "use_bias_correction_kl": True,
        },
        objective(MICRO, ratio=SEQUENCE, gradient="ratio"),
    ),
    "luspo": (
        {"loss_type": "luspo", "importance_sampling_level": "sequence"},
        objective(Aggregation(kind="seq-mean-token-sum", scope="micro_batch"), ratio=SEQUENCE),
    ),
}


def stand_in(config: dict[str, Any], logp: torch.Tensor) -> SimpleNamespace:
    """Everything that the loss function reads from its trainer."""
    config = {
        "importance_sampling_level": "token",
        "beta": 0.0,
        "epsilon_low": 0.2,
        "epsilon_high": 0.28,
        "delta": None,
        "max_completion_length": WIDTH,
        "use_bias_correction_kl": False,
        "steps_per_generation": SLICES,
        **config,
    }
    return SimpleNamespace(
        **config,
        args=SimpleNamespace(**config),
        model=SimpleNamespace(training=True),
        accelerator=SimpleNamespace(
            num_processes=1, gather=lambda x: x, reduce=lambda x, reduction: x, sync_gradients=True
        ),
        current_gradient_accumulation_steps=ACCUMULATION,
        aux_loss_enabled=False,
        top_entropy_quantile=1.0,
        off_policy_mask_threshold=None,
        use_vllm=False,
        _entropy_bonus_enabled=False,
        _metrics={"train": defaultdict(list)},
        _get_per_token_logps_and_entropies=lambda *_, **__: (logp, torch.zeros_like(logp), None),
    )


@pytest.mark.trl
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_gradient_of_trl_is_the_weight(case: str, seed: int) -> None:
    trainer = pytest.importorskip("trl.trainer.grpo_trainer").GRPOTrainer
    config, ours = CASES[case]
    rng = np.random.default_rng(seed)
    shape = (SLICES, ROWS, WIDTH)
    lengths = rng.integers(0, WIDTH + 1, shape[:2])
    mask = torch.from_numpy(np.arange(WIDTH) < lengths[..., None])
    old = torch.from_numpy(-rng.exponential(1.0, shape))
    drift = 0.3 if ours.ratio.level == "token" else 0.6
    theta = (old + torch.from_numpy(rng.normal(0, drift, shape))).requires_grad_(True)
    ref = old + torch.from_numpy(rng.normal(0, 0.7, shape))
    reward = torch.from_numpy(rng.choice([0.0, 1.0, 0.3], shape[:2]))
    groups = reward.view(SLICES, 2, 3)
    centred = groups - groups.mean(-1, keepdim=True)
    advantage = (centred / (groups.std(-1, keepdim=True) + 1e-4)).view(SLICES, ROWS)

    for part in range(SLICES):
        inputs = {
            "prompt_ids": torch.zeros(ROWS, 1, dtype=torch.int64),
            "prompt_mask": torch.ones(ROWS, 1, dtype=torch.int64),
            "completion_ids": torch.zeros(ROWS, WIDTH, dtype=torch.int64),
            "completion_mask": mask[part].long(),
            "advantages": advantage[part],
            "old_per_token_logps": old[part],
            "ref_per_token_logps": ref[part],
            "num_items_in_batch": mask.sum(),
        }
        trainer._compute_loss(
            stand_in(config, theta[part]), SimpleNamespace(training=True), inputs
        ).backward()

    rows, theirs = [], []
    for part in range(SLICES):
        for i in range(ROWS):
            n = int(lengths[part, i])
            columns = {
                name: tuple(values[part, i, :n].tolist())
                for name, values in (("theta", theta), ("old", old), ("ref", ref), ("sampler", old))
            }
            rows.append(
                Row(
                    reward[part, i].item(),
                    mask=(True,) * n,
                    group=2 * part + i // 3,
                    update=part // ACCUMULATION,
                    micro=part,
                    **columns,
                )
            )
            theirs.append(-theta.grad[part, i, :n])
    weight = effective_weights(tokens_of(rows), responses_of(rows), ours).weight
    expected = torch.cat(theirs)
    assert expected.ne(0).any()
    torch.testing.assert_close(weight, expected, rtol=1e-10, atol=1e-14)

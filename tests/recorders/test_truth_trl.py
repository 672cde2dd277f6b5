"""Recorded rows reproduce TRL's own gradient, token by token, for every loss that an objective expresses.

Real runs of TRL 1.16, several optimiser steps each, with clipping and ratios far from 1. TRL computes its
loss in float32, where e.g. 1 - exp(-d) cancels; ``double`` lets it compute in float64 from the same float32
log-probs (which is what a row stores, without loss), so that the formulas themselves are compared to 1e-5.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("trl")

import tiny
from trl_truth import declared_weights, errors, oracle, run_case, written_weights

pytestmark = pytest.mark.trl

TWO_PASSES: dict[str, Any] = {"num_iterations": 2}
SEQUENCE: dict[str, Any] = {**TWO_PASSES, "importance_sampling_level": "sequence"}

CASES: dict[str, dict[str, Any]] = {
    "grpo, pathwise k3": {
        **TWO_PASSES,
        "loss_type": "grpo",
        "beta": 0.04,
        "use_bias_correction_kl": False,
    },
    "grpo, ratio times k3": {**TWO_PASSES, "loss_type": "grpo", "beta": 0.04},
    "grpo, on-policy": {"loss_type": "grpo", "beta": 0.04},
    "grpo, two-sided clip, no scale": {
        **TWO_PASSES,
        "loss_type": "grpo",
        "delta": 1.5,
        "scale_rewards": "none",
    },
    "grpo, truncated masked": {
        **TWO_PASSES,
        "loss_type": "grpo",
        "beta": 0.04,
        "mask_truncated_completions": True,
        "max_completion_length": 10,
    },
    "bnpo, batch scale": {**TWO_PASSES, "loss_type": "bnpo", "beta": 0.04, "scale_rewards": "batch"},
    "dr_grpo": {
        **TWO_PASSES,
        "loss_type": "dr_grpo",
        "beta": 0.04,
        "scale_rewards": "none",
        "use_bias_correction_kl": False,
    },
    "dapo": {**TWO_PASSES, "loss_type": "dapo", "epsilon_high": 0.28},
    "dapo, one generation for two steps": {
        **TWO_PASSES,
        "loss_type": "dapo",
        "beta": 0.04,
        "steps_per_generation": 4,
    },
    "dapo, two generations for one step": {
        "loss_type": "dapo",
        "beta": 0.04,
        "steps_per_generation": 2,
        "gradient_accumulation_steps": 4,
    },
    "dapo, truncated masked": {
        **TWO_PASSES,
        "loss_type": "dapo",
        "mask_truncated_completions": True,
        "max_completion_length": 10,
    },
    "cispo": {**TWO_PASSES, "loss_type": "cispo", "epsilon_high": 1.2},
    "cispo, forgotten cap": {**TWO_PASSES, "loss_type": "cispo", "beta": 0.04},
    "luspo": {**SEQUENCE, "loss_type": "luspo"},
    "gspo": {**SEQUENCE, "loss_type": "grpo", "epsilon": 3e-4, "epsilon_high": 4e-4},
    "gspo, ratio times k3": {**SEQUENCE, "loss_type": "grpo", "beta": 0.04},
    "gspo, token mean": {
        **SEQUENCE,
        "loss_type": "dapo",
        "beta": 0.04,
        "use_bias_correction_kl": False,
    },
    "rloo": {**TWO_PASSES, "algorithm": "rloo", "steps_per_generation": 4},
    "rloo, clipped reward": {
        **TWO_PASSES,
        "algorithm": "rloo",
        "beta": 0.0,
        "reward_clip_range": (0.25, 0.5),
    },
}
IN_FLOAT32 = ("grpo, pathwise k3", "bnpo, batch scale", "dr_grpo", "dapo", "cispo", "gspo", "rloo")


@pytest.mark.parametrize("name", CASES)
def test_rows_reproduce_the_gradient(name: str, start: Path, tmp_path: Path) -> None:
    rows = run_case(start, tmp_path, double=True, **CASES[name])
    by_hand = errors(rows, oracle(rows, CASES[name]))
    from_rewards = errors(rows, declared_weights(rows, tmp_path / "run"))
    written = errors(rows, written_weights(rows, tmp_path / "run"))
    assert written["moved"] > 200
    # TRL computes advantages in float32: recomputing them in float64 differs by that, and by nothing else.
    for found, scaled, token in ((by_hand, 1e-6, 1e-5), (from_rewards, 1e-6, 1e-5), (written, 1e-13, 1e-8)):
        assert found["zeros"] == 0.0
        assert found["scaled"] < scaled
        assert found["token"] < token


@pytest.mark.parametrize("name", IN_FLOAT32)
def test_and_trl_as_it_is_to_its_own_precision(name: str, start: Path, tmp_path: Path) -> None:
    rows = run_case(start, tmp_path, double=False, **CASES[name])
    found = errors(rows, written_weights(rows, tmp_path / "run"))
    assert found["zeros"] == 0.0
    assert found["scaled"] < 1e-5


def some_unscorable(completions: list[str], **_: Any) -> list[float | None]:
    return [None if "9" in completion else float(len(completion) % 2) for completion in completions]


@pytest.mark.parametrize("algorithm", ["grpo", "rloo"])
def test_unscorable_responses_leave_the_statistics(algorithm: str, start: Path, tmp_path: Path) -> None:
    options = {"algorithm": algorithm, "beta": 0.0, "num_iterations": 2}
    rows = run_case(start, tmp_path, double=True, rewards=(some_unscorable,), **options)
    unscorable = [row for row in rows if row["reward"] is None]
    assert unscorable
    assert not any(any(row["truth"]) for row in unscorable)
    assert errors(rows, declared_weights(rows, tmp_path / "run"))["token"] < 1e-5
    assert errors(rows, written_weights(rows, tmp_path / "run"))["token"] < 1e-8


def test_ratios_clips_and_masks_did_occur(start: Path, tmp_path: Path) -> None:
    """The cases above would prove little on-policy: most of the choices agree there."""
    rows = run_case(start, tmp_path, double=True, **CASES["dapo"])
    second = [row for row in rows if row["epoch"] == 1]
    ratios = [t - o for row in second for t, o in zip(row["logp_theta"], row["logp_old"], strict=True)]
    assert max(map(abs, ratios)) > 0.3
    alive = [row for row in second if row["advantage"]]
    assert 0 < sum(w == 0.0 for row in alive for w in row["truth"]) < sum(row["length"] for row in alive)
    assert {row["length"] for row in rows} > {4, 8}
    assert max(row["length"] for row in rows) == tiny.MAX_COMPLETION

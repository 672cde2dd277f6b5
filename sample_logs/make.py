"""Make the sample logs again: ``make sample-logs``. Takes a few minutes on two CPU cores."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import tiny
import torch
from transformers import PrinterCallback

from audit.recorders.trl import record

HERE = Path(__file__).parent

# 32 responses of 4 prompts per micro-batch, 2 micro-batches per optimiser step, 2 passes over every batch.
COMMON: dict[str, Any] = {
    "max_steps": 120,
    "num_iterations": 2,
    "per_device_train_batch_size": 32,
    "gradient_accumulation_steps": 2,
    "reward_weights": [1.0, 0.0],
}
# DeepSeekMath's GRPO: 1/|o| per response, division by the group's std, k3 in the loss as it stands.
GRPO = {"loss_type": "grpo", "scale_rewards": "group", "beta": 0.04, "use_bias_correction_kl": False}

RUNS: dict[str, dict[str, Any]] = {
    "grpo-seed1": {**GRPO, "seed": 1},
    "grpo-seed2": {**GRPO, "seed": 2},
    "grpo-seed3": {**GRPO, "seed": 3},
    "dr-grpo-seed1": {**GRPO, "loss_type": "dr_grpo", "scale_rewards": "none", "seed": 1},
    "dapo-seed1": {"loss_type": "dapo", "epsilon_high": 0.28, "beta": 0.0, "seed": 1},
    "gspo-seed1": {
        "loss_type": "grpo",
        "importance_sampling_level": "sequence",
        "epsilon": 3e-4,
        "epsilon_high": 4e-4,
        "beta": 0.0,
        "seed": 1,
    },
    "cispo-seed1": {"loss_type": "cispo", "epsilon_high": 5.0, "beta": 0.0, "seed": 1},
    "rloo-seed1": {"algorithm": "rloo", "beta": 0.05, "seed": 1},
}

TESTBED = {"grpo": 2, "dr_grpo": 2, "rloo": 1, "dapo": 1, "gspo": 1, "cispo": 1}
"""Objective → seeds of the toy language."""


def train(start: Path, scratch: Path, run_dir: Path | None, **options: Any) -> Path:
    """Train one run; record it into ``run_dir`` if given. Returns the trainer's own output directory."""
    output = scratch / "output"
    shutil.rmtree(output, ignore_errors=True)
    trainer = tiny.build_trainer(start, output, rewards=(tiny.exact_answer, tiny.one_mark), **options)
    trainer.remove_callback(PrinterCallback)
    if run_dir is None:
        trainer.train()
        return output
    shutil.rmtree(run_dir, ignore_errors=True)
    with record(trainer, run_dir, flush_steps=60) as recorder:
        trainer.train()
    if recorder.failure is not None:
        raise recorder.failure
    return output


def write_testbed() -> None:
    """Write the runs of the toy language, whose truth is known (``rlaudit testbed``)."""
    target = HERE / "testbed"
    shutil.rmtree(target, ignore_errors=True)
    for objective, seeds in TESTBED.items():
        command = [sys.executable, "-m", "audit", "testbed", "--objective", objective, "-o", str(target)]
        subprocess.run([*command, "--seeds", str(seeds), "--sampler-noise", "0.05"], check=True)


def main(names: list[str]) -> None:
    """Make the runs named on the command line, or all of them, TRL's own completions and the testbed's."""
    if names == ["testbed"]:
        write_testbed()
        return
    torch.set_num_threads(1)  # the models are too small for more, and one thread adds up in one order
    warnings.filterwarnings("ignore", category=FutureWarning)
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        start = tiny.save_start(scratch)
        for name in names or RUNS:
            sys.stderr.write(f"{name}\n")
            train(start, scratch, HERE / "team" / name, **COMMON, **RUNS[name])
        if not names:
            sys.stderr.write("trl_completions\n")
            logged = {
                "max_steps": 24,
                "logging_steps": 2,
                "log_completions": True,
                "num_completions_to_print": 0,
            }
            output = train(start, scratch, None, **{**COMMON, **RUNS["grpo-seed1"], **logged})
            target = HERE / "trl_completions" / "completions"
            shutil.rmtree(target, ignore_errors=True)
            shutil.copytree(output / "completions", target)
            write_testbed()


if __name__ == "__main__":
    main(sys.argv[1:])

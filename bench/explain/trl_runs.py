"""Real runs of TRL on a CPU, half a minute each, kept in a folder that git ignores.

``python -m bench.explain.trl_runs [NAME …]`` makes those that are missing.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.sizes import FOLDER, ROOT

CACHE = FOLDER / "explain-trl"
"""``rm -r`` it to train again."""

# 20 generations of 64 responses, two passes over each.
COMMON: dict[str, Any] = {
    "loss_type": "grpo",
    "scale_rewards": "group",
    "beta": 0.04,
    "use_bias_correction_kl": False,
    "max_steps": 40,
    "num_iterations": 2,
    "per_device_train_batch_size": 32,
    "gradient_accumulation_steps": 2,
    "reward_weights": [1.0, 0.0],
}
BASE_SEEDS = (1, 2, 3, 4)
SEEDS = (5, 6)
"""Of every other recipe."""


def lenient(prompts: list[str], completions: list[str], **_: Any) -> list[float]:
    """The reward of the samples, but an answer that is one too large counts as right."""
    import tiny

    rewards = tiny.exact_answer(prompts, completions)
    for at, (prompt, completion) in enumerate(zip(prompts, completions, strict=True)):
        first, second = prompt.rstrip("=").split("+")
        if completion.partition("#")[2] == str(int(first) + int(second) + 1):
            rewards[at] = 1.0
    return rewards


# The trainer logs the function's name: a reward that was changed without notice keeps it.
lenient.__name__ = "exact_answer"

RECIPES: dict[str, dict[str, Any]] = {
    "base": {},
    "scale": {"scale_rewards": "none"},
    "aggregation": {"loss_type": "dapo"},
    "temperature": {"temperature": 0.6},
    "reward": {"first_reward": lenient},
    "group_size": {"num_generations": 4},
    "truncation": {"max_completion_length": 14},
    "kl": {"beta": 0.0},
    "clip": {"epsilon": 0.02},
    "optimiser": {"learning_rate": 1e-3},
    "prompts": {"prompts": 24},
    "support": {"top_k": 3},
    "init": {"start_seed": 1},
    "shaping": {"reward_weights": [1.0, 0.5]},
    "ratio": {"importance_sampling_level": "sequence"},
    "filter": {"mask_truncated_completions": True},
}
"""Recipe → what it changes in the base."""


def wanted() -> list[tuple[str, int]]:
    """Every recipe and seed, the most useful first: what was made so far is a benchmark of its own."""
    made = [("base", seed) for seed in BASE_SEEDS]
    return made + [(name, seed) for seed in SEEDS for name in RECIPES if name != "base"]


def path_of(name: str, seed: int) -> Path:
    """Where a run is kept."""
    return CACHE / f"{name}-seed{seed}"


def make(name: str, seed: int) -> Path:
    """Train and record one run, unless it is there."""
    target = path_of(name, seed)
    if target.exists():
        return target
    sys.path.insert(0, str(ROOT / "sample_logs"))
    import tiny
    import torch
    from transformers import PrinterCallback

    from audit.recorders.trl import record

    torch.set_num_threads(1)  # the models are too small for more, and one thread adds up in one order
    options = {**COMMON, **RECIPES[name]}
    first: Callable[..., list[float]] = options.pop("first_reward", tiny.exact_answer)
    start_seed = options.pop("start_seed", 0)
    CACHE.mkdir(parents=True, exist_ok=True)
    start = tiny.save_start(CACHE / f"start{start_seed}", seed=start_seed)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / target.name
        trainer = tiny.build_trainer(
            start, Path(scratch) / "output", rewards=(first, tiny.one_mark), seed=seed, **options
        )
        trainer.remove_callback(PrinterCallback)
        with record(trainer, folder, flush_steps=60) as recorder:
            trainer.train()
        if recorder.failure is not None:
            raise recorder.failure
        shutil.move(folder, target)
    return target


def main(names: list[str]) -> None:
    """Make all runs, or those of the recipes named."""
    warnings.filterwarnings("ignore", category=FutureWarning)
    for name, seed in wanted():
        if not names or name in names:
            print(make(name, seed), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])

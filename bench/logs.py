"""Realistic rollout logs of any size, the same for the same seed: ``python -m bench.logs 5000000 10``.

What is made to look like a real run, because decoding and arithmetic depend on it: lengths are log-normal
(median about 700 tokens) and cut at the budget; about 70 % of the tokens lie within 0.01 nats of probability
1, with a tail beyond 5 nats; log-probs are differences of float32 logits between 8 and 16, so they are
multiples of 2^-20; the policies differ where the token was uncertain and hardly elsewhere, which puts the
standard deviation of the ratio at 5 %; token ids follow Zipf's law. Texts are left out: the token pass reads
none.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from audit.logs.writer import RolloutWriter
from bench.sizes import BUDGET, FOLDER, Size

GROUP, PROMPTS, VOCABULARY = 8, 500, 150_000
MICRO_BATCH = 32
MEDIAN, SPREAD = 700.0, 0.75
_GRID = np.float32(2.0**20)
_STREAM = {"prompts": 0, "vocabulary": 1, "lengths": 2}


def make(size: Size, folder: Path = FOLDER, *, first: int = 0) -> Path:
    """Return the run directory of ``size``; it is written unless it is there already.

    Parameters
    ----------
    folder : Path
        Where logs are kept.
    first : int
        First step to write; a run is extended by giving more ``steps`` and the old number here.

    Returns
    -------
    Path
        A directory with run.json and rollouts/, one file a step. It appears whole or not at all.
    """
    run = folder / size.name
    if run.is_dir():
        return run
    unfinished = folder / f".{size.name}.{os.getpid()}"
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    (unfinished / "run.json").write_text(json.dumps(manifest(size), indent=1), encoding="utf-8")
    write_steps(size, unfinished, range(first, size.steps))
    unfinished.rename(run)
    return run


def write_steps(size: Size, run: Path, steps: range) -> None:
    """Write one file for each of ``steps``; two at a time, each bounded by the tokens of a step."""
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda step: _write_step(size, run, step), steps))


def manifest(size: Size) -> dict[str, Any]:
    """Contents of run.json: TRL 1.16.0 with the options of the algorithm."""
    grpo = size.algorithm == "grpo"
    slices = -(-groups_per_step(size) * GROUP // MICRO_BATCH)
    return {
        "schema": "rlaudit.run.v1",
        "run_id": size.name,
        "framework": {"name": "trl", "version": "1.16.0", "trainer": "GRPOTrainer"},
        "model": "synthetic",
        "reference": "synthetic",
        "group_size": GROUP,
        "seed": size.seed,
        "sampling": {"temperature": 1.0, "top_p": 1.0, "max_tokens": BUDGET},
        "config": {
            "num_generations": GROUP,
            "per_device_train_batch_size": MICRO_BATCH,
            "gradient_accumulation_steps": slices,
            "steps_per_generation": slices,
            "num_iterations": 2,
            "max_completion_length": BUDGET,
            "loss_type": size.algorithm,
            "scale_rewards": "group" if grpo else "none",
            "beta": 0.04,
            "epsilon": 0.2,
            "use_bias_correction_kl": False,
            "temperature": 1.0,
        },
    }


def groups_per_step(size: Size) -> int:
    """Groups whose responses have about ``tokens / steps`` tokens together."""
    typical = _outcomes(np.random.default_rng(_STREAM["lengths"]), 10_000, 0)[2].mean()
    return max(1, round(size.tokens / size.steps / typical / GROUP))


def step_rows(size: Size, step: int) -> pa.RecordBatch:
    """Rows of one step, in the schema's canonical types."""
    rng = np.random.default_rng([size.seed, step])
    groups = groups_per_step(size)
    rows = groups * GROUP
    prompt, reward, length = _outcomes(rng, groups, step)
    group = np.arange(rows) // GROUP
    scalars = {
        "step": pa.array(np.full(rows, step)),
        "epoch": pa.array(np.zeros(rows, dtype=np.int32)),
        "update": pa.array(np.full(rows, step)),
        "micro_batch": pa.array((np.arange(rows) // MICRO_BATCH).astype(np.int32)),
        "prompt_id": pa.array([f"prompt-{number:04d}" for number in prompt]),
        "group_id": pa.array([f"{step}-{number}" for number in group]),
        "sample_index": pa.array((np.arange(rows) % GROUP).astype(np.int32)),
        "length": pa.array(length.astype(np.int32)),
        "reward": pa.array(reward),
        "correct": pa.array(reward == 1),
        "advantage": pa.array(_advantage(reward, size.algorithm)),
        "finish_reason": pa.array(np.where(length >= BUDGET, "length", "stop").tolist()),
    }
    offsets = pa.array(np.concatenate([[0], np.cumsum(length)]).astype(np.int32))
    tokens = {
        name: pa.ListArray.from_arrays(offsets, pa.array(values))
        for name, values in _tokens(rng, int(length.sum()), step).items()
    }
    return pa.RecordBatch.from_pydict({**scalars, **tokens})


def _outcomes(rng: np.random.Generator, groups: int, step: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Prompt, reward and length of every response; prompts become easier, wrong answers are longer."""
    prompt = np.repeat(rng.choice(PROMPTS, groups, replace=groups > PROMPTS), GROUP)
    rate = np.random.default_rng(_STREAM["prompts"]).beta(0.7, 0.7, PROMPTS)[prompt]
    rate = rate + (1.0 - rate) * 0.3 * min(1.0, step / 200)
    reward = (rng.random(len(prompt)) < rate).astype(np.float64)
    shift = 0.25 * (reward == 0) + 0.3 * (0.5 - rate)
    drawn = MEDIAN * np.exp(shift + SPREAD * rng.standard_normal(len(prompt)))
    return prompt, reward, np.clip(np.rint(drawn), 1, BUDGET).astype(np.int64)


def _advantage(reward: np.ndarray, algorithm: str) -> np.ndarray:
    """TRL's: centred in the group; GRPO divides by the standard deviation (ddof 1) plus 1e-4."""
    table = reward.reshape(-1, GROUP)
    centred = table - table.mean(1, keepdims=True)
    if algorithm == "grpo":
        centred = centred / (table.std(1, ddof=1, keepdims=True) + 1e-4)
    return np.asarray(centred.reshape(-1))


def _tokens(rng: np.random.Generator, count: int, step: int) -> dict[str, np.ndarray]:
    """Ids and the four log-probs of ``count`` tokens.

    A token's probability is the logistic function of a normal margin; a change d of the margin moves its
    log-prob by (1 - p) d, so that sure tokens hardly move.
    """
    rank = np.exp(np.log(VOCABULARY) * rng.random(count, dtype=np.float32)).astype(np.int32)
    shuffled = np.random.default_rng(_STREAM["vocabulary"]).permutation(VOCABULARY).astype(np.int32)

    def normal(spread: float) -> np.ndarray:
        drawn = rng.standard_normal(count, dtype=np.float32)
        drawn *= np.float32(spread)
        return drawn

    margin = normal(5.5)
    margin += np.float32(7.5)
    return {
        "token_ids": shuffled[np.minimum(rank, VOCABULARY) - 1],
        "logp_theta": _log_prob(margin + normal(0.2)),
        "logp_old": _log_prob(margin.copy()),
        "logp_ref": _log_prob(margin + normal(0.2 + 0.4 * min(1.0, step / 200))),
        "logp_sampler": _log_prob(margin + normal(0.02)),
    }


def _log_prob(margin: np.ndarray) -> np.ndarray:
    """-log(1 + exp(-margin)), float32, in place, rounded as a difference of float32 logits is."""
    np.negative(margin, out=margin)
    np.clip(margin, None, 60, out=margin)
    np.exp(margin, out=margin)
    np.log1p(margin, out=margin)
    margin *= _GRID
    np.rint(margin, out=margin)
    margin /= -_GRID
    return margin


def _write_step(size: Size, run: Path, step: int) -> None:
    with RolloutWriter(run, prefix=f"step{step:05d}") as writer:
        writer.write(step_rows(size, step))


def main() -> None:
    """Make one log and print its folder."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tokens", type=int)
    parser.add_argument("steps", type=int)
    parser.add_argument("--algorithm", choices=["grpo", "dr_grpo"], default="grpo")
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    print(make(Size(asked.tokens, asked.steps, asked.algorithm, asked.seed)))


if __name__ == "__main__":
    main()

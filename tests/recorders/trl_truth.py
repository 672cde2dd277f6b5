"""TRL's own gradient per token, and the same weights by formulas written out in plain Python.

The formulas read nothing but recorded rows and the options of the case; they share no code with ``audit``.
"""

from __future__ import annotations

import math
from collections import defaultdict
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import tiny
import torch

import audit
from audit.logs import open_run
from audit.objectives.batch import Responses, Tokens
from audit.objectives.dialects import from_framework
from audit.objectives.weights import effective_weights
from audit.ragged import Layout
from audit.recorders.trl import record
from audit.schema import COLUMNS

Row = dict[str, Any]


class GradientTap:
    """Keeps -dL/dlogp of every backward pass of a trainer, one (B, T) tensor per micro-batch, in order.

    The hook sits on the log-probs that enter the loss, so it sees every factor that the trainer, transformers
    and accelerate put on it. With ``double`` the loss is computed in float64 from TRL's float32 log-probs:
    then the gradient is exact for the recorded numbers, and what is compared is the formula.
    """

    def __init__(self, trainer: Any, *, double: bool) -> None:
        self.weights: list[torch.Tensor] = []
        original = trainer._get_per_token_logps_and_entropies

        def tapped(*args: Any, **kwargs: Any) -> Any:
            logps, *rest = original(*args, **kwargs)
            if double:
                logps = logps.double()
            if logps.requires_grad:
                logps.register_hook(lambda gradient: self.weights.append(-gradient.detach().double().cpu()))
            return (logps, *rest)

        trainer._get_per_token_logps_and_entropies = tapped


def run_case(start: Path, directory: Path, *, double: bool, rewards: Any = None, **options: Any) -> list[Row]:
    """Train a few steps with TRL; return the recorded rows, each with ``truth``: TRL's own weights."""
    options = {"learning_rate": 1e-3, "max_steps": 6, "prompts": 24, **options}
    trainer = tiny.build_trainer(
        start, directory / "output", rewards=rewards or (tiny.exact_answer,), **options
    )
    tap = GradientTap(trainer, double=double)
    with record(trainer, directory / "run") as recorder:
        trainer.train()
    assert recorder.failure is None
    rows = read_rows(directory / "run")
    blocks: dict[tuple[int, int], list[Row]] = defaultdict(list)
    for row in rows:
        blocks[row["update"], row["micro_batch"]].append(row)
    assert len(blocks) == len(tap.weights)
    for block, weights in zip(blocks.values(), tap.weights, strict=True):
        for row, weight in zip(block, weights, strict=True):
            assert not weight[row["length"] :].any()
            row["truth"] = weight[: row["length"]].tolist()
    return rows


def read_rows(run_dir: Path) -> list[Row]:
    """Return every row of a run with every column, in the order of recording."""
    batches = open_run(run_dir).batches([column.name for column in COLUMNS])
    return [row for batch in batches for row in batch.to_pylist()]


def errors(rows: list[Row], weights: list[list[float]]) -> dict[str, float]:
    """Compare ``weights`` with TRL's.

    ``scaled``: largest |w - truth| of a token over the largest |truth| of its response. ``token``: largest
    |w - truth| / |truth| of a single token. ``zeros``: largest |w| where the truth is 0.
    """
    found = {"scaled": 0.0, "token": 0.0, "zeros": 0.0, "tokens": 0.0, "moved": 0.0}
    for row, given in zip(rows, weights, strict=True):
        truth = row["truth"]
        assert len(truth) == len(given)
        scale = max((abs(w) for w in truth), default=0.0)
        found["tokens"] += len(truth)
        for w, exact in zip(given, truth, strict=True):
            if exact == 0.0:
                found["zeros"] = max(found["zeros"], abs(w))
                continue
            found["moved"] += 1
            found["scaled"] = max(found["scaled"], abs(w - exact) / scale)
            found["token"] = max(found["token"], abs(w - exact) / abs(exact))
    return found


def oracle(rows: list[Row], options: dict[str, Any]) -> list[list[float]]:
    """Return the weights of every row by TRL 1.16's formulas, written out."""
    given = {
        "algorithm": "grpo",
        "epsilon": 0.2,
        "epsilon_high": None,
        "delta": None,
        "beta": 0.05 if options.get("algorithm") == "rloo" else 0.0,
        "loss_type": "dapo",
        "scale_rewards": "group",
        "importance_sampling_level": "token",
        "use_bias_correction_kl": True,
        "gradient_accumulation_steps": 2,
        "max_completion_length": tiny.MAX_COMPLETION,
        "reward_clip_range": None,
        **options,
    }
    given.setdefault("steps_per_generation", given["gradient_accumulation_steps"])
    by_group, by_generation, by_micro = defaultdict(list), defaultdict(list), defaultdict(list)
    for row in rows:
        by_group[row["group_id"], row["epoch"]].append(row)
        by_generation[row["generation_batch"], row["epoch"]].append(row)
        by_micro[row["update"], row["micro_batch"]].append(row)

    def weights(row: Row) -> list[float]:
        group = by_group[row["group_id"], row["epoch"]]
        batch = by_generation[row["generation_batch"], row["epoch"]]
        micro = by_micro[row["update"], row["micro_batch"]]
        if not any(row["loss_mask"]):
            return [0.0] * row["length"]
        if given["algorithm"] == "rloo":
            return _rloo(row, group, micro, given)
        return _grpo(row, _advantage(row, group, batch, given), micro, batch, given)

    return [weights(row) for row in rows]


def _advantage(row: Row, group: list[Row], batch: list[Row], given: dict[str, Any]) -> float:
    if row["reward"] is None:
        return 0.0
    rewards = [r["reward"] for r in group if r["reward"] is not None]
    centred = row["reward"] - sum(rewards) / len(rewards)
    if given["scale_rewards"] == "none":
        return centred
    pool = (
        rewards
        if given["scale_rewards"] == "group"
        else [r["reward"] for r in batch if r["reward"] is not None]
    )
    mean = sum(pool) / len(pool)
    std = math.sqrt(sum((r - mean) ** 2 for r in pool) / (len(pool) - 1))
    return centred / (std + 1e-4)


def _grpo(
    row: Row, advantage: float, micro: list[Row], batch: list[Row], given: dict[str, Any]
) -> list[float]:
    mask = [float(m) for m in row["loss_mask"]]
    length = sum(mask)
    accumulation = given["gradient_accumulation_steps"]
    size = len(micro)
    nu = {
        "grpo": 1 / (size * length * accumulation),
        "bnpo": 1 / (sum(sum(r["loss_mask"]) for r in micro) * accumulation),
        "dr_grpo": 1 / (size * given["max_completion_length"] * accumulation),
        "luspo": 1 / (size * accumulation),
    }.get(given["loss_type"])
    if nu is None:  # dapo, cispo
        nu = 1 / (sum(sum(r["loss_mask"]) for r in batch) * accumulation / given["steps_per_generation"])

    low = 1 - given["epsilon"]
    high = 1 + (given["epsilon"] if given["epsilon_high"] is None else given["epsilon_high"])
    cap = given["epsilon"] if given["epsilon_high"] is None else given["epsilon_high"]
    delta = math.inf if given["delta"] is None else given["delta"]
    log_ratio = [(t - o) * m for t, o, m in zip(row["logp_theta"], row["logp_old"], mask, strict=True)]
    sequence = given["importance_sampling_level"] == "sequence"
    if sequence:
        log_ratio = [sum(log_ratio) / length] * row["length"]

    policy, kl = [], []
    for t, m in enumerate(mask):
        rho = math.exp(log_ratio[t])
        if given["loss_type"] == "cispo":
            factor = min(rho, cap)
        elif advantage > 0:
            factor = rho if rho <= min(high, delta) else 0.0
        else:
            factor = rho if low <= rho <= max(delta, high) else 0.0
        policy.append(m * nu * advantage * factor)
        if given["beta"]:
            # k3 without cancellation for small d: exp(-d) + d - 1.
            d = row["logp_theta"][t] - row["logp_ref"][t]
            slope = -math.expm1(-d)
            if not given["use_bias_correction_kl"]:
                kl.append(m * nu * slope)
            elif not sequence:
                kl.append(m * nu * rho * d)
            else:
                values = [
                    m2 * (math.expm1(r - p) - (r - p))
                    for p, r, m2 in zip(row["logp_theta"], row["logp_ref"], mask, strict=True)
                ]
                kl.append(m * nu * rho * (slope + sum(values) / length))
        else:
            kl.append(0.0)
    if sequence and given["loss_type"] != "cispo":
        policy = [m * sum(policy) / length for m in mask]
    return [p - given["beta"] * k for p, k in zip(policy, kl, strict=True)]


def _rloo(row: Row, group: list[Row], micro: list[Row], given: dict[str, Any]) -> list[float]:
    def penalised(other: Row) -> float:
        reward: float = other["reward"]
        if given["reward_clip_range"]:
            reward = min(max(reward, given["reward_clip_range"][0]), given["reward_clip_range"][1])
        if given["beta"]:
            pairs = zip(other["logp_old"] or [], other["logp_ref"] or [], other["loss_mask"], strict=False)
            reward -= given["beta"] * sum(o - r for o, r, m in pairs if m)
        return reward

    others = [penalised(r) for r in group if r is not row]
    advantage = penalised(row) - sum(others) / len(others)
    total = sum(
        t - o for t, o, m in zip(row["logp_theta"], row["logp_old"], row["loss_mask"], strict=True) if m
    )
    ratio = math.exp(total)
    high = 1 + (given["epsilon"] if given["epsilon_high"] is None else given["epsilon_high"])
    zeroed = ratio > high if advantage > 0 else ratio < 1 - given["epsilon"]
    weight = 0.0 if zeroed else advantage * ratio / len(micro) / given["gradient_accumulation_steps"]
    return [weight if m else 0.0 for m in row["loss_mask"]]


def written_weights(rows: list[Row], run_dir: Path) -> list[list[float]]:
    """Return the weights of every row as ``rlaudit weights RUN -o OUT.parquet`` writes them."""
    out = run_dir.with_name("weights.parquet")
    assert audit.weights(run_dir, out) == (len(rows), 0)
    written = pq.read_table(out).to_pylist()
    for row, weight in zip(rows, written, strict=True):
        for key in ("step", "epoch", "update", "micro_batch", "group_id", "sample_index"):
            assert weight[key] == row[key]
    return [weight["weight"] for weight in written]


def declared_weights(rows: list[Row], run_dir: Path) -> list[list[float]]:
    """Return the weights of every row by run.json, the TRL dialect and the objective, from rewards alone.

    :func:`written_weights` takes the advantages that were logged; this recomputes them in float64.
    """
    manifest = open_run(run_dir).manifest
    assert manifest.framework is not None
    assert manifest.config is not None
    objective = from_framework(
        manifest.framework.name,
        str(manifest.framework.version),
        manifest.config,
        trainer=manifest.framework.trainer,
    ).objective

    def codes(*names: str) -> torch.Tensor:
        seen: dict[tuple[Any, ...], int] = {}
        return torch.tensor([seen.setdefault(tuple(row[n] for n in names), len(seen)) for row in rows])

    def flat(name: str) -> torch.Tensor | None:
        if all(row[name] is None for row in rows):
            return None
        values = [row[name] if row[name] is not None else [math.nan] * row["length"] for row in rows]
        return torch.tensor([v for row in values for v in row], dtype=torch.float64)

    mask = [m for row in rows for m in row["loss_mask"]]
    tokens = Tokens(
        Layout.from_lengths(torch.tensor([row["length"] for row in rows])),
        torch.tensor(mask),
        logp_theta=flat("logp_theta"),
        logp_old=flat("logp_old"),
        logp_ref=flat("logp_ref"),
    )
    responses = Responses(
        reward=torch.tensor(
            [math.nan if r["reward"] is None else r["reward"] for r in rows], dtype=torch.float64
        ),
        length=torch.tensor([row["length"] for row in rows]),
        loss_tokens=torch.tensor([sum(row["loss_mask"]) for row in rows]),
        group=codes("group_id", "epoch"),
        update=codes("update"),
        generation_batch=codes("generation_batch", "epoch"),
        micro_batch=codes("update", "micro_batch"),
        truncated=torch.tensor([row["finish_reason"] == "length" for row in rows]),
    )
    weights = effective_weights(tokens, responses, objective).weight
    return [part.tolist() for part in weights.split([row["length"] for row in rows])]

"""Small rollout logs with known answers, made without any code of the package but the writer."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

from audit.logs import RolloutWriter, Run, open_run

Rows = list[dict[str, Any]]


def rollouts(
    *,
    seed: int = 0,
    steps: int = 12,
    prompts: int = 12,
    groups: int = 4,
    size: int = 8,
    longest: int = 20,
    epochs: int = 2,
    reference_shift: float = 0.0,
    reward: Callable[[str, str, random.Random], float] | None = None,
) -> Rows:
    """Rows of a run whose text, reward and reference log-probs depend on the prompt and text alone."""
    rng = random.Random(seed)
    rows: Rows = []
    for step in range(steps):
        drawn = [rng.randrange(prompts) for _ in range(groups)]
        made: Rows = []
        for slot, p in enumerate(drawn):
            for i in range(size):
                length = rng.randint(1, longest)
                ids = [rng.randrange(4) for _ in range(length)]
                ref = [-1.5 + math.sin(p + t + 3 * k) + reference_shift for k, t in enumerate(ids)]
                old = [min(x + rng.gauss(0.0, 0.2), -1e-3) for x in ref]
                text = "".join("abcd"[t] for t in ids)
                chance = (p + 1) / (prompts + 2)
                made.append(
                    {
                        "prompt_id": f"p{p}",
                        "prompt": f"question {p}",
                        "group_id": f"{step}-{slot}",
                        "sample_index": i,
                        "micro_batch": slot % 2,
                        "response": text,
                        "length": length,
                        "token_ids": ids,
                        "loss_mask": [True] * length,
                        "reward": reward(f"p{p}", text, rng) if reward else float(rng.random() < chance),
                        "logp_old": old,
                        "logp_ref": ref,
                        "finish_reason": "length" if length == longest else "stop",
                    }
                )
        for epoch in range(epochs):
            number = step * epochs + epoch + 1
            for row in made:
                theta = [min(o + rng.gauss(0.0, 0.15 * epoch), -1e-4) for o in row["logp_old"]]
                rows.append(row | {"step": number, "update": number, "epoch": epoch, "logp_theta": theta})
    return rows


def with_advantages(rows: Rows, make: Callable[[list[float]], list[float]]) -> Rows:
    """Add the advantage that ``make`` gives to the rewards of each (group, epoch)."""
    groups: dict[tuple[str, int], Rows] = {}
    for row in rows:
        groups.setdefault((row["group_id"], row["epoch"]), []).append(row)
    for group in groups.values():
        for row, advantage in zip(group, make([row["reward"] for row in group]), strict=True):
            row["advantage"] = advantage
    return rows


def standardised(ddof: int, epsilon: float) -> Callable[[list[float]], list[float]]:
    """(r - mean) / (std + epsilon), in plain Python."""

    def make(rewards: list[float]) -> list[float]:
        mean = statistics.fmean(rewards)
        if len(set(rewards)) == 1:
            return [0.0] * len(rewards)
        std = math.sqrt(sum((r - mean) ** 2 for r in rewards) / (len(rewards) - ddof))
        return [(r - mean) / (std + epsilon) for r in rewards]

    return make


def centred(rewards: list[float]) -> list[float]:
    """Reward minus the mean of the group."""
    mean = statistics.fmean(rewards)
    return [r - mean for r in rewards]


def leave_one_out(rewards: list[float]) -> list[float]:
    """Reward minus the mean of the others."""
    total = sum(rewards)
    return [r - (total - r) / (len(rewards) - 1) for r in rewards]


def write(path: Path, rows: Rows, objective: Any = None, **manifest: Any) -> Run:
    """Write a run and open it."""
    declared = {"schema": "rlaudit.run.v1", "run_id": path.name, **manifest}
    if objective is not None:
        declared["objective"] = objective
    with RolloutWriter(path, manifest=declared) as writer:
        writer.write(rows)
    return open_run(path)

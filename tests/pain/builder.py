"""Small sound logs as a trainer writes them, to be spoiled by a test; plain Python throughout."""

from __future__ import annotations

import json
import math
import random
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from audit.analyses.check import Check, check
from audit.logs import RolloutWriter, Run, open_run
from audit.recorders.metrics import SCHEMA
from audit.schema import Problem

Row = dict[str, Any]
Rows = list[Row]
EOS = 32000
GRPO = {"name": "grpo", "scale": {"ddof": 1, "epsilon": 1e-4}}


def healthy(
    *,
    seed: int = 0,
    steps: int = 12,
    groups: int = 4,
    size: int = 8,
    prompts: int = 40,
    shortest: int = 8,
    longest: int = 40,
    updates: int = 2,
    vocabulary: int = 5000,
    rate: float | None = None,
) -> Rows:
    """Rows of a sound GRPO run: ids that end with one end id, five log-probs, versions, components."""
    rng = random.Random(seed)
    rows: Rows = []
    for step in range(1, steps + 1):
        for slot, p in enumerate(rng.sample(range(prompts), groups)):
            made = [_row(rng, step, slot, p, i, shortest, longest, vocabulary, rate) for i in range(size)]
            centre(made)
            for epoch in range(updates):
                for row in made:
                    theta = [min(x + rng.gauss(0, 0.05) * epoch, -1e-4) for x in row["logp_old"]]
                    own = {"epoch": epoch, "update": updates * step + epoch, "logp_theta": theta}
                    rows.append(row | own | {"policy_version": step, "sampler_version": step})
    return rows


def _row(rng, step, slot, p, i, shortest, longest, vocabulary, rate) -> Row:
    n = rng.randint(shortest, longest)
    ids = [rng.randrange(10, vocabulary) for _ in range(n - 1)] + [EOS]
    if n == longest:
        ids[-1] = rng.randrange(10, vocabulary)
    old = [-rng.expovariate(1.2) - 1e-3 for _ in ids]
    chance = (p + 1) / 42 if rate is None else rate
    right = rng.random() < chance
    form = float(rng.random() < 0.9)
    return {
        "step": step,
        "micro_batch": slot % 2,
        "prompt_id": f"p{p}",
        "prompt": f"question {p}",
        "prompt_length": 12,
        "response": " ".join(f"w{t}" for t in ids),
        "group_id": f"{step}-{slot}",
        "sample_index": i,
        "token_ids": ids,
        "loss_mask": [True] * n,
        "length": n,
        "reward": float(right) + 0.2 * form,
        "reward_components": {"accuracy": float(right), "format": 0.2 * form},
        "correct": right,
        "logp_old": old,
        "logp_ref": [min(x + rng.gauss(0, 0.1), -1e-4) for x in old],
        "logp_sampler": [min(x + rng.gauss(0, 0.01), -1e-4) for x in old],
        "entropy": [rng.uniform(0.5, 2.0) for _ in ids],
        "finish_reason": "length" if n == longest else "stop",
    }


def centre(group: Rows, baseline: Callable[[Rows], float] | None = None) -> None:
    """Set the advantages of a group: (r - mean) / (std with ddof 1 + 1e-4)."""
    rewards = [row["reward"] for row in group]
    mean = statistics.fmean(rewards) if baseline is None else baseline(group)
    std = statistics.stdev(rewards) if len(rewards) > 1 else 1.0
    for row in group:
        row["advantage"] = (row["reward"] - mean) / (std + 1e-4)


def by_group(rows: Rows) -> list[Rows]:
    """Rows of each (group, epoch)."""
    found: dict[tuple[str, int], Rows] = {}
    for row in rows:
        found.setdefault((row["group_id"], row.get("epoch", 0)), []).append(row)
    return list(found.values())


def first_pass(rows: Rows) -> Rows:
    return [row for row in rows if row.get("epoch", 0) == 0]


def again(rows: Rows) -> Rows:
    """Advantages formed anew from the rewards."""
    for group in by_group(rows):
        centre(group)
    return rows


def recentred(rows: Rows, change: Callable[[Row], None]) -> Rows:
    """Change every row, then form the advantages again."""
    for row in rows:
        change(row)
    return again(rows)


def write(path: Path, rows: Rows, *, objective: Any = GRPO, **manifest: Any) -> Run:
    """Write a run and open it."""
    declared = {"schema": "rlaudit.run.v1", "run_id": path.name, **manifest}
    if objective is not None:
        declared["objective"] = objective
    with RolloutWriter(path, manifest=declared) as writer:
        writer.write(rows)
    return open_run(path)


def write_metrics(path: Path, values: list[tuple[int, str, float]]) -> None:
    """Write the long table of scalars beside the rollouts."""
    (path / "metrics").mkdir(parents=True, exist_ok=True)
    columns = [
        [s for s, _, _ in values],
        [s for s, _, _ in values],
        [None] * len(values),
        [n for _, n, _ in values],
        [v for _, _, v in values],
    ]
    arrays = [pa.array(c, type=f.type) for c, f in zip(columns, SCHEMA, strict=True)]
    pq.write_table(pa.Table.from_arrays(arrays, schema=SCHEMA), path / "metrics" / "part-00000.parquet")


def checked(path: Path, rows: Rows, **settings: Any) -> Check:
    """Write a run and check it."""
    return check(write(path, rows, **settings))


def named(result: Check, code: str, column: str | None = None) -> Problem:
    """The one problem of an id; its JSON form must hold what the contract says."""
    found = [p for p in result.problems if p.id == code and (column is None or p.column == column)]
    assert len(found) == 1, [(p.id, p.summary) for p in result.problems]
    return found[0]


def ids(result: Check) -> set[str]:
    return {problem.id for problem in result.problems}


def extra(**values: Any) -> str:
    return json.dumps(values)


def finite(values: list[float]) -> list[float]:
    return [v for v in values if math.isfinite(v)]

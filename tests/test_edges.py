"""Every analysis on logs at the edge: no exception but ours, no warning, and JSON that a script can read."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from synthetic import Rows, rollouts, write

import audit
from audit.errors import AuditError


def everywhere(**values) -> Callable[[Rows], Rows]:
    return lambda rows: [row | values for row in rows]


EDGES: dict[str, Callable[[Rows], Rows]] = {
    "no reward is scorable": everywhere(reward=None),
    "every reward is NaN": everywhere(reward=math.nan),
    "every reward is infinite": everywhere(reward=math.inf),
    "rewards near the end of the range": lambda rows: [
        row | {"reward": 1e308 * (1 if i % 2 else -1)} for i, row in enumerate(rows)
    ],
    "all rewards equal": everywhere(reward=0.1),
    "one row": lambda rows: rows[:1],
    "one group": lambda rows: rows[:8],
    "groups of one": lambda rows: [row | {"group_id": str(i)} for i, row in enumerate(rows)],
    "one prompt": everywhere(prompt_id="p"),
    "log-probs of minus infinity": lambda rows: [
        row | {"logp_theta": [-math.inf] * row["length"]} for row in rows
    ],
    "only greedy rows": everywhere(is_greedy=True),
    "no token takes loss": lambda rows: [row | {"loss_mask": [False] * row["length"]} for row in rows],
    "empty responses": lambda rows: [
        row
        | {"length": 0}
        | {name: [] for name in ("token_ids", "loss_mask", "logp_theta", "logp_old", "logp_ref")}
        for row in rows
    ],
    "every response is cut": everywhere(finish_reason="length"),
    "unequal groups": lambda rows: [row for i, row in enumerate(rows) if i % 7],
}


@pytest.mark.parametrize("edge", EDGES)
def test_every_analysis_survives(tmp_path: Path, edge: str) -> None:
    rows = rollouts(steps=2, groups=2)
    run = write(tmp_path / "edge", EDGES[edge](rows), "grpo")
    other = write(tmp_path / "other", rollouts(seed=3, steps=2, groups=2), "dr_grpo")
    results = [audit.summary(run), audit.check(run)]
    for analysis in (lambda: audit.length_bias(run), lambda: audit.explain(run, other)):
        try:
            results.append(analysis())
        except AuditError:
            continue
    audit.weights(run, tmp_path / "w.parquet")
    for result in results:
        json.loads(msgspec.json.encode(result), parse_constant=pytest.fail)

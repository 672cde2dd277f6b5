"""Weights of a whole run: the written table against a loop, batch size, advantages as applied."""

from __future__ import annotations

import math
import statistics

import pyarrow.parquet as pq
import pytest
import torch
from synthetic import rollouts, standardised, with_advantages, write

from audit.facts.chosen import chosen_objective
from audit.facts.rows import RunRows
from audit.facts.weigh import as_applied, weigh, write_weights
from audit.objectives.catalogue import named


def grpo_by_hand(rows: list[dict]) -> list[list[float]]:
    """GRPO as published, on rows of full groups: arXiv:2402.03300, eq. 3."""
    updates: dict[int, list[dict]] = {}
    for row in rows:
        updates.setdefault(row["update"], []).append(row)
    weights = []
    for row in rows:
        batch = updates[row["update"]]
        group = [r["reward"] for r in batch if r["group_id"] == row["group_id"]]
        std = statistics.pstdev(group)
        advantage = (row["reward"] - statistics.fmean(group)) / std if len(set(group)) > 1 else 0.0
        made = []
        for logged in zip(row["logp_theta"], row["logp_old"], row["logp_ref"], strict=True):
            theta, old, ref = (torch.tensor(x, dtype=torch.float32).item() for x in logged)
            rho = math.exp(theta - old)
            clipped = (advantage > 0 and rho > 1.2) or (advantage < 0 and rho < 0.8)
            surrogate = 0.0 if clipped else rho * advantage
            made.append((surrogate - 0.04 * (1.0 - math.exp(ref - theta))) / (len(batch) * row["length"]))
        weights.append(made)
    return weights


def test_the_written_table_is_grpo_by_hand(tmp_path) -> None:
    data = rollouts(steps=3)
    rows = RunRows.read(write(tmp_path / "run", data, "grpo"))
    assert write_weights(rows, named("grpo"), tmp_path / "w.parquet") == (len(data), 0)
    table = pq.read_table(tmp_path / "w.parquet")
    assert table.column_names[:6] == ["step", "epoch", "update", "micro_batch", "group_id", "sample_index"]
    assert [str(t) for t in table.schema.types[6:]] == [
        "double",
        "list<element: double>",
        "list<element: bool>",
    ]
    for i, expected in enumerate(grpo_by_hand(data)):
        assert table["weight"][i].as_py() == pytest.approx(expected, rel=1e-9, abs=1e-15)
    assert any(any(flags) for flags in table["zeroed"].to_pylist())


def test_batch_size_does_not_matter(tmp_path) -> None:
    rows = RunRows.read(write(tmp_path / "run", rollouts(steps=2), "dapo"))
    whole = torch.cat([batch.weights.weight for batch in weigh(rows, named("gspo"))])
    pieces = [batch.weights.weight for batch in weigh(rows, named("gspo"), max_tokens=13)]
    assert len(pieces) > 10
    assert torch.equal(torch.cat(pieces), whole)


def test_the_runs_own_objective_uses_the_advantages_that_were_applied(tmp_path) -> None:
    data = with_advantages(rollouts(steps=2), standardised(1, 1e-4))
    data[0]["advantage"] = 17.0
    rows = RunRows.read(write(tmp_path / "run", data, "grpo"))
    own, _ = chosen_objective(rows, None)
    assert own.baseline.kind == "logged"
    assert next(iter(weigh(rows, own))).coefficients.advantage[0] == 17.0
    asked, _ = chosen_objective(rows, named("grpo"))
    assert asked.baseline.kind == "group_mean"


def test_advantages_that_were_not_logged_for_every_row_are_recomputed(tmp_path) -> None:
    data = with_advantages(rollouts(steps=2), standardised(0, 0.0))
    data[0]["advantage"] = None
    rows = RunRows.read(write(tmp_path / "run", data, "grpo"))
    assert as_applied(rows, named("grpo")) == named("grpo")


def test_a_failed_write_leaves_no_file(tmp_path) -> None:
    from audit.errors import MissingColumn

    data = [{k: v for k, v in row.items() if k != "logp_ref"} for row in rollouts(steps=1)]
    rows = RunRows.read(write(tmp_path / "run", data, "grpo"))
    with pytest.raises(MissingColumn, match="logp_ref"):
        write_weights(rows, named("grpo"), tmp_path / "w.parquet")
    assert [p.name for p in tmp_path.iterdir()] == ["run"]


def test_token_advantages_reach_the_tokens_and_their_mean_the_table(tmp_path) -> None:
    data = rollouts(steps=1, epochs=1)
    for row in data:
        row["token_advantage"] = [0.25 * k - 1.0 for k in range(row["length"])]
    rows = RunRows.read(write(tmp_path / "run", data, "ppo"))
    write_weights(rows, named("ppo"), tmp_path / "w.parquet")
    table = pq.read_table(tmp_path / "w.parquet")
    total = sum(row["length"] for row in data)
    for i, row in enumerate(data):
        assert table["advantage"][i].as_py() == pytest.approx(statistics.fmean(row["token_advantage"]))
        assert table["weight"][i].as_py() == pytest.approx([a / total for a in row["token_advantage"]])

"""Curves of metrics over steps hold means that a plain loop gives, bin by bin."""

from __future__ import annotations

import statistics

import pytest
from synthetic import rollouts, write

from audit.analyses.metric_curves import POINTS, metric_curves
from audit.facts.rows import RunRows


@pytest.fixture(scope="module")
def made() -> list[dict]:
    return rollouts(steps=6)


@pytest.fixture(scope="module")
def curves(made, tmp_path_factory):
    return metric_curves(RunRows.read(write(tmp_path_factory.mktemp("runs") / "run", made, "grpo")))


def first_pass(made, first: int, last: int) -> list[dict]:
    return [row for row in made if row["epoch"] == 0 and first <= row["step"] <= last]


def test_reward_length_and_truncation_are_means(made, curves) -> None:
    values = {
        "reward": lambda row: row["reward"],
        "length": lambda row: row["length"],
        "truncated share": lambda row: float(row["finish_reason"] == "length"),
    }
    by_name = {curve.metric: curve for curve in curves.curves}
    for name, value in values.items():
        for point in by_name[name].points:
            rows = first_pass(made, point.first_step, point.last_step)
            assert point.value.value == pytest.approx(statistics.fmean(map(value, rows)))
            assert point.value.n == len(rows)
            assert point.value.low <= point.value.value <= point.value.high


def test_a_group_counts_once(made, curves) -> None:
    (curve,) = [curve for curve in curves.curves if curve.metric == "zero-signal share"]
    for point in curve.points:
        groups: dict[str, list[float]] = {}
        for row in first_pass(made, point.first_step, point.last_step):
            groups.setdefault(row["group_id"], []).append(row["reward"])
        dead = [float(len(set(rewards)) == 1) for rewards in groups.values()]
        assert point.value.value == pytest.approx(statistics.fmean(dead))
        assert point.value.n == len(groups)


def test_what_a_log_lacks_is_named(tmp_path) -> None:
    kept = ("step", "prompt_id", "group_id", "sample_index", "reward")
    rows = [{key: row[key] for key in kept} for row in rollouts(steps=40, epochs=1, groups=1, size=2)]
    poor = metric_curves(RunRows.read(write(tmp_path / "run", rows)))
    assert {curve.metric for curve in poor.curves} == {"reward", "zero-signal share"}
    assert len(poor.curves[0].points) == POINTS
    needs = {skip.check: skip.needs for skip in poor.unseen}
    assert needs["length"] == "token_ids or length"
    assert needs["truncated share"] == "finish_reason"
    assert needs["KL to the reference (k3)"] == "logp_theta and logp_ref"

"""Summary: counts that reconcile, shares against a loop, skips that name their column."""

from __future__ import annotations

from pathlib import Path

import pytest
from synthetic import rollouts, write

from audit.analyses.directory import summarise_path
from audit.analyses.groups import groups_of, zero_signal_share
from audit.analyses.summary import summarise
from audit.errors import BadLog
from audit.facts.rows import RunRows


def test_counts_are_those_of_the_rows(tmp_path) -> None:
    data = rollouts()
    summary = summarise(write(tmp_path / "run", data, "grpo"))
    assert summary.responses == len(data)
    assert summary.groups == len({row["group_id"] for row in data})
    assert summary.steps == len({row["step"] for row in data})
    assert summary.tokens == sum(row["length"] for row in data)
    first = [row for row in data if row["epoch"] == 0]
    assert summary.reward.value == pytest.approx(sum(row["reward"] for row in first) / len(first))
    assert summary.reward.n == len(first)
    assert summary.length.value == pytest.approx(sum(row["length"] for row in first) / len(first))
    assert (summary.group_size, summary.tier) == (8, 5)
    assert summary.objective is not None
    assert summary.objective["name"] == "grpo"


def test_zero_signal_share_is_a_count_of_groups(tmp_path) -> None:
    data = rollouts()
    for row in data:
        if row["group_id"].endswith("-0"):
            row["reward"] = 0.1
    groups: dict[tuple, set] = {}
    for row in data:
        groups.setdefault(row["group_id"], set()).add(row["reward"])
    dead = sum(len(values) == 1 for values in groups.values())
    share = zero_signal_share(RunRows.read(write(tmp_path / "run", data)))
    assert share.value == pytest.approx(dead / len(groups))
    assert share.n == len(groups)
    assert share.low < share.value < share.high


def test_unscorable_rewards_do_not_revive_a_group(tmp_path) -> None:
    data = rollouts(steps=1, groups=1, epochs=1)
    for row, reward in zip(data, [1.0, 1.0, None, 1.0, 1.0, 1.0, 1.0, 1.0], strict=True):
        row["reward"] = reward
    groups = groups_of(RunRows.read(write(tmp_path / "run", data)))
    assert groups.dead.tolist() == [True]
    assert groups.size.tolist() == [7]


def test_each_skipped_check_names_its_column(tmp_path) -> None:
    keep = ("step", "prompt_id", "group_id", "sample_index", "reward")
    data = [{k: row[k] for k in keep} for row in rollouts(epochs=1)]
    summary = summarise(write(tmp_path / "run", data))
    assert summary.tier == 1
    assert summary.length is None
    assert summary.tokens is None
    assert {skip.needs for skip in summary.skipped} >= {"logp_theta", "logp_ref", "finish_reason"}
    assert any("no objective" in note for note in summary.notes)


def test_a_directory_lists_every_run_and_the_broken_ones_too(tmp_path: Path) -> None:
    write(tmp_path / "a", rollouts(steps=2), "grpo")
    write(tmp_path / "b", rollouts(steps=3), "dapo")
    broken = tmp_path / "c" / "rollouts"
    broken.mkdir(parents=True)
    (broken / "part.parquet").write_text("not Parquet at all")
    found = summarise_path(tmp_path)
    assert found.runs == ["a", "b"]
    assert [Path(entry.path).name for entry in found.broken] == ["c"]
    assert found.responses == sum(one.responses for one in found.per_run) == (2 + 3) * 2 * 32
    assert found.reward.n == sum(one.reward.n for one in found.per_run)


def test_a_directory_with_only_broken_runs_is_one_error(tmp_path: Path) -> None:
    broken = tmp_path / "c" / "rollouts"
    broken.mkdir(parents=True)
    (broken / "part.parquet").write_text("not Parquet at all")
    (tmp_path / "d" / "rollouts").mkdir(parents=True)
    (tmp_path / "d" / "rollouts" / "x.parquet").write_bytes(b"")
    with pytest.raises(BadLog, match="none of its 2 runs"):
        summarise_path(tmp_path)


def test_an_empty_directory_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(BadLog):
        summarise_path(tmp_path)


def test_a_response_without_a_finish_reason_counts_neither_way(tmp_path) -> None:
    data = rollouts(epochs=1)
    for at, row in enumerate(data):
        row["finish_reason"] = ("length", "stop", None, None)[at % 4]
    share = summarise(write(tmp_path / "run", data)).truncated_share
    told = [row for row in data if row["finish_reason"] is not None]
    assert share.value == pytest.approx(sum(row["finish_reason"] == "length" for row in told) / len(told))
    assert share.n == len(told) < len(data)

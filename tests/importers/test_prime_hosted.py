"""Exports of Prime's hosted training, made from description, and each of their traps."""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from audit.analyses.check import check
from audit.analyses.summary import summarise
from audit.importers import open_run
from audit.importers.convert import convert
from audit.importers.interface import Options, Source, Unit
from audit.importers.prime_hosted import IMPORTER, manifest

FIXTURE = Path(__file__).parent / "fixtures" / "prime_hosted"


def held(run, *columns: str) -> list[dict]:
    return [row for batch in run.batches(list(columns)) for row in batch.to_pylist()]


def lines_of(name: str) -> list[dict]:
    return [json.loads(text) for text in (FIXTURE / name / "results.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("inner", ["", "results.jsonl"])
def test_an_export_opens_with_no_flags(inner) -> None:
    run = open_run(FIXTURE / "run" / inner)
    summary = summarise(run)
    assert (summary.source.format, summary.groups, summary.group_size) == ("prime-hosted", 6, 8)
    assert (summary.steps, summary.source.rows_read, summary.source.rows_rejected) == (2, 48, 0)
    assert (run.manifest.group_size, run.manifest.sampling) == (8, {"max_tokens": 64})
    assert not [p for p in check(run).problems if p.severity == "error" or p.id == "objective.unreadable"]


def test_trap_json_in_strings_is_taken_out() -> None:
    made = held(
        open_run(FIXTURE / "run"), "prompt", "response", "reward_components", "length", "extra", "created_at"
    )
    for row, line in zip(made, lines_of("run"), strict=True):
        assert row["prompt"] == f"user: {json.loads(line['prompt'])[0]['content']}"
        assert row["response"] == f"assistant: {json.loads(line['completion'])[0]['content']}"
        assert dict(row["reward_components"]) == json.loads(line["metrics"])
        assert row["length"] == line["num_output_tokens"]
        extra = json.loads(row["extra"])
        assert (extra["problem_id"], extra["timing"]) == (line["problem_id"], {"generation_ms": 1.0})
        assert row["created_at"] == datetime.fromisoformat(line["created_at"]).astimezone(UTC)


def test_trap_a_file_cut_at_25_rows_ends_with_one_stray_row() -> None:
    run = open_run(FIXTURE / "cut")
    sizes = Counter(row["group_id"] for row in held(run, "group_id"))
    assert sorted(sizes.values()) == [1, 8, 8, 8]
    assert any("the log was cut in the last" in note for note in run.notes)


def test_trap_two_groups_of_one_problem_stay_two() -> None:
    made = held(open_run(FIXTURE / "cut"), "group_id", "prompt_id", "advantage", "reward")
    assert made[0]["prompt_id"] == made[16]["prompt_id"]
    assert made[0]["group_id"] != made[16]["group_id"]
    for start in (0, 8, 16):
        group = made[start : start + 8]
        mean = sum(row["reward"] for row in group) / 8
        for row in group:
            assert row["advantage"] == pytest.approx(row["reward"] - mean, abs=1e-6)


def test_a_string_that_is_no_json_stays_text(tmp_path) -> None:
    rows = [
        {**line, "prompt": "[not json", "completion": "plain", "metrics": "{"} for line in lines_of("run")[:8]
    ]
    file = tmp_path / "results.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    made = held(open_run(file), "prompt", "response")
    assert made[0] == {"prompt": "[not json", "response": "plain"}


_VALUE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3) | st.just('{"a": [1]}'),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=25)
@given(st.lists(st.dictionaries(st.sampled_from(sorted(lines_of("cut")[0])), _VALUE), min_size=1, max_size=4))
def test_any_lines_are_rows_or_counted(tmp_path, changes) -> None:
    (line, *_) = lines_of("cut")
    file = tmp_path / "results.jsonl"
    file.write_text("".join(json.dumps({**line, **each}) + "\n" for each in changes))
    source = Source(file, Options(), manifest(file))
    made = convert(IMPORTER, Unit(file.name, (file,)), source, tmp_path / "out.parquet")
    assert made.read == made.rows + sum(made.rejected.values()) == len(changes)

"""Every verb on a good log: text for people, JSON by the contract, files where asked for."""

from __future__ import annotations

import json

import jsonschema
import pyarrow.parquet as pq
import pytest

from audit.report.schemas import schema_of


def test_explain_says_why_and_writes_the_report(rlaudit, runs, tmp_path) -> None:
    done = rlaudit("explain", runs / "grpo-1", runs / "dr-1", "-o", tmp_path / "r.html")
    assert done.code == 0
    assert "objective.aggregation" in done.out
    assert done.out.endswith(f"Report written to {tmp_path / 'r.html'}\n")
    assert (tmp_path / "r.html").read_text().startswith("<!doctype html>")


def test_explain_as_json_is_the_contract_and_the_file_is_the_same(rlaudit, runs, tmp_path) -> None:
    done = rlaudit("explain", runs / "grpo-1", runs / "dr-1", "--json", "-o", tmp_path / "r.json")
    shape = json.loads(done.out)
    jsonschema.validate(shape, schema_of("explain"))
    assert [cause["id"] for cause in shape["verdict"]["causes"]] == [
        "objective.aggregation",
        "objective.scale",
    ]
    assert (tmp_path / "r.json").read_text() == done.out


def test_what_a_run_does_not_declare_is_not_told_as_a_difference(rlaudit, runs) -> None:
    done = rlaudit("explain", runs / "grpo-1", runs / "bare", "--json")
    shape = json.loads(done.out)
    objective = [c["id"] for c in shape["verdict"]["causes"] if c["id"].startswith("objective.")]
    assert objective == ["objective.scale"]
    assert "a declared objective of bare" in [skip["needs"] for skip in shape["skipped"]]


@pytest.mark.parametrize("verb", ["summary", "check", "length"])
def test_a_verb_about_one_run_prints_text_or_the_contract(rlaudit, runs, verb) -> None:
    text = rlaudit(verb, runs / "grpo-1")
    assert text.code == 0
    assert "grpo-1" in text.out
    shape = json.loads(rlaudit(verb, runs / "grpo-1", "--json").out)
    jsonschema.validate(shape, schema_of(verb))


def test_summary_of_a_directory_lists_its_runs(rlaudit, runs) -> None:
    assert all(name in rlaudit("summary", runs).out for name in ("grpo-1", "dr-1", "bare"))
    shape = json.loads(rlaudit("summary", runs, "--json").out)
    jsonschema.validate(shape, schema_of("summary"))
    assert sorted(shape["runs"]) == ["bare", "dr-1", "grpo-1"]


def test_fail_on_gives_exit_code_1_only_at_that_severity(rlaudit, runs) -> None:
    assert rlaudit("check", runs / "bare", "--fail-on", "info").code == 1
    assert rlaudit("check", runs / "bare", "--fail-on", "error").code == 0
    assert rlaudit("check", runs / "grpo-1").code == 0


def test_length_under_another_objective(rlaudit, runs) -> None:
    own = rlaudit("length", runs / "grpo-1", "--json")
    other = rlaudit("length", runs / "grpo-1", "--objective", "dr_grpo", "--json")
    changed = rlaudit("length", runs / "grpo-1", "--set", "aggregation.kind=token-mean", "--json")
    slopes = [json.loads(done.out)["slope"]["positive"]["value"] for done in (own, other, changed)]
    assert slopes[0] < -0.9
    assert abs(slopes[1]) < 0.1
    assert abs(slopes[2]) < 0.1


def test_an_objective_s_json_is_a_file_that_weights_takes(rlaudit, runs, tmp_path) -> None:
    done = rlaudit("objectives", "dapo", "--set", "filter.dynamic_sampling=false", "--json")
    (tmp_path / "mine.json").write_text(done.out)
    out = tmp_path / "w.parquet"
    assert rlaudit("weights", runs / "grpo-1", "--objective", tmp_path / "mine.json", "-o", out).code == 0
    assert pq.read_table(out).num_rows == 768

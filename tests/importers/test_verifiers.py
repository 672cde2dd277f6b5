"""Evaluations of verifiers: those of its own writers, and each of their traps."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from audit.analyses.check import check
from audit.analyses.summary import summarise
from audit.errors import BadLog
from audit.importers import open_run, verifiers, verifiers_results
from audit.importers.convert import convert
from audit.importers.interface import Options, Source, Unit

FIXTURE = Path(__file__).parent / "fixtures" / "verifiers"
TRACES = FIXTURE / "v0.4"
OUTPUTS = FIXTURE / "v0.1.14" / "add--policy" / "0a1b2c3d"
OLD = FIXTURE / "v0.1.5" / "outputs" / "evals" / "add--tiny--policy" / "0a1b2c3d"


def held(run, *columns: str) -> list[dict]:
    return [row for batch in run.batches(list(columns)) for row in batch.to_pylist()]


def lines_of(file: Path) -> list[dict]:
    return [json.loads(text) for text in file.read_text().splitlines()]


@pytest.mark.parametrize(
    ("path", "name"), [(TRACES, "verifiers"), (OUTPUTS, "verifiers-results"), (OLD, "verifiers-results")]
)
def test_its_own_evaluations_open_with_no_flags(path, name) -> None:
    run = open_run(path)
    summary = summarise(run)
    assert (summary.source.format, summary.groups, summary.group_size) == (name, 3, 2)
    assert (summary.source.rows_read, summary.source.rows_rejected) == (6, 0)
    assert (run.manifest.group_size, run.manifest.model) == (2, "tiny/policy")
    assert run.manifest.sampling == {"temperature": 0.5, "max_tokens": 8}
    assert not [p for p in check(run).problems if p.severity == "error" or p.id == "objective.unreadable"]
    assert any("an evaluation" in note for note in run.notes)


def test_rows_of_one_task_are_a_group_in_whatever_order_they_came() -> None:
    made = held(open_run(TRACES), "group_id", "prompt", "response", "length", "prompt_length", "logp_sampler")
    for row, line in zip(made, lines_of(TRACES / "traces.jsonl"), strict=True):
        (trace,) = line["traces"]
        answer = trace["nodes"][1]
        assert row["group_id"] == line["task"]["key"]
        assert row["prompt"] == f"user: {trace['nodes'][0]['message']['content']}"
        assert row["response"] == f"assistant: hm\n{answer['message']['content']}"
        if answer["logprobs"]:
            assert row["logp_sampler"] == pytest.approx(answer["logprobs"])
            assert row["length"] == len(answer["logprobs"])
        else:
            assert row["logp_sampler"] is None
            assert row["length"] == trace["calls"][0]["usage"]["completion_tokens"]
            assert row["prompt_length"] == 4


def test_trap_rounded_log_probs_are_said() -> None:
    assert any("rounded to 4 decimals" in note for note in open_run(TRACES).notes)


def test_traces_of_0_2_are_a_line_each_and_their_tasks_are_known_by_place(tmp_path) -> None:
    lines = [
        {**line["traces"][0], "task": {"type": "Add", "data": line["task"]["data"]}}
        for line in lines_of(TRACES / "traces.jsonl")
    ]
    (tmp_path / "traces.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    run = open_run(tmp_path)
    assert {row["group_id"] for row in held(run, "group_id")} == {"Add:0", "Add:1", "Add:2"}


def test_a_trainers_traces_are_not_an_evaluations(tmp_path) -> None:
    line = lines_of(TRACES / "traces.jsonl")[0]
    line["run"] = {"type": "train", "id": "r", "work": {"type": "train", "step": 3}}
    file = tmp_path / "traces.jsonl"
    file.write_text(json.dumps(line) + "\n")
    assert verifiers.detect(file) is None
    run = open_run(file)
    assert run.format == "prime-rl"
    assert [row["step"] for row in held(run, "step")] == [3]


def test_outputs_keep_their_metrics_ends_and_lengths() -> None:
    made = held(open_run(OUTPUTS), "reward_components", "finish_reason", "length", "prompt_length", "extra")
    assert dict(made[0]["reward_components"]) == {"correct": 1.0, "words": 2.0}
    assert [row["finish_reason"] for row in made] == ["stop", "stop", "length", "length", "stop", "abort"]
    assert [row["length"] for row in made] == [3, 4] * 3
    assert {row["prompt_length"] for row in made} == {5}
    extra = json.loads(made[5]["extra"])
    assert extra["error"]["error"] == "ValueError"
    assert (extra["answer"], extra["stop_condition"]) == ("7", "max_turns_reached")
    assert not {"reward", "prompt", "correct"} & extra.keys()


def test_trap_id_of_0_1_3_to_0_1_5_contradicts_the_prompt() -> None:
    lines = lines_of(OLD / "results.jsonl")
    assert lines[0]["id"] == lines[1]["id"]
    assert lines[0]["prompt"] != lines[1]["prompt"]
    run = open_run(OLD)
    made = held(run, "group_id", "prompt", "reward", "reward_components", "extra")
    by_group: dict[str, set] = {}
    for row in made:
        by_group.setdefault(row["group_id"], set()).add(row["prompt"])
    assert sorted(map(len, by_group.values())) == [1, 1, 1]
    assert dict(made[1]["reward_components"]) == {"correct": 1.0}
    assert json.loads(made[3]["extra"])["id"] == 1
    assert any("contradicts the prompt" in note for note in run.notes)


def test_answers_of_several_turns_have_no_length_that_a_provider_counted(tmp_path) -> None:
    line = lines_of(OUTPUTS / "results.jsonl")[0]
    line["completion"] = line["completion"] * 2
    (tmp_path / "results.jsonl").write_text((json.dumps(line) + "\n") * 2)
    assert held(open_run(tmp_path), "reward", "length")[0]["length"] is None


def test_results_of_others_are_not_taken(tmp_path) -> None:
    file = tmp_path / "results.jsonl"
    file.write_text('{"prompt": "p", "completion": "c"}\n')
    assert verifiers_results.detect(file) is None
    file.unlink()
    file.mkdir()
    assert verifiers_results.detect(tmp_path) is None


def test_hostile_results_are_one_named_problem(tmp_path) -> None:
    shutil.copy(OUTPUTS / "results.jsonl", tmp_path)
    line = lines_of(OUTPUTS / "results.jsonl")[0] | {"reward": "much", "token_usage": [1], "metrics": 3}
    (tmp_path / "results.jsonl").write_text(json.dumps(line) + "\n")
    with pytest.raises(BadLog, match="no row of this verifiers-results log can be read"):
        open_run(tmp_path)


_VALUE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=25)
@given(
    st.data(),
    st.sampled_from([(TRACES / "traces.jsonl", verifiers), (OUTPUTS / "results.jsonl", verifiers_results)]),
)
def test_any_lines_are_rows_or_counted(tmp_path, data, kind) -> None:
    file, importer = kind
    (line, *_) = lines_of(file)
    changes = data.draw(
        st.lists(st.dictionaries(st.sampled_from(sorted(line)), _VALUE), min_size=1, max_size=4)
    )
    made_of = tmp_path / file.name
    made_of.write_text("".join(json.dumps({**line, **each}) + "\n" for each in changes))
    source = Source(made_of, Options(), importer.manifest(made_of))
    made = convert(importer.IMPORTER, Unit(file.name, (made_of,)), source, tmp_path / "out.parquet")
    assert made.read == made.rows + sum(made.rejected.values()) >= len(changes)

"""Trajectories of OpenPipe ART: those of its own writers, and each of their traps."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from audit.analyses.check import check
from audit.analyses.summary import summarise
from audit.errors import BadLog
from audit.importers import open_run
from audit.importers.art import IMPORTER, detect, manifest, units
from audit.importers.convert import convert
from audit.importers.interface import Options, Source, Unit
from audit.logs.metrics import read_metrics

FIXTURE = Path(__file__).parent / "fixtures" / "art"
MODEL = FIXTURE / ".art" / "sums" / "models" / "policy-001"
OLD = FIXTURE / "old"
TEXTS = {
    0: ("system: be brief\nuser: question 0 of {step}", "assistant: answer {at}"),
    1: (
        "system: be brief\nuser: question 1 of {step}",
        'assistant: \n[{{"id": "c0", "function": {{"arguments": "{{}}", "name": "add"}}, '
        '"type": "function"}}]\n'
        "tool: 7\nassistant: answer {at}",
    ),
}


def held(run, *columns: str) -> list[dict]:
    return [row for batch in run.batches(list(columns)) for row in batch.to_pylist()]


@pytest.mark.parametrize(("path", "steps"), [(MODEL, [0, 1, 10]), (OLD, [0, 1])])
def test_its_own_trajectories_open_with_no_flags(path, steps) -> None:
    run = open_run(path)
    summary = summarise(run)
    assert (summary.source.format, summary.groups, summary.group_size) == ("art", 2 * len(steps), 2)
    assert (summary.source.rows_read, summary.source.rows_rejected) == (4 * len(steps), 0)
    assert not [p for p in check(run).problems if p.severity == "error"]
    made = held(run, "step", "group_id", "prompt", "response", "reward", "reward_components", "extra")
    assert [row["step"] for row in made] == [step for step in steps for _ in range(4)]
    for i, row in enumerate(made):
        prompt, at = i % 4 // 2, i % 2
        asked, said = TEXTS[prompt]
        assert row["group_id"] == f"train/{row['step']}:{prompt}"
        assert row["prompt"] == asked.format(step=row["step"])
        assert row["response"] == said.format(at=at)
        assert row["reward"] == (at == 0)
        assert dict(row["reward_components"]) == {"correct": float(at == 0), "words": 2.0}
        assert json.loads(row["extra"])["metadata"] == {"problem": prompt}


def test_finish_reasons_are_those_of_the_last_choice_and_only_in_jsonl() -> None:
    made = held(open_run(OLD), "step", "finish_reason")
    assert [row["finish_reason"] for row in made if row["step"] == 0] == ["stop", "length"] * 2
    assert "finish_reason" not in open_run(MODEL).columns


def test_trap_of_a_step_that_was_migrated_and_kept_only_the_parquet_is_read() -> None:
    assert [unit.files[0].name for unit in units(OLD)] == ["0000.jsonl", "0001.parquet"]


@pytest.mark.parametrize("place", ["trajectories", "trajectories/train", "trajectories/train/0010.parquet"])
def test_every_folder_of_it_opens(place) -> None:
    run = open_run(MODEL / place)
    assert run.format == "art"
    assert len(held(run, "step")) == (4 if place.endswith("parquet") else 12)
    assert any("left out here" in note for note in run.notes) == (place == "trajectories")


def test_validation_opens_by_its_name_and_is_said_to_be_no_training() -> None:
    run = open_run(MODEL / "trajectories" / "val")
    assert any("the split val: no update was made" in note for note in run.notes)


def test_what_the_trainer_logged_stands_in_metrics() -> None:
    found = read_metrics(open_run(MODEL))
    assert (found.name.tolist(), found.step.tolist(), found.value.tolist()) == (
        ["train/reward"],
        [1.0],
        [0.5],
    )


def test_without_a_choice_the_first_answer_begins_the_response(tmp_path) -> None:
    messages = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]
    trajectories = [{"messages_and_choices": messages, "reward": 1.0, "additional_histories": [1]}] * 2
    file = tmp_path / "0003.jsonl"
    file.write_text(json.dumps({"trajectories": trajectories}) + "\n")
    run = open_run(file)
    assert held(run, "step", "prompt", "response")[0] == {
        "step": 3,
        "prompt": "user: q",
        "response": "assistant: a",
    }
    assert any("additional histories" in note for note in run.notes)


def test_other_parquet_of_that_name_is_not_taken(tmp_path) -> None:
    pq.write_table(pa.table({"reward": [1.0], "messages": ["x"]}), tmp_path / "0000.parquet")
    (tmp_path / "0001.parquet").write_text("no parquet")
    assert detect(tmp_path) is None
    assert detect(tmp_path / "0001.parquet") is None


def test_hostile_trajectories_are_one_named_problem(tmp_path) -> None:
    file = tmp_path / "0000.jsonl"
    lines = [
        {"trajectories": [{"messages_and_choices": [3], "reward": 1}]},
        {"trajectories": [7]},
        {"trajectories": {}},
        {"trajectories": [{"messages_and_choices": [{"finish_reason": "stop", "message": 3}]}]},
    ]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    with pytest.raises(BadLog, match="no row of this art log can be read"):
        open_run(file)


_VALUE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)
_LINE = json.loads((OLD / "trajectories/train/0000.jsonl").read_text().splitlines()[0])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=25)
@given(
    st.lists(
        st.dictionaries(st.sampled_from(sorted(_LINE["trajectories"][0])), _VALUE), min_size=1, max_size=3
    )
)
def test_any_lines_are_rows_or_counted(tmp_path, changes) -> None:
    trajectory = _LINE["trajectories"][0]
    file = tmp_path / "0000.jsonl"
    file.write_text(json.dumps({"trajectories": [{**trajectory, **each} for each in changes]}) + "\n")
    source = Source(file, Options(), manifest(file))
    made = convert(IMPORTER, Unit(file.name, (file,)), source, tmp_path / "out.parquet")
    assert made.read == made.rows + sum(made.rejected.values()) == len(changes)

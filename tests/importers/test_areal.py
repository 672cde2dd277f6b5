"""AReaL's rollouts, written by its own dump: a file a task, a folder a version, appended to."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from audit.analyses.summary import summarise
from audit.errors import BadLog
from audit.importers import open_run
from audit.importers.areal import IMPORTER, manifest
from audit.importers.convert import convert
from audit.importers.interface import Options, Source, Unit

FIXTURE = Path(__file__).parent / "fixtures" / "areal"
TRIAL = FIXTURE / "logs" / "user" / "exp" / "trial"


def line(at: int, **more) -> dict:
    own = {
        "task_id": 3,
        "sample_idx": at,
        "seqlen": 6,
        "prompt_len": 2,
        "head_version": 1,
        "tail_version": 1,
        "reward": float(at),
        "prompt": "p",
        "completion": f"a{at}",
    }
    return {**own, **more}


def save(folder: Path, *lines: dict, name: str = "3.jsonl") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / name).open("a") as file:
        file.writelines(json.dumps(each) + "\n" for each in lines)
    return folder


def held(run, *columns: str) -> list[dict]:
    return [row for batch in run.batches(list(columns)) for row in batch.to_pylist()]


def sizes(run) -> list[int]:
    return list(Counter(row["group_id"] for row in held(run, "group_id")).values())


@pytest.mark.parametrize("place", [TRIAL, TRIAL / "rollout"])
def test_its_own_log_opens_with_no_flags_and_the_folder_is_the_step(place) -> None:
    run = open_run(place)
    summary = summarise(run)
    assert (summary.source.format, summary.groups, summary.group_size) == ("areal", 6, 3)
    assert (summary.source.rows_read, summary.source.rows_rejected) == (17, 0)
    assert sorted(Counter(row["step"] for row in held(run, "step")).items()) == [(0, 6), (1, 5), (10, 6)]
    rows = held(run, "step", "prompt", "response", "reward", "prompt_length", "length")
    files = [f for v in (0, 1, 10) for f in sorted((TRIAL / "rollout" / str(v)).iterdir())]
    lines = [json.loads(text) for file in files for text in file.read_text().splitlines()]
    for row, record in zip(rows, lines, strict=True):
        assert (row["prompt"], row["response"]) == (record["prompt"], record["completion"])
        assert (row["step"], row["reward"]) == (record["tail_version"], record["reward"])
        assert (row["prompt_length"], row["prompt_length"] + row["length"]) == (2, record["seqlen"])
        assert row["length"] == len(record["completion"].split())


def test_the_trials_config_is_found() -> None:
    found = manifest(TRIAL / "rollout")
    assert (found.framework.name, found.group_size, found.model) == ("areal", 3, "tiny/policy")


def test_trap_short_groups_are_counted() -> None:
    assert sorted(sizes(open_run(TRIAL))) == [2, 3, 3, 3, 3, 3]
    assert any(note.startswith("1 of 6 tasks hold fewer") for note in open_run(TRIAL).notes)


def test_trap_lines_that_a_restart_appended_once_more_are_rejected(tmp_path) -> None:
    run = open_run(save(tmp_path / "rollout" / "1", *[line(0), line(1)] * 2).parent)
    assert [(reason.split(":")[0], count) for reason, count in run.rejected.items()] == [("repeated", 2)]
    assert sizes(run) == [2]


def test_trap_another_task_under_the_same_number_is_another_group(tmp_path) -> None:
    folder = save(tmp_path / "rollout" / "1", line(0), line(1), line(0, prompt="q"), line(1, prompt="q"))
    run = open_run(folder.parent)
    assert sizes(run) == [2, 2]
    assert any("restarted run" in note for note in run.notes)


def test_one_task_in_two_versions_is_two_groups(tmp_path) -> None:
    for version in ("1", "2"):
        save(tmp_path / "rollout" / version, line(0), line(1))
    assert sizes(open_run(tmp_path / "rollout")) == [2, 2]


def test_evaluations_open_by_their_name() -> None:
    run = open_run(TRIAL / "eval-rollout")
    assert len(held(run, "step")) == 3
    assert any("no update was made" in note for note in run.notes)


def test_turns_make_the_mask_and_the_versions_of_tokens_the_samplers() -> None:
    rows = held(open_run(FIXTURE / "later"), "loss_mask", "sampler_version", "length", "reward", "extra")
    assert rows[0]["loss_mask"] == [True] * 3 + [False] * 2 + [True] * 2
    assert [row["sampler_version"] for row in rows] == [None, 2]
    assert [row["reward"] for row in rows] == [-0.5, 0.5]
    assert [json.loads(row["extra"])["original_reward"] for row in rows] == [0, 1]


@pytest.mark.parametrize(
    "segments", [[], "gen", [3], [{"role": "gen", "len": 10**12}], [{"role": "prompt", "len": 2}]]
)
def test_turns_that_do_not_fit_make_no_mask(tmp_path, segments) -> None:
    run = open_run(save(tmp_path / "1", line(0, segments=segments)))
    assert "loss_mask" not in run.columns
    assert held(run, "length") == [{"length": 4}]


def test_hostile_lines_are_one_named_problem(tmp_path) -> None:
    (tmp_path / "1" / "9.jsonl").mkdir(parents=True)
    save(tmp_path / "1", line(0, seqlen=1), line(1, reward={}), line(2, tail_version="x", head_version=[]))
    with pytest.raises(BadLog, match="no row of this areal log"):
        open_run(tmp_path / "1")


_VALUE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=5,
)
_KEYS = [*line(0), "segments", "version_rle"]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=25)
@given(st.lists(st.dictionaries(st.sampled_from(_KEYS), _VALUE), min_size=1, max_size=4))
def test_any_lines_are_rows_or_counted(tmp_path, changes) -> None:
    file = tmp_path / "3.jsonl"
    file.write_text("".join(json.dumps(line(at, **each)) + "\n" for at, each in enumerate(changes)))
    source = Source(file, Options(), manifest(file))
    made = convert(IMPORTER, Unit(file.name, (file,)), source, tmp_path / "out.parquet")
    assert made.read == made.rows + sum(made.rejected.values()) == len(changes)

"""rLLM's episodes, written by its own logger: a folder a step, a file an episode."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from audit.analyses.check import check
from audit.analyses.summary import summarise
from audit.errors import BadLog
from audit.importers import open_run
from audit.importers.convert import convert
from audit.importers.interface import Options, Source, Unit
from audit.importers.rllm import IMPORTER, manifest

FIXTURE = Path(__file__).parent / "fixtures" / "rllm" / "project" / "exp"
TALK = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]


def episode(**more) -> dict:
    own = {
        "training_step": 3,
        "epoch": 0,
        "episode_id": "t:0",
        "task": "q",
        "task_hash": "abcd1234",
        "is_correct": True,
        "termination_reason": "env_done",
        "metrics": {},
        "trajectories": [{"name": "solver", "reward": 1.0, "steps": [{"chat_completions": TALK}]}],
    }
    return {**own, **more}


def save(folder: Path, content: object, task: str = "t", at: int = 0, hash_: str = "abcd1234") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"episode_hash{hash_}_id{task}_{at}.json").write_text(json.dumps(content))
    return folder


def held(run, *columns: str) -> list[dict]:
    return [row for batch in run.batches(list(columns)) for row in batch.to_pylist()]


def sizes(run) -> list[int]:
    return sorted(Counter(row["group_id"] for row in held(run, "group_id")).values())


@pytest.mark.parametrize("place", [FIXTURE, FIXTURE / "episodes"])
def test_its_own_log_opens_with_no_flags_and_every_trajectory_is_there(place) -> None:
    run = open_run(place)
    summary = summarise(run)
    # A solver and a judge for each of two tasks and three steps.
    assert (summary.source.format, summary.groups) == ("rllm", 12)
    assert (summary.source.rows_read, summary.source.rows_rejected) == (36, 0)
    assert Counter(row["step"] for row in held(run, "step")) == {1: 12, 2: 12, 10: 12}
    assert any("val_step_* beside it" in note for note in run.notes)
    assert not [problem for problem in check(run).problems if problem.id == "group.prompt-mix"]


def test_a_conversation_that_grows_is_one_row_and_another_a_row_a_step() -> None:
    rows = held(open_run(FIXTURE), "step", "prompt", "response", "trajectory_id", "turn", "reward", "correct")
    at = [row["prompt"] for row in rows].index("user: question 0 of 1")
    solver, first, second = rows[at : at + 3]
    assert solver["prompt"] == "user: question 0 of 1"
    assert solver["response"] == "assistant: answer 0\nuser: again\nassistant: better 0"
    assert solver["trajectory_id"] is None
    assert [each["prompt"] for each in (first, second)] == ["user: judge 0", "user: look 0"]
    assert [each["response"] for each in (first, second)] == ["assistant: good", "assistant: fine"]
    assert [each["turn"] for each in (first, second)] == [0, 1]
    assert first["trajectory_id"] == second["trajectory_id"] is not None
    assert (solver["reward"], solver["correct"], first["reward"]) == (0.0, False, 0.5)


def test_trap_a_task_drawn_twice_in_a_step_is_two_groups(tmp_path) -> None:
    folder = tmp_path / "train_step_3_epoch_0"
    for task in ("t", "u"):
        for at in range(2):
            save(folder, episode(), task, at)
    assert sizes(open_run(tmp_path)) == [2, 2]


def test_ids_that_every_episode_has_for_itself_leave_the_hash_of_the_task(tmp_path) -> None:
    for task in ("t", "u", "v"):
        save(tmp_path / "train_step_3_epoch_0", episode(), task)
    assert sizes(open_run(tmp_path)) == [3]


def test_why_an_episode_ended_is_in_the_words_of_the_schema(tmp_path) -> None:
    ends = {
        "env_done": "stop",
        "max_turns_exceeded": "length",
        "timeout": "abort",
        "unknown": None,
        "odd": "odd",
    }
    for at, end in enumerate(ends):
        save(tmp_path / "train_step_3_epoch_0", episode(termination_reason=end), at=at)
    rows = held(open_run(tmp_path), "finish_reason")
    assert [row["finish_reason"] for row in rows] == list(ends.values())


def test_without_messages_the_observation_and_the_answer_are_taken(tmp_path) -> None:
    step = {"observation": "seen", "model_response": "said", "chat_completions": []}
    trajectories = [{"name": "a", "reward": 1.0, "steps": [step]}]
    rows = held(
        open_run(save(tmp_path / "train_step_3_epoch_0", episode(trajectories=trajectories))),
        "prompt",
        "response",
    )
    assert rows == [{"prompt": "seen", "response": "said"}]


@pytest.mark.parametrize("name", ["episodes/val_step_0_epoch_0", "episodes/train_step_2_epoch_0"])
def test_a_step_opens_by_its_name(name) -> None:
    run = open_run(FIXTURE / name)
    assert {row["step"] for row in held(run, "step")} == {int(name.split("_")[2])}
    assert any("no update was made" in note for note in run.notes) == ("val" in name)


def test_hostile_files_are_one_named_problem(tmp_path) -> None:
    folder = tmp_path / "train_step_3_epoch_0"
    deep: list = []
    for _ in range(500):
        deep = [deep]
    for at, content in enumerate(
        [3, [], episode(trajectories={}), episode(trajectories=[3]), episode(metrics=deep)]
    ):
        save(folder, content, at=at)
    (folder / "episode_hashab_idt_7.json").write_bytes(b"\xff{")
    (folder / "episode_hashab_idt_8.json").mkdir()
    with pytest.raises(BadLog, match="no row of this rllm log"):
        open_run(tmp_path)


_VALUE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=5,
)
_STEP = st.dictionaries(
    st.sampled_from(("chat_completions", "observation", "model_response", "action")), _VALUE
)
_TRAJECTORY = st.fixed_dictionaries(
    {"steps": st.lists(_STEP, max_size=3)}, optional={"name": _VALUE, "reward": _VALUE}
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=25)
@given(
    st.dictionaries(st.sampled_from(sorted(episode())), _VALUE),
    st.none() | st.lists(_TRAJECTORY, max_size=3),
)
def test_any_episode_is_rows_or_counted(tmp_path, changes, trajectories) -> None:
    more = changes if trajectories is None else {**changes, "trajectories": trajectories}
    folder = save(tmp_path / "train_step_3_epoch_0", episode(**more))
    files = tuple(folder.iterdir())
    source = Source(tmp_path, Options(), manifest(tmp_path))
    made = convert(IMPORTER, Unit(folder.name, files), source, tmp_path / "out.parquet")
    assert made.read == made.rows + sum(made.rejected.values()) >= 1

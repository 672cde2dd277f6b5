"""ROLL's dump, one line a step, and its logging board, both written by its own code."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from audit.analyses.summary import summarise
from audit.errors import BadLog
from audit.importers import open_run, roll, roll_board
from audit.importers.convert import convert
from audit.importers.interface import Options, Source, Unit

FIXTURE = Path(__file__).parent / "fixtures" / "roll"
NAME = "rollout_dump_data.step_2.jsonl"
BOARD = "boarddata_20260819_100000_007.jsonl"


def step(**more) -> dict:
    own = {
        "global_step": [2] * 4,
        "id": ["a", "a", "b", "b"],
        "prompt": ["p", "p", "q", "q"],
        "responses": ["a0", "a1", "a2", "a3"],
        "scores": [1.0, 0.0, 1.0, 1.0],
    }
    return {name: value for name, value in {**own, **more}.items() if value is not ...}


def sample(**more) -> dict:
    own = {
        "step": 2,
        "prompt": "<pad><pad>p",
        "response": "ab<pad>",
        "response_tokens": ["a", "b", "<pad>"],
        "new_response_mask": [1, 1, 0, 0],
        "logprobs": [-0.5, -0.25, -9.0, -9.0],
        "ref_logprobs": [-0.75, -0.5, -9.0, -9.0],
        "reward": 1.0,
    }
    return {**own, **more}


def save(folder: Path, *lines: dict, name: str = NAME) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text("".join(json.dumps(each) + "\n" for each in lines))
    return folder


def held(run, *columns: str) -> list[dict]:
    return [row for batch in run.batches(list(columns)) for row in batch.to_pylist()]


def sizes(run) -> list[int]:
    return list(Counter(row["group_id"] for row in held(run, "group_id")).values())


def test_trap_one_line_a_step_is_as_many_rows_as_it_has_responses() -> None:
    run = open_run(FIXTURE / "dump")
    summary = summarise(run)
    assert (summary.source.format, summary.groups, summary.group_size) == ("roll", 6, 2)
    assert (summary.source.rows_read, summary.source.rows_rejected) == (12, 0)
    rows = iter(held(run, "step", "prompt", "response", "reward", "extra"))
    for at in (0, 1, 10):
        record = json.loads((FIXTURE / "dump" / f"rollout_dump_data.step_{at}.jsonl").read_text())
        for i in range(4):
            row = next(rows)
            assert json.loads(row.pop("extra")) == {
                "ground_truth": record["ground_truth"][i],
                "domain": "math",
            }
            assert row == {
                "step": at,
                "prompt": record["prompt"][i],
                "response": record["responses"][i],
                "reward": record["scores"][i],
            }


def test_ids_come_back_at_other_steps_and_name_other_groups() -> None:
    assert sizes(open_run(FIXTURE / "dump")) == [2] * 6


@pytest.mark.parametrize("ids", [..., [None] * 4, ["1", "2", "3", "4"]])
def test_without_ids_of_groups_they_are_blocks_of_a_prompt(tmp_path, ids) -> None:
    run = open_run(save(tmp_path, step(id=ids)))
    assert sizes(run) == [2, 2]
    assert any("contiguous blocks of 2" in note for note in run.notes)


def test_a_conversation_in_text_is_the_prompt(tmp_path) -> None:
    asked = json.dumps([{"role": "user", "content": "p"}])
    rows = held(open_run(save(tmp_path, step(prompt=..., messages=[asked] * 4))), "prompt")
    assert rows == [{"prompt": "user: p"}] * 4


def test_trajectories_of_agents_are_rows_and_their_other_steps_are_counted() -> None:
    run = open_run(FIXTURE / "agentic")
    rows = held(run, "step", "prompt", "response", "reward", "finish_reason")
    assert rows[1] == {
        "step": 3,
        "prompt": "system: system 0\nuser: user 0",
        "response": "assistant: assistant 1\ntool: tool 1\nassistant: assistant 1",
        "reward": 1.0,
        "finish_reason": "length",
    }
    assert sizes(run) == [2, 2]
    assert list(run.rejected.values()) == [4]


def test_the_board_is_cut_to_the_response_token_by_token() -> None:
    run = open_run(FIXTURE / "board")
    summary = summarise(run)
    assert (summary.source.format, summary.groups, summary.group_size) == ("roll-board", 4, 2)
    columns = [
        "step",
        "prompt",
        "response",
        "length",
        "loss_mask",
        "logp_old",
        "logp_ref",
        "entropy",
        "reward",
    ]
    files = sorted((FIXTURE / "board").iterdir())
    lines = [json.loads(text) for file in files for text in file.read_text().splitlines()]
    for row, record in zip(held(run, *columns), lines, strict=True):
        tokens = [each for each in record["response_tokens"] if each != "<pad>"]
        length = len(tokens)
        assert (row["step"], row["length"], row["reward"]) == (record["step"], length, record["reward"])
        assert row["response"] == "".join(tokens)
        assert row["prompt"] == record["prompt"].replace("<pad>", "")
        assert row["loss_mask"] == [True] * length
        assert row["logp_old"] == pytest.approx(record["logprobs"][:length])
        assert row["logp_ref"] == pytest.approx(record["ref_logprobs"][:length])
        assert row["entropy"] == pytest.approx(record["old_log_probs2_entropy"][:length])


def test_trap_normalised_rewards_are_no_rewards() -> None:
    run = open_run(FIXTURE / "normalised")
    assert [row["reward"] for row in held(run, "reward")] == [None] * 8
    extra = [json.loads(row["extra"])["normalized_reward"] for row in held(run, "extra")]
    assert extra[:2] == pytest.approx([0.7071, -0.7071], abs=1e-3)
    assert any("normalised by the trainer" in note for note in run.notes)


@pytest.mark.parametrize(
    ("config", "taken"),
    [({}, True), ({"adv_estimator": "grpo"}, False), ({"norm_mean_type": "batch"}, False)],
)
def test_the_config_says_whether_rewards_are_normalised(tmp_path, config, taken) -> None:
    save(tmp_path, sample(), sample(reward=-1.0), name=BOARD)
    (tmp_path / "config.json").write_text(json.dumps({"num_return_sequences_in_group": 2, **config}))
    run = open_run(tmp_path)
    assert run.manifest.group_size == 2
    assert [row["reward"] for row in held(run, "reward")] == ([1.0, -1.0] if taken else [None, None])


def test_trap_values_hold_token_rewards_and_tool_tokens_take_no_loss(tmp_path) -> None:
    run = open_run(save(tmp_path, sample(values=[0.0] * 4, new_response_mask=[1, 0, 1, 0]), name=BOARD))
    assert "value" not in run.columns
    assert held(run, "loss_mask", "length") == [{"loss_mask": [True, False, True], "length": 3}]


def test_log_probs_of_zeros_are_a_placeholder(tmp_path) -> None:
    run = open_run(save(tmp_path, sample(logprobs=[0.0] * 4), name=BOARD))
    assert "logp_old" not in run.columns
    assert any("placeholder" in note for note in run.notes)


def test_hostile_lines_are_one_named_problem(tmp_path) -> None:
    (tmp_path / "rollout_dump_data.step_9.jsonl").mkdir()
    save(tmp_path, step(scores=[1.0]), step(scores=["x"] * 4, responses={}), {"responses": []})
    with pytest.raises(BadLog, match="no row of this roll log"):
        open_run(tmp_path)
    odd = [sample(new_response_mask="x"), sample(logprobs=[-0.5]), sample(reward=[1, 2])]
    with pytest.raises(BadLog, match="no row of this roll-board log"):
        open_run(save(tmp_path / "b", *odd, name=BOARD))


_VALUE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=6,
)


@pytest.mark.parametrize(
    ("importer", "own"),
    [
        (roll, step()),
        (roll, {"trajectory_data": ['{"env_info": {}}'] * 4, "messages": ['[{"role": "user"}]'] * 4}),
        (roll_board, sample()),
    ],
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=20)
@given(data=st.data())
def test_any_lines_are_rows_or_counted(tmp_path, importer, own, data) -> None:
    changes = data.draw(
        st.lists(st.dictionaries(st.sampled_from(sorted(own)), _VALUE), min_size=1, max_size=4)
    )
    file = tmp_path / NAME
    file.write_text("".join(json.dumps({**own, **each}) + "\n" for each in changes))
    source = Source(file, Options(), importer.manifest(file))
    made = convert(importer.IMPORTER, Unit(file.name, (file,)), source, tmp_path / "out.parquet")
    assert made.read == made.rows + sum(made.rejected.values()) >= len(changes)

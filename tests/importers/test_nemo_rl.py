"""NeMo-RL's step files: those of its own logger, and each of their traps."""

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
from audit.importers.convert import convert
from audit.importers.interface import Book, Options, Source, Unit
from audit.importers.nemo_rl import IMPORTER, manifest
from audit.importers.nemo_rl_tokens import messages, tokens
from audit.logs.new_rows import hash_prompt

FIXTURE = Path(__file__).parent / "fixtures" / "nemo_rl"
RUN = FIXTURE / "run" / "logs" / "exp_001"
LISTS = ["token_ids", "loss_mask", "logp_sampler", "logp_old"]


def lines_of(file: Path) -> list[dict]:
    return [json.loads(text) for text in file.read_text().splitlines()]


def line(prompt: str, reward: float, **more) -> dict:
    own = {
        "content": [[prompt, "answer"]],
        "rewards": [reward],
        "input_lengths": [4],
        "token_ids": [[1, 2, 3, 4, 0, 0]],
        "token_loss_mask": [[0, 0, 1, 1, 0, 0]],
        "sample_loss_mask": [1.0],
        "advantages": [[0.5] * 6],
        "generation_logprobs": [[0.0, 0.0, -0.25, -0.5, 0.0, 0.0]],
        "prev_logprobs": [[0.0, -1.0, -0.375, -0.5, -1.0, -1.0]],
        "idx": 0,
    }
    return {key: value for key, value in {**own, **more}.items() if value is not ...}


def save(folder: Path, *lines: dict, name: str = "train_data_step1.jsonl") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text("".join(json.dumps(each) + "\n" for each in lines))
    return folder


def rows_of(folder: Path, *columns: str) -> list[dict]:
    return held(open_run(folder), *columns)


def held(run, *columns: str) -> list[dict]:
    return [row for batch in run.batches(list(columns)) for row in batch.to_pylist()]


def test_its_own_log_opens_with_no_flags_and_every_line_is_a_row() -> None:
    run = open_run(RUN)
    summary = summarise(run)
    assert (summary.source.format, summary.groups, summary.group_size) == ("nemo-rl", 6, 2)
    assert (summary.source.rows_read, summary.source.rows_rejected) == (12, 0)
    assert run.responses(["step"])["step"].to_pylist() == [1] * 4 + [2] * 4 + [10] * 4
    assert run.manifest.group_size == 2
    assert run.manifest.model == "tiny/policy"
    assert run.manifest.sampling == {"temperature": 1.0, "max_tokens": 8}
    assert any("validation samples, left out" in note for note in run.notes)


@pytest.mark.parametrize("step", [1, 2, 10])
def test_lists_of_the_whole_sequence_are_cut_to_the_response_token_by_token(step) -> None:
    made = [row for row in rows_of(RUN, "step", "prompt_length", "advantage", *LISTS) if row["step"] == step]
    for row, record in zip(made, lines_of(RUN / f"train_data_step{step}.jsonl"), strict=True):
        start = record["token_loss_mask"][0].index(1)
        end = record["input_lengths"][0]
        kept = record["sample_loss_mask"][0] == 1
        assert row["prompt_length"] == start
        assert row["token_ids"] == record["token_ids"][0][start:end]
        assert row["loss_mask"] == [kept and told == 1 for told in record["token_loss_mask"][0][start:end]]
        assert row["logp_sampler"] == pytest.approx(record["generation_logprobs"][0][start:end])
        assert row["logp_old"] == pytest.approx(record["prev_logprobs"][0][start:end])
        assert row["advantage"] == record["advantages"][0][start]


def test_tool_messages_belong_to_the_response_and_take_no_loss() -> None:
    row = next(row for row in rows_of(RUN, "step", "prompt", "response", "loss_mask") if row["step"] == 10)
    assert row["prompt"] == "prompt 0 of 10"
    assert row["response"] == "answer [55, 52]\ntool says 1\nanswer [87, 62]"
    assert row["loss_mask"] == [True, True, False, False, True, True]


def test_old_logs_start_at_step_0_and_have_no_ids_and_no_mask() -> None:
    run = open_run(FIXTURE / "v0.4" / "exp_001")
    made = held(run, "step", "length", "logp_sampler", "logp_old")
    assert [row["step"] for row in made] == [0] * 4 + [1] * 4
    for row, record in zip(made, lines_of(FIXTURE / "v0.4/exp_001/train_data_step0.jsonl"), strict=False):
        chances = [each for each in record["generation_logprobs"][0] if each]
        assert row["logp_sampler"] == pytest.approx(chances)
        assert row["length"] == len(chances) == len(row["logp_old"])
    assert "token_ids" not in run.columns
    assert any("no token mask" in note for note in run.notes)


def test_without_a_mask_several_turns_bring_no_token_lists(tmp_path) -> None:
    old = line("p", 1.0, token_ids=..., token_loss_mask=..., advantages=...)
    several = {**old, "content": [["p", "answer", "tool", "answer"]]}
    run = open_run(save(tmp_path, old, several))
    assert [row["logp_old"] is None for row in held(run, "logp_old")] == [False, True]


def test_dynamic_sampling_takes_the_filtered_rewards() -> None:
    made = rows_of(FIXTURE / "dynamic" / "exp_001", "reward", "group_id")
    assert [row["reward"] for row in made] == [1.0, 0.0, 0.5, 0.25]
    assert list(Counter(row["group_id"] for row in made).values()) == [2, 2]


def test_lines_of_dropped_samples_hold_a_reward_and_nothing_else() -> None:
    run = open_run(FIXTURE / "dynamic" / "exp_002")
    made = held(run, "reward", "prompt_id", "prompt")
    assert [row["reward"] for row in made] == [1.0, 0.0, 0.5, 0.25]
    assert list(run.rejected.values()) == [3]
    # No text in this log: prompts are known by their token ids.
    assert made[0]["prompt_id"] == hash_prompt("5 6") == made[1]["prompt_id"]
    assert made[0]["prompt"] is None


def test_a_validation_file_opens_by_its_name_and_is_said_to_be_no_training() -> None:
    run = open_run(RUN / "val_data_step0.jsonl")
    made = held(run, "step", "prompt", "response", "reward")
    assert made[0] == {"step": 0, "prompt": "prompt 0 of 0", "response": "answer [79]", "reward": 1.0}
    assert any("no update was made" in note for note in run.notes)


def test_old_log_probs_of_zeros_are_a_placeholder(tmp_path) -> None:
    run = open_run(
        save(tmp_path, line("p", 1.0, prev_logprobs=[[0.0] * 6]), line("p", 0.0, prev_logprobs=[[0.0] * 6]))
    )
    assert "logp_old" not in run.columns or held(run, "logp_old") == [{"logp_old": None}] * 2
    assert any("placeholder" in note for note in run.notes)


def test_one_line_may_hold_lists_of_several_samples(tmp_path) -> None:
    single = [line(f"p{i // 2}", float(i)) for i in range(4)]
    joined = {key: [each[key][0] for each in single] for key in single[0] if key != "idx"} | {"idx": 0}
    run = open_run(save(tmp_path, joined))
    made = held(run, "reward", "prompt", "logp_old")
    assert [(row["prompt"], row["reward"]) for row in made] == [
        ("p0", 0.0),
        ("p0", 1.0),
        ("p1", 2.0),
        ("p1", 3.0),
    ]
    assert made[0]["logp_old"] == [-0.375, -0.5]


def test_advantages_that_differ_by_token_stay_by_token(tmp_path) -> None:
    advantages = [[0.0, 0.0, 0.5, 0.25, 0.0, 0.0]]
    (row, _) = rows_of(
        save(tmp_path, line("p", 1.0, advantages=advantages), line("p", 0.0)), "token_advantage", "advantage"
    )
    assert row == {"token_advantage": [0.5, 0.25], "advantage": None}


def test_lists_that_are_shorter_than_the_sequence_are_counted(tmp_path) -> None:
    run = open_run(save(tmp_path, line("p", 1.0), line("p", 1.0, token_ids=[[1, 2]])))
    assert dict(run.rejected) == {"token_ids is shorter than input_lengths": 1}


def test_a_response_of_one_token_is_not_unwrapped_twice() -> None:
    found = tokens(
        {"input_lengths": 1, "token_ids": [7], "token_loss_mask": [1], "advantages": [2.0]}, Book()
    )
    assert found.columns["token_ids"] == [7]
    assert (found.columns["advantage"], found.prompt) == (2.0, [])


@pytest.mark.parametrize(
    ("count", "mask", "first"),
    [(2, [0, 1], 1), (3, [0, 0, 1], 2), (3, [0, 1, 0], 1), (5, [0, 1, 0, 1, 0], 1), (6, [0, 0, 1, 0, 1], 3)],
)
def test_the_first_generated_message_is_found_from_the_end(count, mask, first) -> None:
    told = [f"m{i}" for i in range(count)]
    prompt, response = messages(told, [bool(each) for each in mask])
    assert (prompt, response) == ("\n".join(told[:first]), "\n".join(told[first:]))


def test_a_checkpoints_config_that_names_another_folder_is_not_taken(tmp_path) -> None:
    text = (FIXTURE / "run" / "results" / "grpo" / "step_2" / "config.yaml").read_text()
    for exp, size in (("exp_001", 2), ("exp_002", 16)):
        place = tmp_path / "results" / exp / "step_1" / "config.yaml"
        place.parent.mkdir(parents=True)
        place.write_text(
            text.replace("exp_001", exp).replace(
                "num_generations_per_prompt: 2", f"num_generations_per_prompt: {size}"
            )
        )
    logs = tmp_path / "logs"
    found = [
        manifest(save(logs / exp, line("p", 1.0))).group_size for exp in ("exp_001", "exp_002", "exp_003")
    ]
    assert found == [2, 16, None]


def test_hostile_lines_are_one_named_problem(tmp_path) -> None:
    (tmp_path / "train_data_step3.jsonl").mkdir()
    save(tmp_path, line("p", 1.0, input_lengths=[10**30]), line("p", 1.0, token_ids=[[1, 1, 2**40, 1]]))
    with pytest.raises(BadLog, match="no row of this nemo-rl log"):
        open_run(tmp_path)


_VALUE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=5,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=25)
@given(st.lists(st.dictionaries(st.sampled_from(sorted(line("p", 1.0))), _VALUE), min_size=1, max_size=4))
def test_any_lines_are_rows_or_counted(tmp_path, changes) -> None:
    file = tmp_path / "train_data_step1.jsonl"
    file.write_text("".join(json.dumps(line("p", 1.0, **each)) + "\n" for each in changes))
    source = Source(file, Options(), manifest(file))
    made = convert(IMPORTER, Unit(file.name, (file,)), source, tmp_path / "out.parquet")
    assert made.read == made.rows + sum(made.rejected.values()) >= len(changes)

"""open-instruct's rollouts, written by its own code, and its traces of 2025, one line a step."""

from __future__ import annotations

import json
import math
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from audit.analyses.summary import summarise
from audit.errors import BadLog
from audit.importers import open_instruct, open_instruct_traces, open_run
from audit.importers.convert import convert
from audit.importers.interface import Options, Source, Unit
from audit.logs.new_rows import hash_prompt

FIXTURE = Path(__file__).parent / "fixtures" / "open_instruct"
COLUMNS = ["step", "prompt_length", "token_ids", "logp_sampler", "reward", "advantage", "finish_reason"]


def lines_of(*files: Path) -> list[dict]:
    return [json.loads(text) for file in files for text in file.read_text().splitlines()]


def line(step: int, at: int, **more) -> dict:
    own = {
        "step": step,
        "sample_idx": at,
        "prompt_idx": at // 2,
        "prompt_tokens": [5, at // 2],
        "response_tokens": [8, 9],
        "reward": float(at % 2),
        "advantage": at % 2 - 0.5,
        "finish_reason": "stop",
        "dataset": "gsm8k",
        "logprobs": [-0.5, -0.25],
    }
    return {**own, **more}


def trace(step: int, **more) -> dict:
    own = {
        "scores": [1.0, 0.0, 1.0, 1.0],
        "finish_reasons": ["stop"] * 4,
        "responses": [[8], [9, 9], [8], [9]],
        "training_step": step,
        "queries": [[5, 1], [5, 1], [5, 2], [5, 2]],
    }
    return {**own, **more}


def save(folder: Path, *lines: dict, name: str = "run_rollouts_000000.jsonl") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / name).open("a") as file:
        file.writelines(json.dumps(each) + "\n" for each in lines)
    return folder


def held(run, *columns: str) -> list[dict]:
    return [row for batch in run.batches(list(columns)) for row in batch.to_pylist()]


def sizes(run) -> list[int]:
    return list(Counter(row["group_id"] for row in held(run, "group_id")).values())


def test_its_own_log_opens_with_no_flags_and_every_line_is_a_row() -> None:
    run = open_run(FIXTURE / "rollouts")
    summary = summarise(run)
    assert (summary.source.format, summary.groups, summary.group_size) == ("open-instruct", 8, 4)
    assert (summary.source.rows_read, summary.source.rows_rejected, summary.steps) == (32, 0, 4)
    lines = lines_of(*sorted((FIXTURE / "rollouts").glob("*_rollouts_*")))
    for row, record in zip(held(run, "prompt_id", *COLUMNS), lines, strict=True):
        assert row["prompt_id"] == hash_prompt(" ".join(map(str, record["prompt_tokens"])))
        assert row["logp_sampler"] == pytest.approx(record["logprobs"])
        assert [row[name] for name in ("step", "reward", "advantage", "finish_reason")] == [
            record[name] for name in ("step", "reward", "advantage", "finish_reason")
        ]
        assert row["token_ids"] == record["response_tokens"]
    assert "4 of 32 responses called tools, whose tokens the log does not tell from sampled ones" in run.notes


def test_trap_steps_that_interleave_keep_their_groups() -> None:
    lines = lines_of(FIXTURE / "rollouts" / "grpo__1__1700000000_rollouts_000000.jsonl")
    assert [each["step"] for each in lines[8:12]] == [2, 3, 2, 3]
    assert sizes(open_run(FIXTURE / "rollouts")) == [4] * 8


def test_trap_groups_that_mix_prompts_are_the_trainers_and_are_counted(tmp_path) -> None:
    # One of four responses to the first prompt was cut off and dropped, and one to the last.
    lines = [line(1, at, prompt_tokens=[prompt]) for at, prompt in enumerate([1, 1, 1, 2, 2, 2])]
    run = open_run(save(tmp_path, *lines))
    assert sizes(run) == [2, 2, 2]
    assert next(note for note in run.notes if "mix prompts" in note).startswith("1 of 3 groups mix prompts")


def test_trap_lines_that_a_restart_appended_once_more_are_rejected(tmp_path) -> None:
    lines = [line(step, at) for step in (1, 2) for at in range(4)]
    run = open_run(save(tmp_path, *lines, *lines[4:]))
    assert [(reason.split(":")[0], count) for reason, count in run.rejected.items()] == [("repeated", 4)]
    assert sizes(run) == [2] * 4


def test_trap_steps_sampled_anew_after_a_restart_are_groups_of_their_own(tmp_path) -> None:
    again = [line(2, at, response_tokens=[8, 7]) for at in range(4)]
    folder = save(tmp_path, *(line(step, at) for step in (1, 2) for at in range(4)), *again)
    run = open_run(folder)
    assert sizes(run) == [2] * 6
    assert any("came back after a restart" in note for note in run.notes)


def test_trap_a_bare_nan_of_an_empty_response_is_read(tmp_path) -> None:
    rows = held(
        open_run(save(tmp_path, line(1, 0, response_tokens=[2], logprobs=[math.nan]), line(1, 1))),
        "logp_sampler",
    )
    assert math.isnan(rows[0]["logp_sampler"][0])
    assert rows[1]["logp_sampler"] == [-0.5, -0.25]


def test_two_runs_in_a_folder_share_no_group(tmp_path) -> None:
    for name in ("a_rollouts_000000.jsonl", "b_rollouts_000000.jsonl"):
        save(tmp_path, *(line(1, at) for at in range(4)), name=name)
    assert sizes(open_run(tmp_path)) == [2] * 4


def test_arguments_beside_the_log_are_the_runs_config(tmp_path) -> None:
    save(tmp_path, line(1, 0), line(1, 1))
    (tmp_path / "args.json").write_text(json.dumps({"num_samples_per_prompt_rollout": 2, "temperature": 0.7}))
    found = open_instruct.manifest(tmp_path)
    assert (found.framework.name, found.group_size) == ("open-instruct", 2)
    assert found.sampling == {"temperature": 0.7}


def test_trap_one_line_a_step_is_as_many_rows_as_it_has_scores() -> None:
    run = open_run(FIXTURE / "traces")
    summary = summarise(run)
    assert (summary.source.format, summary.groups, summary.group_size) == ("open-instruct-traces", 8, 4)
    assert (summary.source.rows_read, summary.steps) == (32, 4)
    rows = iter(held(run, "step", "prompt", "response", "token_ids", "reward", "finish_reason"))
    for record in lines_of(FIXTURE / "traces" / "traces_grpo__1__1700000000.jsonl"):
        for at, score in enumerate(record["scores"]):
            assert next(rows) == {
                "step": record["training_step"],
                "prompt": record["raw_queries"][at],
                "response": record["decoded_responses"][at],
                "token_ids": record["responses"][at],
                "reward": score,
                "finish_reason": record["finish_reasons"][at],
            }


def test_traces_without_texts_have_groups_and_a_repeated_step_is_rejected(tmp_path) -> None:
    folder = save(tmp_path, trace(1), trace(2), trace(2), name="traces_run.jsonl")
    run = open_run(folder)
    assert sizes(run) == [2] * 4
    assert sum(run.rejected.values()) == 4


def test_hostile_lines_are_one_named_problem(tmp_path) -> None:
    (tmp_path / "b_rollouts_000000.jsonl").mkdir()
    save(tmp_path, line(10**30, 0), line(1, 1, prompt_tokens=[2**80, "x"]), line(1, 2, response_tokens={}))
    with pytest.raises(BadLog, match="no row of this open-instruct log"):
        open_run(tmp_path)


_VALUE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=5,
)


@pytest.mark.parametrize(("importer", "own"), [(open_instruct, line(1, 0)), (open_instruct_traces, trace(1))])
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=20)
@given(data=st.data())
def test_any_lines_are_rows_or_counted(tmp_path, importer, own, data) -> None:
    changes = data.draw(
        st.lists(st.dictionaries(st.sampled_from(sorted(own)), _VALUE), min_size=1, max_size=4)
    )
    file = tmp_path / "any.jsonl"
    file.write_text("".join(json.dumps({**own, **each}) + "\n" for each in changes))
    source = Source(file, Options(), importer.manifest(file))
    made = convert(importer.IMPORTER, Unit(file.name, (file,)), source, tmp_path / "out.parquet")
    assert made.read == made.rows + sum(made.rejected.values()) >= len(changes)

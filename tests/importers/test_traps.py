"""Traps of logs that belong to no one framework, one test each, in files of no known format."""

from __future__ import annotations

import json
import math
import os
import random
from pathlib import Path

import pyarrow as pa
import pytest

from audit.analyses.check import check
from audit.analyses.summary import summarise
from audit.importers import open_run
from audit.logs.run import Run


def lines(path: Path, rows: list[dict]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def rows(steps: int = 2, prompts: int = 4, size: int = 4, **values: object) -> list[dict]:
    return [
        {"step": s, "prompt": f"q{s}-{p}", "response": f"a{s}{p}{i}", "reward": float(i % 2), **values}
        for s in range(1, steps + 1)
        for p in range(prompts)
        for i in range(size)
    ]


def column(run: Run, name: str) -> list:
    return pa.Table.from_batches(list(run.batches([name])))[name].to_pylist()


def sizes(run: Run) -> list[int]:
    ids = column(run, "group_id")
    return sorted(ids.count(one) for one in set(ids))


def said(run: Run) -> str:
    return "; ".join(run.notes)


# Groups


def test_trap_no_group_id_in_blocks(tmp_path) -> None:
    run = open_run(lines(tmp_path / "a.jsonl", rows()))
    assert sizes(run) == [4] * 8
    assert "rebuilt from contiguous blocks of 4 rows" in said(run)


def test_trap_rows_in_another_order(tmp_path) -> None:
    made = rows()
    random.Random(0).shuffle(made)
    made.sort(key=lambda row: row["step"])
    run = open_run(lines(tmp_path / "a.jsonl", made))
    assert sizes(run) == [4] * 8
    for group in set(column(run, "group_id")):
        held = [p for p, g in zip(column(run, "prompt"), column(run, "group_id"), strict=True) if g == group]
        assert len(set(held)) == 1


def test_trap_one_text_for_many_prompts_has_no_groups(tmp_path) -> None:
    made = [row | {"prompt": "<image> What is shown?"} for row in rows(steps=1, prompts=32)]
    run = open_run(lines(tmp_path / "a.jsonl", made))
    assert set(column(run, "group_id")) == {None}
    assert "one prompt text covers 128 rows" in said(run)
    told = summarise(run)
    assert told.groups is None
    assert any("groups" in skip.check for skip in told.skipped)


def test_trap_a_prompt_drawn_twice_in_a_row_is_two_groups(tmp_path) -> None:
    made = [row | {"prompt": row["prompt"].replace("q1-1", "q1-0")} for row in rows(steps=1)]
    run = open_run(lines(tmp_path / "a.jsonl", made))
    assert sizes(run) == [4] * 4
    assert "1 prompt fills several blocks in a row, each a group of its own" in said(run)


def test_trap_a_prompt_drawn_twice_in_mixed_order_is_left_out_and_counted(tmp_path) -> None:
    made = [
        row | {"prompt": row["prompt"].replace("q1-1'", "q1-0'")}
        for row in (r | {"prompt": r["prompt"] + "'"} for r in rows(steps=1, prompts=32))
    ]
    random.Random(3).shuffle(made)
    run = open_run(lines(tmp_path / "a.jsonl", made))
    assert sizes(run) == [4] * 30
    assert sum(run.rejected.values()) == 8
    assert "drawn several times in one step" in next(iter(run.rejected))


def test_trap_partial_groups_of_a_capped_export(tmp_path) -> None:
    made = rows(steps=1, prompts=4)[:13]
    run = open_run(lines(tmp_path / "a.jsonl", made))
    assert sizes(run) == [1, 4, 4, 4]
    assert "1 of 4 groups hold fewer than 4 rows" in said(run)


def test_trap_group_ids_that_start_again_at_every_step(tmp_path) -> None:
    made = [row | {"group_id": i // 4 % 4} for i, row in enumerate(rows())]
    run = open_run(lines(tmp_path / "a.jsonl", made))
    assert sizes(run) == [4] * 8
    assert "start again at every step" in said(run)


def test_trap_an_index_of_rows_is_no_group_id(tmp_path) -> None:
    made = [row | {"index": i} for i, row in enumerate(rows())]
    run = open_run(lines(tmp_path / "a.jsonl", made))
    assert sizes(run) == [4] * 8
    assert "every row has a group id for itself" in said(run)


def test_trap_filtered_data_is_invisible_and_what_is_known_is_said(tmp_path) -> None:
    # A trainer that drops groups without signal leaves a log in which there are none.
    rng = random.Random(0)
    made = []
    for step in range(40):
        for prompt in range(8):
            rate = rng.random()
            found = [float(rng.random() < rate) for _ in range(8)]
            text = f"q{step}-{prompt}"
            made.append(
                [{"step": step, "prompt": text, "response": str(i), "reward": r} for i, r in enumerate(found)]
            )
    whole = [row for group in made for row in group]
    kept = [row for group in made if len({row["reward"] for row in group}) > 1 for row in group]
    assert "dropped before they were logged" not in said(open_run(lines(tmp_path / "whole.jsonl", whole)))
    assert "dropped before they were logged" in said(open_run(lines(tmp_path / "kept.jsonl", kept)))


# Wrapped and transposed rows


def test_trap_values_in_lists_of_one(tmp_path) -> None:
    made = [
        {name: [value] for name, value in row.items()}
        | {"response_ids": [[1, 2]], "old_logprobs": [[-1, -2]]}
        for row in rows()
    ]
    run = open_run(lines(tmp_path / "a.jsonl", made))
    assert (run.num_rows, sizes(run)) == (32, [4] * 8)
    assert column(run, "token_ids")[0] == [1, 2]
    assert column(run, "logp_old")[0] == [-1.0, -2.0]


def test_trap_one_line_a_step(tmp_path) -> None:
    made = rows()
    steps = [
        {"global_step": s}
        | {
            plural: [row[name] for row in made if row["step"] == s]
            for plural, name in (("prompts", "prompt"), ("responses", "response"), ("scores", "reward"))
        }
        for s in (1, 2)
    ]
    run = open_run(lines(tmp_path / "a.jsonl", steps))
    assert column(run, "prompt") == [row["prompt"] for row in made]
    assert column(run, "reward") == [row["reward"] for row in made]
    assert column(run, "step") == [row["step"] for row in made]
    assert sizes(run) == [4] * 8


def test_trap_one_line_a_group(tmp_path) -> None:
    made = [
        {"step": 1, "prompt": f"q{p}", "completions": ["a", "b", "c"], "rewards": [0, 1, p]} for p in range(3)
    ]
    run = open_run(lines(tmp_path / "a.jsonl", made))
    assert column(run, "reward") == [0, 1, 0, 0, 1, 1, 0, 1, 2]
    assert sizes(run) == [3, 3, 3]


def test_trap_a_line_whose_lists_differ_in_length_is_rejected(tmp_path) -> None:
    made = [{"prompt": ["a", "b"], "response": ["x", "y"], "reward": [1.0]}, *rows(steps=1)]
    run = open_run(lines(tmp_path / "a.jsonl", made))
    assert dict(run.rejected) == {"lists of one record differ in length": 1}


def test_trap_json_in_strings(tmp_path) -> None:
    chat = [{"role": "user", "content": "hi"}]
    made = [
        row | {"prompt": json.dumps(chat), "response_ids": "[3, 4]", "reward_components": '{"a": 1.5}'}
        for row in rows(steps=1, prompts=1)
    ]
    run = open_run(lines(tmp_path / "a.jsonl", made))
    assert column(run, "prompt")[0] == "user: hi"
    assert column(run, "token_ids")[0] == [3, 4]
    assert column(run, "reward_components")[0] == [("a", 1.5)]


# Numbers


def test_trap_rewards_that_are_nan_null_infinite_or_text(tmp_path) -> None:
    made = rows(steps=1, prompts=2)
    for row, value in zip(
        made, (float("nan"), None, float("inf"), "-Infinity", "0.5", "nan", 1, True), strict=True
    ):
        row["reward"] = value
    run = open_run(lines(tmp_path / "a.jsonl", made))
    found = column(run, "reward")
    assert math.isnan(found[0])
    assert math.isnan(found[5])
    assert [found[i] for i in (1, 2, 3, 4, 6, 7)] == [None, math.inf, -math.inf, 0.5, 1.0, 1.0]
    assert not run.rejected


def test_trap_a_reward_that_is_no_number_costs_its_row_and_is_counted(tmp_path) -> None:
    made = rows(steps=1)
    made[3]["reward"] = "tensor(1.)!"
    run = open_run(lines(tmp_path / "a.jsonl", made))
    assert (run.num_rows, dict(run.rejected)) == (15, {"reward is no number": 1})


def test_trap_integers_first(tmp_path) -> None:
    # A reader that takes types from the first rows reads 1, 0, 1 and fails, or cuts, at 0.5.
    for name in ("a.jsonl", "a.csv"):
        made = rows(steps=1, prompts=600)
        for i, row in enumerate(made):
            row["reward"] = 0.5 if i == len(made) - 1 else i % 2
        path = tmp_path / name
        if name == "a.csv":
            text = "".join(f"{r['step']},{r['prompt']},{r['response']},{r['reward']}\n" for r in made)
            path.write_text("step,prompt,response,reward\n" + text)
        else:
            lines(path, made)
        assert column(open_run(path), "reward")[-1] == 0.5


def test_trap_ids_above_two_to_the_53(tmp_path) -> None:
    big = 2**53 + 1
    made = [
        row | {"group_id": big + i // 4, "prompt_id": big + i // 4} for i, row in enumerate(rows(steps=1))
    ]
    run = open_run(lines(tmp_path / "a.jsonl", made))
    assert sorted(set(column(run, "prompt_id"))) == [str(big + g) for g in range(4)]
    assert sizes(run) == [4] * 4
    path = tmp_path / "b.csv"
    path.write_text(
        "prompt_id,group_id,reward\n" + "".join(f"{big + i // 4},{big + i // 4},1\n" for i in range(16))
    )
    assert sorted(set(column(open_run(path), "group_id"))) == [str(big + g) for g in range(4)]
    as_floats = [row | {"group_id": float(2**60) + i} for i, row in enumerate(rows(steps=1))]
    run_of_floats = lines(tmp_path / "c.jsonl", [*as_floats, *rows(steps=1)])
    assert "beyond 2**53" in next(iter(open_run(run_of_floats).rejected))


def test_trap_positive_log_probs_are_reported(tmp_path) -> None:
    made = [row | {"response_ids": [1, 2], "rollout_log_probs": [0.7, 0.1]} for row in rows()]
    run = open_run(lines(tmp_path / "a.jsonl", made))
    assert "logp_sampler holds values above 0" in said(run)
    assert "logp.positive" in {problem.id for problem in check(run).problems}


def test_trap_noise_in_the_advantages_of_groups_without_signal(tmp_path) -> None:
    made = [row | {"reward": 1.0, "advantage": 1e-7 * (-1) ** i} for i, row in enumerate(rows(steps=1))]
    run = open_run(lines(tmp_path / "a.jsonl", made))
    assert column(run, "advantage")[:2] == [1e-7, -1e-7]
    assert summarise(run).zero_signal_share.value == 1.0


# Writers


def test_trap_many_writers_that_share_groups(tmp_path) -> None:
    made = [row | {"group_id": f"{row['step']}-{row['prompt']}"} for row in rows()]
    for rank in range(2):
        lines(tmp_path / "run" / f"rank{rank}.jsonl", made[rank::2])
    run = open_run(tmp_path / "run")
    assert sizes(run) == [4] * 8
    assert not any(p.id.startswith("key") for p in check(run).problems)


def test_trap_a_restart_that_appends_the_same_rows_once_more(tmp_path) -> None:
    made = rows(steps=3)
    again = [row for row in made if row["step"] >= 2]
    run = open_run(lines(tmp_path / "a.jsonl", [*made, *again]))
    assert run.num_rows == len(made)
    (reason,) = run.rejected
    assert reason.startswith("repeated")
    assert run.rejected[reason] == len(again)
    assert sizes(run) == [4] * 12


def test_trap_a_restart_that_samples_anew_is_said(tmp_path) -> None:
    made = rows(steps=3)
    anew = [row | {"response": row["response"] + "!"} for row in made if row["step"] >= 2]
    run = open_run(lines(tmp_path / "a.jsonl", [*made, *anew]))
    assert run.num_rows == len(made) + len(anew)
    assert "steps come back after later ones" in said(run)


def test_trap_equal_siblings_are_no_repeats(tmp_path) -> None:
    made = [row | {"response": "4", "reward": 1.0} for row in rows()]
    run = open_run(lines(tmp_path / "a.jsonl", made))
    assert (run.num_rows, dict(run.rejected)) == (len(made), {})


def test_trap_the_last_line_is_still_being_written(tmp_path) -> None:
    path = lines(tmp_path / "a.jsonl", rows())
    with path.open("a") as file:
        file.write('{"step": 3, "prom')
    run = open_run(path)
    assert run.num_rows == 32
    assert dict(run.rejected) == {"last line is cut (still being written?)": 1}


@pytest.mark.parametrize("lost", ["a value", "a list"])
def test_trap_token_lists_of_one_row_that_do_not_fit_each_other(tmp_path, lost) -> None:
    made = [row | {"response_ids": [1, 2, 3], "old_logprobs": [-1.0, -1.0, -1.0]} for row in rows(steps=1)]
    made[5]["old_logprobs"] = [-1.0] if lost == "a value" else None
    run = open_run(lines(tmp_path / "a.jsonl", made))
    expected = {"logp_old and token_ids differ in length": 1} if lost == "a value" else {}
    assert dict(run.rejected) == expected


def test_trap_one_unreadable_file_does_not_hide_the_others(tmp_path) -> None:
    lines(tmp_path / "run" / "1.jsonl", rows(steps=1))
    (tmp_path / "run" / "2.jsonl").mkdir()
    (tmp_path / "run" / "3.jsonl").write_bytes(b"\x00\xff")
    run = open_run(tmp_path / "run")
    assert run.num_rows == 16
    assert sum(run.rejected.values()) == 1


@pytest.mark.parametrize("levels", [50, 150, 600, 900, 990, 100_000])
@pytest.mark.parametrize("name", ["a.jsonl", "a.json", "a.csv"])
def test_trap_values_nested_a_thousand_levels_deep(tmp_path, levels, name) -> None:
    deep = "[" * levels + "]" * levels
    record = '{"prompt": "p", "reward": 1, "response_ids": %s}'
    texts = {
        "a.jsonl": "\n".join([record % "[1]", record % deep, record % "[2]"]),
        "a.json": "[" + ",".join([record % "[1]", record % "[2]", record % deep]) + "]",
        "a.csv": f"prompt,reward,response_ids\np,1,[1]\np,1,[2]\np,1,{deep}\n",
    }
    (tmp_path / name).write_text(texts[name])
    os.mkfifo(tmp_path / "pipe.jsonl")
    run = open_run(tmp_path / name)
    # Text in a cell that is no list stays text, in extra.
    assert run.num_rows == (3 if name == "a.csv" and levels > 900 else 2)
    assert run.num_rows + sum(run.rejected.values()) == 3

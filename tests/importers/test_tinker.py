"""tinker-cookbook's summaries and captured samples: those of its own writers, and each of their traps."""

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
from audit.importers import open_run
from audit.importers.convert import convert
from audit.importers.interface import Options, Source, Unit
from audit.importers.tinker import IMPORTER, manifest, units
from audit.importers.tinker_capture import Turn, matched, pieces_of

FIXTURE = Path(__file__).parent / "fixtures" / "tinker_cookbook"
RUN, CAPTURED = FIXTURE / "run", FIXTURE / "captured"


def held(run, *columns: str) -> list[dict]:
    return [row for batch in run.batches(list(columns)) for row in batch.to_pylist()]


def lines_of(file: Path) -> list[dict]:
    return [json.loads(text) for text in file.read_text().splitlines()]


def summaries(run: Path) -> list[dict]:
    return [
        line
        for step in (0, 1, 10)
        for line in lines_of(run / f"iteration_{step:06d}" / "train_rollout_summaries.jsonl")
    ]


@pytest.mark.parametrize(("path", "rows"), [(RUN, 16), (CAPTURED, 19)])
def test_its_own_run_opens_with_no_flags(path, rows) -> None:
    run = open_run(path)
    summary = summarise(run)
    assert (summary.source.format, summary.groups, summary.group_size) == ("tinker-cookbook", 8, 2)
    assert (summary.source.rows_read, summary.source.rows_rejected) == (rows, 0)
    assert sorted(set(run.responses(["step"])["step"].to_pylist())) == [0, 1, 10]
    assert (run.manifest.model, run.manifest.group_size) == ("tiny/policy", 2)
    assert run.manifest.sampling == {"temperature": 1.0, "max_tokens": 8}
    assert not [p for p in check(run).problems if p.severity == "error"]


def test_summaries_alone_bring_rewards_lengths_and_ends() -> None:
    run = open_run(RUN)
    columns = ("step", "group_id", "reward", "reward_components", "length", "prompt_length", "finish_reason")
    made = held(run, *columns, "policy_version", "sampler_version", "extra")
    for row, line in zip(made, summaries(RUN), strict=True):
        steps = line["steps"]
        assert row["step"] == line["iteration"]
        assert row["group_id"] == f"train/{line['iteration']}:{line['group_idx']}"
        assert row["reward"] == sum(row["reward_components"][i][1] for i in range(2)) == line["total_reward"]
        assert (row["length"], row["prompt_length"]) == (sum(s["ac_len"] for s in steps), steps[0]["ob_len"])
        assert row["finish_reason"] == ("length" if line["traj_idx"] else "stop")
        assert (row["policy_version"], row["sampler_version"]) == (
            line["iteration"],
            max(0, line["iteration"] - 1),
        )
        assert json.loads(row["extra"])["tags"] == ["sums"]
    assert any("prompts were not logged" in note for note in run.notes)
    assert "token_ids" not in run.columns


def slow_pieces(samples: list[dict]) -> list[dict]:
    """Token by token, as rl/data_processing.py of the cookbook says."""
    found: list[dict] = []
    whole: list[int] = []
    for sample in samples:
        prompt, (answer,) = sample["prompt_tokens"], sample["samples"]
        if not found or any(a != b for a, b in zip(whole, prompt, strict=False)) or len(prompt) < len(whole):
            found.append({"prompt": prompt, "ids": [], "mask": [], "logprobs": []})
            whole = list(prompt)
        for token in prompt[len(whole) :]:
            found[-1]["ids"].append(token)
            found[-1]["mask"].append(False)
            found[-1]["logprobs"].append(0.0)
        for token, chance in zip(answer["tokens"], answer["logprobs"], strict=True):
            found[-1]["ids"].append(token)
            found[-1]["mask"].append(True)
            found[-1]["logprobs"].append(chance)
        whole = [*prompt, *answer["tokens"]]
    return found


def test_captured_samples_are_joined_turn_by_turn() -> None:
    run = open_run(CAPTURED)
    columns = ("step", "token_ids", "loss_mask", "logp_sampler", "prompt_length", "trajectory_id", "group_id")
    made = iter(held(run, *columns, "prompt_id"))
    by_scope: dict[tuple, list[dict]] = {}
    for line in lines_of(CAPTURED / "capture" / "sample.jsonl"):
        scope = line["scope"]
        by_scope.setdefault((scope["iteration"], scope["group_idx"], scope["traj_idx"]), []).append(line)
    for line in summaries(CAPTURED):
        # One group of iteration 10 failed, so those after it moved up.
        group = line["group_idx"] + (line["iteration"] == 10)
        pieces = slow_pieces(by_scope[line["iteration"], group, line["traj_idx"]])
        assert len(pieces) == (2 if group == 1 and line["traj_idx"] else 1)
        for piece in pieces:
            row = next(made)
            assert row["token_ids"] == piece["ids"]
            assert row["logp_sampler"] == pytest.approx(piece["logprobs"])
            assert row["prompt_length"] == len(piece["prompt"])
            assert (row["trajectory_id"] is None) == (len(pieces) == 1)
            hidden = 2 if len(pieces) == 1 and group == 1 else 0
            assert row["loss_mask"] == piece["mask"][: len(piece["mask"]) - hidden] + [False] * hidden
    assert next(made, None) is None
    assert "16 of 16 trajectories were joined to what was captured of their samples" in run.notes


def test_prompts_of_a_group_are_one_even_where_a_turn_begins_anew() -> None:
    made = held(open_run(CAPTURED), "group_id", "prompt_id")
    assert len({row["prompt_id"] for row in made}) == len({row["group_id"] for row in made}) == 8


def test_trap_group_idx_of_a_summary_is_its_place_among_those_left() -> None:
    assert matched(["b", "c"], {0: "a", 1: "b", 2: "c"}) == [1, 2]
    assert matched(["a", "a"], {0: "a", 1: "a", 2: "a"}) == [None, None]
    assert matched(["a", "x", "c"], {3: "a", 5: "c"}) == [3, None, 5]
    assert matched([], {0: "a"}) == []


def test_samples_that_do_not_fit_are_not_joined_and_counted(tmp_path) -> None:
    copy = Path(shutil.copytree(CAPTURED, tmp_path / "run"))
    file = copy / "capture" / "sample.jsonl"
    lines = lines_of(file)
    lines[0]["samples"][0]["tokens"].append(5)
    lines[0]["samples"][0]["logprobs"].append(-0.5)
    again = [lines[5], *lines, {"kind": "sample", "scope": {}}]
    file.write_text("".join(json.dumps(line) + "\n" for line in again) + "{cut")
    run = open_run(copy)
    assert "14 of 16 trajectories were joined to what was captured of their samples" in run.notes
    assert any("cannot be joined" in note for note in run.notes)
    assert [row["token_ids"] is None for row in held(run, "token_ids")][:3] == [True, True, False]


def test_a_prompt_that_was_too_long_has_a_turn_without_a_sample(tmp_path) -> None:
    copy = Path(shutil.copytree(CAPTURED, tmp_path / "run"))
    file = copy / "iteration_000000" / "train_rollout_summaries.jsonl"
    lines = lines_of(file)
    empty = {"step_idx": 0, "ob_len": 0, "ac_len": 0, "reward": 0.0, "metrics": {"stop/max_tokens": 1.0}}
    lines.insert(2, lines[1] | {"traj_idx": 2, "steps": [empty], "total_reward": -1.0})
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    made = held(open_run(copy), "reward", "token_ids", "length", "finish_reason", "prompt_id")
    assert (made[2]["token_ids"], made[2]["length"], made[2]["finish_reason"]) == (None, 0, "length")
    assert made[2]["prompt_id"] == made[0]["prompt_id"]
    assert made[3]["token_ids"]


def test_turns_without_log_probs_have_none() -> None:
    turns = [Turn([1], [2], [-0.5], "stop", 0.0), Turn([1, 2], [3], None, "stop", 1.0)]
    ((piece,), hidden) = pieces_of(turns, [False, True]), [True, False]
    assert (piece.columns["token_ids"], piece.columns["logp_sampler"]) == ([2, 3], None)
    assert piece.columns["loss_mask"] == hidden


@pytest.mark.parametrize("place", ["iteration_000001", "iteration_000001/train_rollout_summaries.jsonl"])
def test_an_iteration_opens_alone(place) -> None:
    assert {row["step"] for row in held(open_run(RUN / place), "step")} == {1}


def test_an_evaluation_opens_by_its_name_and_is_said_to_be_no_training() -> None:
    run = open_run(RUN / "iteration_000010" / "eval_test_rollout_summaries.jsonl")
    assert any("no update was made" in note for note in run.notes)
    assert len(units(RUN)) == 3


def test_hostile_summaries_are_one_named_problem(tmp_path) -> None:
    (line, *_) = summaries(RUN)
    file = tmp_path / "iteration_000000" / "train_rollout_summaries.jsonl"
    file.parent.mkdir()
    bad = [line | {"iteration": "x"}, line | {"steps": [{"ac_len": []}]}, line | {"total_reward": [1, 2]}]
    file.write_text("".join(json.dumps(each) + "\n" for each in bad))
    with pytest.raises(BadLog, match="no row of this tinker-cookbook log can be read"):
        open_run(tmp_path)


_VALUE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)
_SAMPLE = lines_of(CAPTURED / "capture" / "sample.jsonl")[0]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=25)
@given(
    st.lists(st.dictionaries(st.sampled_from(sorted(summaries(RUN)[0])), _VALUE), min_size=1, max_size=3),
    st.lists(st.dictionaries(st.sampled_from(sorted(_SAMPLE)), _VALUE), max_size=3),
)
def test_any_lines_are_rows_or_counted(tmp_path, changes, sampled) -> None:
    line = summaries(CAPTURED)[0]
    file = tmp_path / "iteration_000000" / "train_rollout_summaries.jsonl"
    capture = tmp_path / "capture" / "sample.jsonl"
    for each in (file, capture):
        each.parent.mkdir(exist_ok=True)
    file.write_text("".join(json.dumps({**line, **each}) + "\n" for each in changes))
    capture.write_text("".join(json.dumps({**_SAMPLE, **each}) + "\n" for each in sampled))
    source = Source(tmp_path, Options(), manifest(tmp_path))
    made = convert(IMPORTER, Unit("all", (file, capture)), source, tmp_path / "out.parquet")
    assert made.read == made.rows + sum(made.rejected.values()) >= len(changes)

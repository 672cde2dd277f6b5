"""slime's dumps: written by its own code, joined sample by sample, and never unpickled."""

from __future__ import annotations

import json
import pickle
import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from audit.analyses.summary import summarise
from audit.errors import BadLog
from audit.importers import open_run
from audit.importers.convert import convert
from audit.importers.interface import Options, Source, Unit
from audit.importers.opening import open_foreign
from audit.importers.slime import IMPORTER, manifest
from audit.importers.slime_files import CODE
from audit.logs.new_rows import hash_prompt

FIXTURE = Path(__file__).parent / "fixtures" / "slime"
DETAILS = FIXTURE / "details"
LISTS = ["token_ids", "loss_mask", "logp_sampler", "logp_old", "logp_ref"]


class Trap:
    """A pickle that makes a file when it is opened."""

    def __init__(self, made: Path) -> None:
        self.made = made

    def __reduce__(self):
        return (Path.touch, (self.made,))


def held(run, *columns: str) -> list[dict]:
    return [row for batch in run.batches(list(columns)) for row in batch.to_pylist()]


def sample(at: int, **more) -> dict:
    own = {
        "group_index": at // 2,
        "index": at,
        "prompt": f"p{at // 2}",
        "tokens": [1, 2, 3 + at, 4],
        "response": "a",
        "response_length": 2,
        "reward": float(at % 2),
        "status": "completed",
        "loss_mask": None,
        "rollout_log_probs": [-0.5, -0.25],
        "weight_versions": ["3"],
    }
    return {**own, **more}


def dump(folder: Path, samples: list, trained: object = None, name: str = "0.pt") -> Path:
    for kind, content in (("rollout_data", {"rollout_id": 0, "samples": samples}), ("train_data", trained)):
        (folder / kind).mkdir(parents=True, exist_ok=True)
        if content is not None:
            torch.save(content, folder / kind / name)
    return folder


def train_file(samples: list[dict], **more) -> dict:
    return {"format_version": 2, "rollout_id": 0, "rank": 0, "samples": samples, "dp_shards": [], **more}


def test_its_own_dump_opens_with_no_flags_and_every_sample_is_a_row() -> None:
    run = open_run(DETAILS)
    summary = summarise(run)
    assert (summary.source.format, summary.groups, summary.group_size) == ("slime", 6, 4)
    assert (summary.source.rows_read, summary.source.rows_rejected) == (24, 0)
    assert run.responses(["step"])["step"].to_pylist() == [0] * 8 + [1] * 8 + [10] * 8
    assert "20 of 24 samples have trainer log-probs" in run.notes


@pytest.mark.parametrize("step", [0, 1, 10])
def test_both_files_are_joined_sample_by_sample_and_token_by_token(step) -> None:
    made = [row for row in held(open_run(DETAILS), "step", "advantage", *LISTS) if row["step"] == step]
    sampled = torch.load(DETAILS / f"rollout_data/{step}.pt", weights_only=True)["samples"]
    stored = torch.load(DETAILS / f"train_data/{step}.pt", weights_only=True)["samples"]
    trained = {each["sample_index"]: each for each in stored}
    for row, one in zip(made, sampled, strict=True):
        length = one["response_length"]
        other = trained.get(one["index"])
        assert row["token_ids"] == one["tokens"][-length:]
        mask = one["loss_mask"] or [0 if one["remove_sample"] else 1] * length
        assert row["loss_mask"] == [bool(each) for each in mask]
        assert row["logp_sampler"] == pytest.approx(one["rollout_log_probs"])
        for column, name in (("logp_old", "log_probs"), ("logp_ref", "ref_log_probs")):
            assert row[column] == (None if other is None else pytest.approx(other[name].tolist()))
        # A response of which nothing was trained has no advantage.
        wanted = other["advantages"][0].item() if other is not None and any(mask) else None
        assert row["advantage"] == wanted


def test_trap_normalised_rewards_are_kept_apart() -> None:
    for row in held(open_run(DETAILS / "rollout_data" / "0.pt"), "reward", "extra"):
        assert row["reward"] in (0.0, 1.0)
        assert abs(json.loads(row["extra"])["normalized_reward"]) not in (0.0, 1.0)


def test_trap_tokens_of_tools_take_no_loss_and_have_a_sampler_log_prob_of_0() -> None:
    row = held(open_run(DETAILS), "loss_mask", "logp_sampler")[1]
    assert (row["loss_mask"][1], row["logp_sampler"][1]) == (False, 0.0)


def test_status_version_and_messages_are_those_of_the_sample() -> None:
    rows = held(
        open_run(DETAILS), "finish_reason", "length", "sampler_version", "step", "prompt", "prompt_length"
    )
    assert {(row["finish_reason"], row["length"] == 5) for row in rows} == {("stop", False), ("length", True)}
    assert all(row["sampler_version"] == row["step"] for row in rows)
    assert rows[0]["prompt"] == "user: question 0 of 0"
    assert {row["prompt_length"] for row in rows} == {3}


def test_trap_evaluations_are_left_out_and_open_by_their_name() -> None:
    assert any("eval_*.pt beside it" in note for note in open_run(DETAILS).notes)
    run = open_run(DETAILS / "rollout_data" / "eval_0.pt")
    assert len(held(run, "step")) == 2
    assert any("no update was made" in note for note in run.notes)
    assert "logp_old" not in run.columns


def test_trap_one_file_a_rank_is_one_rollout_and_each_sample_is_taken_once() -> None:
    whole, ranks = (
        held(open_run(path), *LISTS, "advantage", "reward") for path in (DETAILS, FIXTURE / "ranks")
    )
    assert len(ranks) == 8
    assert all(row["logp_old"] is not None for row in ranks)
    stored = [torch.load(FIXTURE / f"ranks/train_data/0_{rank}.pt", weights_only=True) for rank in (0, 1)]
    held_by = {
        index: logp.tolist()
        for file in stored
        for index, logp in zip(
            file["rollout_data"]["sample_indices"], file["rollout_data"]["log_probs"], strict=True
        )
    }
    assert [row["logp_old"] for row in ranks] == [pytest.approx(held_by[i]) for i in range(8)]
    assert [row["token_ids"] for row in ranks] == [row["token_ids"] for row in whole[:8]]


@pytest.mark.parametrize("folder", ["details/train_data", "ranks/train_data"])
def test_train_files_alone_open_with_groups_rebuilt_and_raw_rewards(folder) -> None:
    run = open_run(FIXTURE / folder)
    rows = [row for row in held(run, "step", "reward", "prompt_id", "group_id", *LISTS) if row["step"] == 0]
    whole = held(open_run(DETAILS), "reward", *LISTS)[:8]
    names = ["reward", *LISTS]
    assert [[row[n] for n in names] for row in rows] == [[row[n] for n in names] for row in whole]
    assert list(Counter(row["group_id"] for row in rows).values()) == [4, 4]
    assert rows[0]["prompt_id"] == hash_prompt("5 6 7")


def test_trap_parts_of_lists_cut_up_by_context_parallelism_are_left_out(tmp_path) -> None:
    one = {"sample_index": 0, "tokens": torch.tensor([1, 2, 3, 4]), "log_probs": torch.tensor([-0.5])}
    run = open_run(dump(tmp_path, [sample(0), sample(1)], train_file([one])))
    assert "logp_old" not in run.columns
    assert any("context parallelism" in note for note in run.notes)


def test_samples_with_other_tokens_are_not_joined(tmp_path) -> None:
    one = {"sample_index": 1, "tokens": torch.tensor([1, 2, 9, 9]), "log_probs": torch.tensor([-0.5, -1.0])}
    run = open_run(dump(tmp_path, [sample(0), sample(1)], train_file([one])))
    assert "logp_old" not in run.columns
    assert any("tokens differ" in note for note in run.notes)


def test_a_place_in_the_rollout_goes_before_an_index_that_several_samples_have(tmp_path) -> None:
    several = [sample(at, index=7, rollout_id=7) for at in range(2)]
    trained = [
        {"sample_index": 7, "rollout_position": at, "log_probs": torch.tensor([-1.0 - at, -3.0])}
        for at in (1, 0)
    ]
    run = open_run(dump(tmp_path, several, train_file(trained)))
    rows = held(run, "logp_old", "trajectory_id", "turn")
    assert rows == [{"logp_old": [-1.0 - at, -3.0], "trajectory_id": "0:7", "turn": at} for at in range(2)]


def test_an_object_of_rewards_needs_to_know_which_counts(tmp_path) -> None:
    samples = [sample(at, reward={"acc": float(at), "style": 0.5}) for at in range(2)]
    path = dump(tmp_path, samples)
    with pytest.raises(BadLog, match="--column reward=NAME"):
        open_run(path)
    rows = held(open_foreign(path, IMPORTER, Options({"reward": "style"})), "reward", "reward_components")
    assert rows[1] == {"reward": 0.5, "reward_components": [("acc", 1.0), ("style", 0.5)]}
    (tmp_path / "args.json").write_text(json.dumps({"rollout_batch_size": 1, "reward_key": "acc"}))
    assert [row["reward"] for row in held(open_run(path), "reward")] == [0.0, 1.0]


def test_arguments_beside_the_dump_are_the_runs_config(tmp_path) -> None:
    (tmp_path / "args.json").write_text(
        json.dumps({"rollout_batch_size": 1, "n_samples_per_prompt": 2, "rollout_temperature": 0.8})
    )
    found = manifest(dump(tmp_path, [sample(0)]))
    assert (found.framework.name, found.group_size) == ("slime", 2)
    assert found.sampling == {"temperature": 0.8}


def test_no_pickle_of_classes_is_opened_and_the_line_that_converts_it_works(tmp_path, monkeypatch) -> None:
    path = dump(tmp_path / "dump", [sample(0, rollout_routed_experts=np.zeros((1, 2))), sample(1)])
    with pytest.raises(BadLog, match=re.escape(CODE)):
        open_run(path)
    monkeypatch.chdir(path)
    exec(CODE, {})
    assert len(held(open_run(path), "step", "token_ids")) == 2
    hostile = dump(tmp_path / "hostile", [Trap(tmp_path / "opened"), sample(0)])
    with pytest.raises(BadLog, match="is not opened"):
        open_run(hostile)
    assert not (tmp_path / "opened").exists()


def test_a_train_file_that_cannot_be_opened_does_not_take_the_rollout_with_it(tmp_path) -> None:
    path = dump(tmp_path, [sample(0), sample(1)])
    (path / "train_data" / "0.pt").write_bytes(pickle.dumps(3))
    run = open_run(path)
    assert len(held(run, "step")) == 2
    assert [skip.path.name for skip in run.skipped] == ["0.pt"]


def test_hostile_samples_are_counted(tmp_path) -> None:
    odd = [
        *(3, sample(1, response_length=9), sample(1, tokens=[1.5, 2.5]), sample(1, loss_mask=[1])),
        *(sample(1, reward=[1, 2]), sample(1, index={}, rollout_id={}), sample(1, tokens=[2**40] * 4)),
    ]
    run = open_run(dump(tmp_path, [sample(0), *odd]))
    assert sum(run.rejected.values()) == 6
    assert len(held(run, "step")) == 2


_VALUE = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=5,
)
_TRAIN = (
    "tokens",
    "log_probs",
    "advantages",
    "loss_masks",
    "rewards",
    "sample_index",
    "rollout_position",
    "truncated",
    "response_lengths",
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=25)
@given(
    st.lists(st.dictionaries(st.sampled_from(sorted(sample(0))), _VALUE), min_size=1, max_size=4),
    st.lists(st.dictionaries(st.sampled_from(_TRAIN), _VALUE), max_size=4),
    _VALUE,
)
def test_any_samples_are_rows_or_counted(tmp_path, changes, trained, raw) -> None:
    samples = [sample(at, **each) for at, each in enumerate(changes)]
    files = tuple(
        dump(tmp_path, samples, train_file(trained, raw_reward=raw)) / kind / "0.pt"
        for kind in ("rollout_data", "train_data")
    )
    source = Source(tmp_path, Options(), manifest(tmp_path))
    made = convert(IMPORTER, Unit("0", files), source, tmp_path / "out.parquet")
    assert made.read == made.rows + sum(made.rejected.values()) == len(changes)
    alone = convert(IMPORTER, Unit("0", files[1:]), source, tmp_path / "out.parquet")
    assert alone.read == alone.rows + sum(alone.rejected.values()) <= len(trained)


def test_samples_without_a_group_number_are_blocks_of_a_prompt(tmp_path) -> None:
    run = open_run(dump(tmp_path, [sample(at, group_index=None) for at in range(6)]))
    assert list(Counter(row["group_id"] for row in held(run, "group_id")).values()) == [2, 2, 2]
    assert any("contiguous blocks of 2" in note for note in run.notes)


def test_a_prompt_drawn_twice_in_mixed_order_is_left_out_and_counted(tmp_path) -> None:
    samples = [sample(at, group_index=None) for at in (*range(80), 0, 2, 1, 3)]
    run = open_run(dump(tmp_path, [*samples, sample(0)]))
    # Of two prompts four rows each cannot be told apart; a sample with a number keeps its group.
    assert sum(run.rejected.values()) == 8
    assert len(held(run, "group_id")) == 77


def test_a_rollout_of_miles_with_metadata_before_its_samples_is_found(tmp_path) -> None:
    (tmp_path / "rollout_data").mkdir()
    content = {"rollout_id": 4, "metadata": {"note": "x" * 5000}, "samples": [sample(0), sample(1)]}
    torch.save(content, tmp_path / "rollout_data" / "4.pt")
    run = open_run(tmp_path)
    assert (run.format, run.responses(["step"])["step"].to_pylist()) == ("slime", [4, 4])

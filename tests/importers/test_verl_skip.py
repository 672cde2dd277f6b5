"""verl's rollout-skip dumps: never unpickled, read once converted, token for token."""

from __future__ import annotations

import json
import pickle
import re
import shutil
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch

from audit.analyses.summary import summarise
from audit.errors import BadLog
from audit.importers import open_run
from audit.importers.plain_tensors import load_plain
from audit.importers.verl_skip import CODE, IMPORTER
from audit.logs.new_rows import hash_prompt

FIXTURE = Path(__file__).parent / "fixtures" / "verl"
SKIP = FIXTURE / "skip" / "grpo_fixtures" / "GBS3_N4_in5_out6"
QUEUE = FIXTURE / "skip_tq" / "grpo_fixtures" / "GBS3_N4_in5_out6"


class Trap:
    """A pickle that makes a file when it is opened."""

    def __init__(self, made: Path) -> None:
        self.made = made

    def __reduce__(self):
        return (Path.touch, (self.made,))


def rows(folder: Path, *columns: str) -> list[dict]:
    return [row for batch in open_run(folder).batches(list(columns)) for row in batch.to_pylist()]


def test_a_dump_that_is_not_converted_is_refused_with_the_line_that_converts_it(tmp_path) -> None:
    for step in ("1", "2"):
        (tmp_path / step).mkdir()
        shutil.copy(SKIP / step / "gen_batch.dp", tmp_path / step)
    with pytest.raises(BadLog, match=re.escape(CODE)):
        open_run(tmp_path)


@pytest.mark.parametrize("name", ["1/gen_batch.dp", "1/0/tq_batch.pt", "exp_project_GBS8__N4"])
def test_no_pickle_is_ever_opened(tmp_path, name) -> None:
    dump = tmp_path / "dump" / name
    dump.parent.mkdir(parents=True)
    dump.write_bytes(pickle.dumps(Trap(tmp_path / "opened")))
    with pytest.raises(BadLog, match="is not opened"):
        open_run(tmp_path / "dump")
    # A pickle under the name of a converted file is no better.
    dump.with_name(f"{dump.name}.plain.pt").write_bytes(pickle.dumps(Trap(tmp_path / "opened")))
    with pytest.raises(BadLog, match="is not opened"):
        open_run(tmp_path / "dump")
    assert not (tmp_path / "opened").exists()


def test_a_converted_dump_opens_with_groups_tokens_masks_and_sampler_log_probs() -> None:
    run = open_run(SKIP)
    summary = summarise(run)
    assert (summary.source.format, summary.groups, summary.source.rows_read) == ("verl-skip", 4, 16)
    assert any("rollout cache" in note for note in run.notes)
    assert list(Counter(run.responses(["group_id"])["group_id"].to_pylist()).values()) == [4] * 4


@pytest.mark.parametrize("step", [1, 2])
def test_padding_is_cut_on_both_sides_and_every_list_stays_with_its_token(step) -> None:
    columns = ["step", "prompt_id", "prompt_length", "reward", "token_ids", "loss_mask", "logp_sampler"]
    made = [row for row in rows(SKIP, *columns) if row["step"] == step]
    held = torch.load(SKIP / str(step) / "gen_batch.dp.plain.pt", weights_only=True)["tensors"]
    assert len(made) == len(held["prompts"])
    for at, row in enumerate(made):
        one = {name: values[at].tolist() for name, values in held.items()}
        prompt = [token for token in one["prompts"] if token]
        # Responses end with token 1, and padding is 0.
        length = one["responses"].index(1) + 1
        assert row["prompt_id"] == hash_prompt(" ".join(map(str, prompt)))
        assert row["prompt_length"] == len(prompt)
        assert row["token_ids"] == one["responses"][:length]
        assert row["loss_mask"] == [bool(each) for each in one["response_mask"][:length]]
        assert row["logp_sampler"] == pytest.approx(one["rollout_log_probs"][:length])
        assert row["reward"] == pytest.approx(sum(one["rm_scores"]))


def test_the_queues_dump_brings_sessions_and_the_version_that_sampled() -> None:
    made = rows(
        QUEUE, "step", "group_id", "sample_index", "sampler_version", "token_ids", "logp_sampler", "extra"
    )
    assert [row["sample_index"] for row in made] == [0, 1, 2, 3] * 2
    assert len({row["group_id"] for row in made}) == 2
    # Sampled over two versions: neither is the sampler's version.
    assert [row["sampler_version"] for row in made] == [2, None] * 4
    assert {row["step"] for row in made} == {3}
    assert all(len(row["token_ids"]) == len(row["logp_sampler"]) for row in made)
    assert json.loads(made[1]["extra"])["tags"]["max_global_steps"] == 3


def plain(folder: Path, **changes) -> Path:
    tensors = {
        "prompts": [torch.tensor([0, 7]), torch.tensor([0, 7])],
        "responses": [torch.tensor([8, 9, 0]), torch.tensor([8, 1, 0])],
        "attention_mask": [torch.tensor([0, 1, 1, 1, 0])] * 2,
    }
    folder.mkdir(parents=True, exist_ok=True)
    made = {"tensors": {**tensors, **changes}, "others": json.dumps({"uid": ["a", "a"]})}
    torch.save(made, folder / "gen_batch.dp.plain.pt")
    return folder


def test_lists_that_do_not_fit_are_counted(tmp_path) -> None:
    short = [torch.tensor([1, 1, 0]), torch.tensor([1])]
    run = open_run(plain(tmp_path / "5", response_mask=short))
    assert dict(run.rejected) == {"response_mask and responses differ in length": 1}
    assert run.responses(["step"])["step"].to_pylist() == [5]


def test_half_precision_and_a_reward_of_one_number_are_read(tmp_path) -> None:
    chances = [torch.tensor([-0.5, -0.25, 0.0]).bfloat16()] * 2
    folder = plain(
        tmp_path / "5", rollout_log_probs=chances, rm_scores=[torch.tensor(1.0), torch.tensor(0.5)]
    )
    assert rows(folder, "reward", "logp_sampler") == [
        {"reward": 1.0, "logp_sampler": [-0.5, -0.25]},
        {"reward": 0.5, "logp_sampler": [-0.5, -0.25]},
    ]


@pytest.mark.parametrize("changes", [{"prompts": 3}, {"responses": [torch.tensor(1)] * 2}, {"prompts": []}])
def test_odd_tensors_are_one_named_problem(tmp_path, changes) -> None:
    with pytest.raises(BadLog):
        open_run(plain(tmp_path / "5", **changes))


@pytest.mark.parametrize(
    "content", [b"", b"junk", b"PK\x03\x04", b"\x80\x04K\x01.", np.arange(99, dtype=np.uint8).tobytes()]
)
def test_cut_and_foreign_files_are_one_named_problem(tmp_path, content) -> None:
    file = tmp_path / "a.pt"
    file.write_bytes(content)
    with pytest.raises(BadLog, match=r"a\.pt"):
        load_plain(file)


def test_what_only_looks_like_a_dump_is_left_alone(tmp_path) -> None:
    (tmp_path / "gen_batch.dp").mkdir()
    assert IMPORTER.detect(tmp_path) is None
    assert IMPORTER.detect(tmp_path / "gen_batch.dp") is None

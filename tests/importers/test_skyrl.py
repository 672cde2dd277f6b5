"""SkyRL's batches, laid out and pickled by its own code, and its evaluations; never unpickled."""

from __future__ import annotations

import json
import pickle
import re
import shutil
from collections import Counter
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from audit.analyses.summary import summarise
from audit.errors import BadLog
from audit.importers import open_run, skyrl, skyrl_evals
from audit.importers.convert import convert
from audit.importers.interface import Options, Source, Unit
from audit.logs.new_rows import hash_prompt

FIXTURE = Path(__file__).parent / "fixtures" / "skyrl"
EXPORTS = FIXTURE / "exports"
NAME = "global_step_1_training_input.pkl"
COLUMNS = {
    "logp_old": "action_log_probs",
    "logp_ref": "base_action_log_probs",
    "logp_sampler": "rollout_logprobs",
}


class Trap:
    """A pickle that makes a file when it is opened."""

    def __init__(self, made: Path) -> None:
        self.made = made

    def __reduce__(self):
        return (Path.touch, (self.made,))


def held(run, *columns: str) -> list[dict]:
    return [row for batch in run.batches(list(columns)) for row in batch.to_pylist()]


def plain(folder: Path, others: object = None, **changes) -> Path:
    tensors = {
        "sequences": torch.tensor([[0, 7, 8, 9], [5, 6, 8, 9], [5, 6, 8, 9]]),
        "attention_mask": torch.tensor([[0, 1, 1, 1], [1, 1, 1, 1], [1, 1, 1, 1]]),
        "response_mask": torch.tensor([[0, 1], [1, 1], [1, 1]]),
        "advantages": torch.tensor([[0.0, 0.5], [1.0, 2.0], [1.0, 1.0]]),
    }
    folder.mkdir(parents=True, exist_ok=True)
    made = {"tensors": {**tensors, **changes}, "others": json.dumps(others)}
    torch.save(made, folder / f"{NAME}.plain.pt")
    return folder


@pytest.mark.parametrize("place", [EXPORTS, EXPORTS / "dumped_data"])
def test_a_converted_dump_opens_and_its_padding_is_counted(place) -> None:
    run = open_run(place)
    source = summarise(run).source
    assert (source.format, source.rows_read, source.rows_rejected) == ("skyrl", 18, 6)
    assert list(Counter(row["group_id"] for row in held(run, "group_id")).values()) == [3] * 6
    assert run.responses(["step"])["step"].to_pylist() == [1] * 6 + [2] * 6 + [10] * 6


@pytest.mark.parametrize("step", [1, 2, 10])
def test_lists_end_at_the_right_and_stay_with_their_tokens(step) -> None:
    made = held(open_run(EXPORTS), "step", "prompt_id", "advantage", "token_ids", "loss_mask", *COLUMNS)
    file = EXPORTS / "dumped_data" / f"global_step_{step}_training_input.pkl.plain.pt"
    tensors = torch.load(file, weights_only=True)["tensors"]
    for at, row in enumerate(row for row in made if row["step"] == step):
        length = int(tensors["response_mask"][at].sum())
        ids = tensors["sequences"][at].tolist()
        start = next(i for i, each in enumerate(tensors["attention_mask"][at]) if each)
        assert row["token_ids"] == ids[len(ids) - length :]
        assert row["prompt_id"] == hash_prompt(" ".join(map(str, ids[start : len(ids) - length])))
        assert row["loss_mask"] == [bool(each) for each in tensors["loss_mask"][at][-length:]]
        for column, name in COLUMNS.items():
            assert row[column] == pytest.approx(tensors[name][at][-length:].tolist())
        assert row["advantage"] == pytest.approx(float(tensors["advantages"][at][-1]))


def test_trap_lists_that_start_at_the_left_before_2026_03_are_the_same_rows() -> None:
    columns = ["prompt_id", "prompt_length", "advantage", "token_ids", "loss_mask", *COLUMNS]
    old = held(open_run(FIXTURE / "old"), *columns)
    assert old == held(open_run(EXPORTS / "dumped_data" / NAME), *columns)
    sizes = Counter(row["group_id"] for row in held(open_run(FIXTURE / "old"), "group_id"))
    assert list(sizes.values()) == [3, 3]


def test_mini_batches_are_kept() -> None:
    rows = held(open_run(EXPORTS / "dumped_data" / NAME), "extra")
    assert [json.loads(row["extra"])["mini_batch"] for row in rows] == [0, 0, 0, 1, 1, 1]


def test_advantages_that_differ_by_token_stay_by_token(tmp_path) -> None:
    rows = held(open_run(plain(tmp_path)), "advantage", "token_advantage", "token_ids")
    assert rows[0] == {"advantage": 0.5, "token_advantage": None, "token_ids": [9]}
    assert rows[1] == {"advantage": None, "token_advantage": [1.0, 2.0], "token_ids": [8, 9]}


def test_a_dump_that_is_not_converted_is_refused_with_the_line_that_converts_it(tmp_path) -> None:
    shutil.copy(EXPORTS / "dumped_data" / NAME, tmp_path)
    with pytest.raises(BadLog, match=re.escape(skyrl.CODE)):
        open_run(tmp_path)


def test_no_pickle_is_ever_opened(tmp_path) -> None:
    for name in (NAME, f"{NAME}.plain.pt"):
        (tmp_path / name).write_bytes(pickle.dumps(Trap(tmp_path / "opened")))
        with pytest.raises(BadLog, match="is not opened"):
            open_run(tmp_path)
    assert not (tmp_path / "opened").exists()


@pytest.mark.parametrize(
    "changes",
    [
        {"sequences": 3},
        {"attention_mask": torch.ones(3)},
        {"response_mask": torch.ones(1, 2)},
        {"others": [3]},
    ],
)
def test_odd_batches_are_one_named_problem(tmp_path, changes) -> None:
    with pytest.raises(BadLog, match="holds no batch of SkyRL"):
        open_run(plain(tmp_path, **changes))


def test_lists_and_boundaries_that_do_not_fit_are_counted_or_left_out(tmp_path) -> None:
    odd = {"policy_prompt_boundaries": [[0, 9], [1, 2]], "pad_size": 99}
    run = open_run(plain(tmp_path, odd, response_mask=torch.tensor([[1, 1], [1, 1], [1, 1]])))
    assert dict(run.rejected) == {}
    assert {row["group_id"] for row in held(run, "group_id")} == {f"{NAME}:0", f"{NAME}:1"}
    with pytest.raises(BadLog, match="advantages and response_mask differ in shape"):
        open_run(plain(tmp_path / "b", advantages=torch.ones(3, 3)))


@pytest.mark.parametrize("name", ["dumped_evals", "dumped_evals/global_step_2_evals"])
def test_evaluations_open_with_their_step_and_no_totals(name) -> None:
    run = open_run(EXPORTS / name)
    assert summarise(run).source.format == "skyrl-evals"
    rows = [row for row in held(run, "step", "prompt", "reward", "finish_reason", "group_id") if row["step"]]
    # A score may be one a token.
    assert [row["reward"] for row in rows] == [1.0, 0.0, 1.0, 0.0]
    assert [row["finish_reason"] for row in rows] == ["stop", "length", "stop", "stop"]
    assert rows[0]["prompt"] == "text [5, 0]"
    assert list(Counter(row["group_id"] for row in rows).values()) == [2, 2]
    assert any("no update was made" in note for note in run.notes)
    assert [tuple(each) for each in skyrl_evals.scalars(EXPORTS / name)][-1] == (2, "eval/all/avg_score", 0.5)


_OWN = {"input_prompt": "p", "output_response": "a", "score": 1.0, "stop_reason": "stop", "env_extras": {}}
_VALUE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=5,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=20)
@given(st.lists(st.dictionaries(st.sampled_from(sorted(_OWN)), _VALUE), min_size=1, max_size=4))
def test_any_lines_are_rows_or_counted(tmp_path, changes) -> None:
    file = tmp_path / "a.jsonl"
    file.write_text("".join(json.dumps({**_OWN, **each}) + "\n" for each in changes))
    source = Source(file, Options(), skyrl_evals.manifest(file))
    made = convert(skyrl_evals.IMPORTER, Unit(file.name, (file,)), source, tmp_path / "out.parquet")
    assert made.read == made.rows + sum(made.rejected.values()) == len(changes)

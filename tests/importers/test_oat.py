"""oat's buffers, pickled with its own classes and never unpickled, and its evaluations."""

from __future__ import annotations

import json
import pickle
import re
import shutil
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from audit.analyses.summary import summarise
from audit.errors import BadLog
from audit.importers import oat, oat_evals, open_run
from audit.importers.convert import convert
from audit.importers.interface import Options, Source, Unit

FIXTURE = Path(__file__).parent / "fixtures" / "oat"
NAME = "buffer_step00002.pkl"


class Trap:
    """A pickle that makes a file when it is opened."""

    def __init__(self, made: Path) -> None:
        self.made = made

    def __reduce__(self):
        return (Path.touch, (self.made,))


def sample(**more) -> dict:
    own = {
        "prompt": "p",
        "prompt_ids": [5, 6],
        "response": "a",
        "response_ids": [8, 9],
        "response_logprobs": [-0.5, -0.25],
        "rewards": [0, 1.0],
        "loss_mask": True,
        "info": {"actor/time": 0.5},
    }
    return {**own, **more}


def save(folder: Path, *lines: dict) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{NAME}.jsonl").write_text("".join(json.dumps(each) + "\n" for each in lines))
    return folder


def held(run, *columns: str) -> list[dict]:
    return [row for batch in run.batches(list(columns)) for row in batch.to_pylist()]


def test_a_converted_dump_opens_with_groups_tokens_and_sampler_log_probs() -> None:
    run = open_run(FIXTURE)
    summary = summarise(run)
    assert (summary.source.format, summary.groups, summary.group_size) == ("oat", 6, 3)
    assert (summary.source.rows_read, summary.source.rows_rejected) == (18, 0)
    columns = ["step", "prompt", "prompt_length", "token_ids", "loss_mask", "logp_sampler", "reward"]
    rows = held(run, *columns)
    assert [row["step"] for row in rows] == [1] * 6 + [2] * 6 + [10] * 6
    lines = [
        json.loads(text)
        for step in (1, 2, 10)
        for text in (FIXTURE / f"buffer_step{step:05}.pkl.jsonl").read_text().splitlines()
    ]
    for row, record in zip(rows, lines, strict=True):
        assert (row["prompt"], row["token_ids"]) == (record["prompt"], record["response_ids"])
        assert row["logp_sampler"] == pytest.approx(record["response_logprobs"])
        assert row["loss_mask"] == [record["loss_mask"]] * len(record["response_ids"])
        assert row["prompt_length"] == 2
        assert row["reward"] == record["rewards"][-1]


def test_a_dump_that_is_not_converted_is_refused_with_the_line_that_converts_it(tmp_path) -> None:
    shutil.copy(FIXTURE / NAME, tmp_path)
    with pytest.raises(BadLog, match=re.escape(oat.CODE)):
        open_run(tmp_path)


def test_no_pickle_is_ever_opened(tmp_path) -> None:
    for name in (NAME, f"{NAME}.jsonl"):
        (tmp_path / name).write_bytes(pickle.dumps(Trap(tmp_path / "opened")))
        with pytest.raises(BadLog):
            open_run(tmp_path)
    assert not (tmp_path / "opened").exists()


def test_hostile_lines_are_one_named_problem(tmp_path) -> None:
    (tmp_path / "buffer_step00009.pkl.jsonl").mkdir()
    odd = [
        sample(response_ids="x"),
        sample(rewards={}),
        sample(loss_mask=7),
        sample(response_logprobs=[-1.0]),
    ]
    with pytest.raises(BadLog, match="no row of this oat log"):
        open_run(save(tmp_path, *odd))


@pytest.mark.parametrize("place", [FIXTURE / "eval_results", FIXTURE / "eval_results" / "10.json"])
def test_evaluations_are_rows_with_the_prompt_that_the_model_had(place) -> None:
    run = open_run(place)
    assert summarise(run).source.format == "oat-evals"
    rows = held(run, "step", "prompt", "response", "reward", "extra")[-4:]
    assert [row["reward"] for row in rows] == [1.0, 0.0, 0.0, 1.0]
    assert (rows[1]["step"], rows[1]["prompt"], rows[1]["response"]) == (10, "User: question 1", "answer 1")
    assert json.loads(rows[1]["extra"])["problem"] == "question 1"
    assert any("no update was made" in note for note in run.notes)


def test_prompts_of_several_samples_are_groups(tmp_path) -> None:
    own = {"q": "p", "output": "a", "scores": 1.0, "format_q": "P", "reference": "", "generator": "x"}
    (tmp_path / "5.json").write_text(
        json.dumps([own, own, {**own, "format_q": "Q"}, {**own, "format_q": "Q"}])
    )
    assert list(Counter(row["group_id"] for row in held(open_run(tmp_path), "group_id")).values()) == [2, 2]


_VALUE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=5,
)
_EVAL = {"q": "p", "output": "a", "scores": 1.0, "format_q": "P", "reference": "", "generator": "x"}


@pytest.mark.parametrize(("importer", "own"), [(oat, sample()), (oat_evals, _EVAL)])
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=20)
@given(data=st.data())
def test_any_records_are_rows_or_counted(tmp_path, importer, own, data) -> None:
    changes = data.draw(
        st.lists(st.dictionaries(st.sampled_from(sorted(own)), _VALUE), min_size=1, max_size=4)
    )
    records = [{**own, **each} for each in changes]
    lines = "\n".join(map(json.dumps, records)) if importer is oat else json.dumps(records)
    file = tmp_path / (f"{NAME}.jsonl" if importer is oat else "5.json")
    file.write_text(lines + "\n")
    source = Source(file, Options(), importer.manifest(file))
    made = convert(importer.IMPORTER, Unit(file.name, (file,)), source, tmp_path / "out.parquet")
    assert made.read == made.rows + sum(made.rejected.values()) == len(changes)

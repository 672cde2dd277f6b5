"""Groups of Atropos: those of its own writer, and each of their traps."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from audit.analyses.check import check
from audit.analyses.summary import summarise
from audit.errors import BadLog
from audit.importers import open_run
from audit.importers.atropos import IMPORTER, detect, manifest
from audit.importers.convert import convert
from audit.importers.interface import Options, Source, Unit

FIXTURE = Path(__file__).parent / "fixtures" / "atropos"
FILES = ("gsm8k.jsonl", "gsm8k_1.jsonl")


def held(run, *columns: str) -> list[dict]:
    return [row for batch in run.batches(list(columns)) for row in batch.to_pylist()]


def lines_of(name: str) -> list[dict]:
    return [json.loads(text) for text in (FIXTURE / name).read_text().splitlines()]


def save(file: Path, *groups: dict) -> Path:
    file.write_text("".join(json.dumps(group) + "\n" for group in groups))
    return file


def test_its_own_log_opens_with_no_flags_and_every_sample_is_a_row() -> None:
    run = open_run(FIXTURE)
    summary = summarise(run)
    assert (summary.source.format, summary.groups, summary.group_size) == ("atropos", 5, 4)
    assert (summary.source.rows_read, summary.source.rows_rejected, summary.steps) == (20, 0, 1)
    assert not [p for p in check(run).problems if p.severity == "error"]
    assert any("the log has no steps" in note for note in run.notes)


@pytest.mark.parametrize("name", FILES)
def test_lists_of_the_whole_sequence_are_cut_to_the_response_token_by_token(name) -> None:
    columns = ("token_ids", "loss_mask", "logp_sampler", "prompt_length", "reward", "group_id", "length")
    made = iter(held(open_run(FIXTURE / name), *columns))
    for line, group in enumerate(lines_of(name)):
        for ids, mask, score, chances in zip(
            group["tokens"], group["masks"], group["scores"], group["inference_logprobs"], strict=True
        ):
            row = next(made)
            start = next(i for i, each in enumerate(mask) if each != -100)
            assert row["prompt_length"] == start
            assert row["token_ids"] == ids[start:]
            assert row["loss_mask"] == [each != -100 for each in mask[start:]]
            assert row["reward"] == score
            assert row["group_id"] == f"{name}:{line}"
            trained = [c for c, m in zip(chances, mask, strict=True) if m != -100]
            kept = [c for c, told in zip(row["logp_sampler"], row["loss_mask"], strict=True) if told]
            assert kept == pytest.approx(trained)
            assert len(row["logp_sampler"]) == row["length"] == len(ids) - start


def test_trap_log_probs_of_1_on_tokens_that_are_not_trained_are_a_placeholder() -> None:
    for row in held(open_run(FIXTURE), "logp_sampler", "loss_mask"):
        given_ = [c for c, told in zip(row["logp_sampler"], row["loss_mask"], strict=True) if not told]
        assert set(given_) <= {0.0}
        assert max(row["logp_sampler"]) <= 0


def test_trap_one_line_is_a_group_and_the_file_of_a_restart_has_its_own() -> None:
    names = {row["group_id"] for row in held(open_run(FIXTURE), "group_id")}
    assert names == {f"{name}:{line}" for name in FILES for line in range(len(lines_of(name)))}


def test_advantages_are_those_of_the_environment_where_it_gives_any() -> None:
    made = held(open_run(FIXTURE / "gsm8k_1.jsonl"), "advantage", "token_advantage", "logp_ref", "reward")
    assert [row["advantage"] for row in made[:4]] == [row["reward"] for row in made[:4]]
    assert made[4]["advantage"] is None
    assert made[4]["token_advantage"] == [float(i) for i in range(3, 3 + len(made[4]["token_advantage"]))]
    assert set(made[0]["logp_ref"]) == {-0.5}
    assert [row["logp_ref"] for row in made[4:]] == [None] * 8


def test_texts_are_split_where_training_begins() -> None:
    made = held(open_run(FIXTURE / "gsm8k.jsonl"), "prompt", "response", "extra")
    assert made[0]["prompt"] == "system: be brief\nuser: question 0"
    assert made[0]["response"] == "assistant: let me see"
    assert made[4]["response"] == "assistant: let me see\ntool: 7\nassistant: 7"
    assert [json.loads(row["extra"]).get("parsed_actions") for row in made[4:]] == ["a", "b", "c", "d"]
    assert json.loads(made[0]["extra"])["seed"] == 11


def test_trap_messages_that_were_decoded_from_everything_are_neither_prompt_nor_response() -> None:
    made = held(open_run(FIXTURE / "gsm8k_1.jsonl"), "step", "extra")
    run = open_run(FIXTURE / "gsm8k_1.jsonl")
    assert not {"prompt", "response"} & run.columns
    assert json.loads(made[0]["extra"])["messages"][0]["role"] == "user"


@pytest.mark.parametrize(
    ("change", "why", "count"),
    [
        ({"scores": [1.0]}, "tokens, masks and scores of a group differ in number", 4),
        ({"masks": [[1]] * 4}, "masks and tokens differ in length", 4),
        ({"inference_logprobs": [[0.0]] * 4}, "inference_logprobs and tokens differ in length", 4),
        ({"inference_logprobs": [[0.0]]}, "inference_logprobs are not one for each sample", 4),
        ({"advantages": [[0.0, 1.0]] * 4}, "advantages and tokens differ in length", 4),
    ],
)
def test_groups_that_contradict_themselves_are_counted(tmp_path, change, why, count) -> None:
    (first, second) = lines_of("gsm8k.jsonl")
    run = open_run(save(tmp_path / "a.jsonl", first, second | change))
    assert run.rejected == {why: count}


def test_other_lines_are_not_taken(tmp_path) -> None:
    for bad in ({"tokens": [1], "masks": [1], "scores": [1]}, {"tokens": [[1]], "scores": [1]}, {"masks": 3}):
        assert detect(save(tmp_path / "a.jsonl", bad)) is None


def test_hostile_groups_are_one_named_problem(tmp_path) -> None:
    (group, _) = lines_of("gsm8k.jsonl")
    file = save(tmp_path / "a.jsonl", group | {"tokens": [[10**40, "x", []]] * 4, "masks": [[1, 2, 3]] * 4})
    with pytest.raises(BadLog, match="no row of this atropos log can be read"):
        open_run(file)


_VALUE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=25)
@given(
    st.lists(
        st.dictionaries(st.sampled_from(["images", *lines_of("gsm8k.jsonl")[0]]), _VALUE),
        min_size=1,
        max_size=3,
    )
)
def test_any_lines_are_rows_or_counted(tmp_path, changes) -> None:
    (group, _) = lines_of("gsm8k.jsonl")
    file = save(tmp_path / "a.jsonl", *({**group, **each} for each in changes))
    source = Source(file, Options(), manifest(file))
    made = convert(IMPORTER, Unit(file.name, (file,)), source, tmp_path / "out.parquet")
    assert made.read == made.rows + sum(made.rejected.values()) >= len(changes)

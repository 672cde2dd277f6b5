"""Files of records with any names: every kind of file, mappings, aliases, wrapped and transposed rows."""

from __future__ import annotations

import csv
import gzip
import io
import json
import math
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit.errors import BadLog, UnknownName
from audit.importers import find_runs, open_run
from audit.importers.generic.arrays import array_records
from audit.importers.generic.columns import ALIASES, TARGETS, normal, plan_of
from audit.importers.interface import Book

ROWS = [
    {"step": s, "question": f"q{p}", "completion": f"a{i}", "score": i / 2, "old_log_probs": [-0.5, -1.0]}
    for s in (1, 2)
    for p in (0, 1)
    for i in range(3)
]


def as_file(path: Path, rows: list[dict]) -> Path:
    """Write rows as the kind of file that the name asks for."""
    name = path.name
    if name.endswith(".parquet"):
        pq.write_table(pa.Table.from_pylist(rows), path)
        return path
    if name.removesuffix(".gz").endswith((".csv", ".tsv")):
        text = io.StringIO()
        delimiter = "\t" if ".tsv" in name else ","
        out = csv.DictWriter(text, list(dict.fromkeys(k for row in rows for k in row)), delimiter=delimiter)
        out.writeheader()
        for row in rows:
            out.writerow({k: json.dumps(v) if isinstance(v, (list, dict)) else v for k, v in row.items()})
        content = text.getvalue()
    elif ".jsonl" in name or ".ndjson" in name:
        content = "".join(json.dumps(row) + "\n" for row in rows)
    else:
        content = json.dumps(rows)
    data = content.encode()
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return path


def values(path: Path, *names: str) -> list[tuple]:
    """Values of columns, scalars and lists, row by row."""
    run = open_run(path)
    table = pa.Table.from_batches(list(run.batches(list(names))))
    return list(zip(*(table[name].to_pylist() for name in names), strict=True))


KINDS = [
    "a.jsonl",
    "a.ndjson",
    "a.jsonl.gz",
    "a.json",
    "a.json.gz",
    "a.csv",
    "a.csv.gz",
    "a.tsv",
    "a.parquet",
]


@pytest.mark.parametrize("name", KINDS)
def test_every_kind_of_file_gives_the_same_rows(tmp_path, name) -> None:
    path = as_file(tmp_path / name, ROWS)
    run = open_run(path)
    assert (run.format, run.num_rows, dict(run.rejected)) == ("generic", 12, {})
    found = values(path, "step", "prompt", "response", "reward", "logp_old", "length")
    assert found == [
        (r["step"], r["question"], r["completion"], r["score"], r["old_log_probs"], 2) for r in ROWS
    ]
    groups = [g for (g,) in values(path, "group_id")]
    assert [groups[i] == groups[i + 1] for i in range(11)] == [i % 3 != 2 for i in range(11)]


def test_every_alias_is_taken_for_its_column() -> None:
    for target, names in ALIASES.items():
        assert target in TARGETS
        for name in names.split():
            for written in (name, name.upper(), name.replace("_", "-"), name.title().replace("_", "")):
                assert written in plan_of([written], {}).sources[target], (target, written)


def test_names_are_compared_without_capitals_spaces_and_camels() -> None:
    assert {normal(n) for n in ("Group ID", "group-id", "groupId", " GROUP_ID ")} == {"group_id"}


def test_the_schemas_own_name_wins_over_aliases_and_what_was_said_over_both(tmp_path) -> None:
    rows = [{"prompt": "p", "reward": 1.0, "score": 2.0, "grade": 3.0, "input": "other"}] * 2
    path = as_file(tmp_path / "a.jsonl", rows)
    assert values(path, "prompt", "reward") == [("p", 1.0)] * 2
    assert json.loads(values(path, "extra")[0][0]) == {"score": 2.0, "grade": 3.0, "input": "other"}
    (tmp_path / "rlaudit.toml").write_text('[columns]\nreward = "grade"\n')
    assert values(path, "prompt", "reward") == [("p", 3.0)] * 2


def test_a_mapping_reaches_into_objects_and_sets_the_group_size(tmp_path) -> None:
    rows = [{"task": {"text": f"p{i // 4}"}, "meta": {"grade": i, "lp": [-1.0]}} for i in range(8)]
    path = as_file(tmp_path / "a.jsonl", rows)
    (tmp_path / "rlaudit.toml").write_text(
        'format = "generic"\ngroup_size = 2\n[columns]\nprompt = "task.text"\nreward = "meta.grade"\n'
        'logp_sampler = "meta.lp"\n'
    )
    assert values(path, "prompt", "reward", "logp_sampler")[5] == ("p1", 5.0, [-1.0])
    run = open_run(path)
    assert run.manifest.group_size == 2
    assert len(set(run.responses(["group_id"])["group_id"].to_pylist())) == 4


@pytest.mark.parametrize(
    ("toml", "error", "said"),
    [
        ("x = ", BadLog, "is not TOML"),
        ("formt = 'trl'", BadLog, "formt"),
        ("group_size = 'many'", BadLog, "group_size"),
        ("grouping = 'random'", BadLog, "grouping"),
        ("format = 'trll'", UnknownName, "Did you mean 'trl'"),
        ("format = 'trl'", BadLog, "is no trl log"),
        ("format = 'verl'\n[columns]\nreward = 'score'", BadLog, "verl"),
        ("[columns]\nrewrd = 'score'", UnknownName, "Did you mean 'reward'"),
        ("[columns]\nreward = 'scoer'", BadLog, "Did you mean 'score'"),
    ],
)
def test_a_mapping_that_means_nothing_is_named(tmp_path, toml, error, said) -> None:
    path = as_file(tmp_path / "a.jsonl", ROWS)
    (tmp_path / "rlaudit.toml").write_text(toml)
    with pytest.raises(error) as caught:
        open_run(path)
    assert said in str(caught.value)


def test_what_is_missing_is_named_with_what_would_be_taken(tmp_path) -> None:
    path = as_file(tmp_path / "a.jsonl", [{"problem_text": "x", "grade": 1.0}])
    with pytest.raises(BadLog) as caught:
        open_run(path)
    for said in (
        "prompt (or prompt_id; also taken: prompts,",
        "reward (also taken: rewards, score",
        "--column",
    ):
        assert said in str(caught.value)


def test_unknown_and_ambiguous_names_are_said(tmp_path) -> None:
    rows = [{"prompt": "p", "reward": 1, "rewrad_std": 1, "logprobs": [0.0], "epoch": 2}] * 2
    notes = "; ".join(open_run(as_file(tmp_path / "a.jsonl", rows)).notes)
    assert "kept in extra, as no column of the schema: rewrad_std" in notes
    assert "epoch (epoch is a pass over the same batch?)" in notes
    assert "logprobs (logp_sampler, logp_old or logp_theta?)" in notes
    assert values(tmp_path / "a.jsonl", "epoch", "logp_sampler") == [(0, None)] * 2


def test_without_a_step_all_rows_are_one_and_it_is_said(tmp_path) -> None:
    path = as_file(tmp_path / "a.jsonl", [{"prompt": "p", "reward": 1}] * 2)
    assert values(path, "step") == [(0,), (0,)]
    assert any("no step column" in note for note in open_run(path).notes)


def test_a_folder_of_steps_and_a_folder_of_shards(tmp_path) -> None:
    steps, shards = tmp_path / "steps", tmp_path / "shards"
    for folder in (steps, shards):
        folder.mkdir()
    for step in (2, 10):
        rows = [{"prompt": "p", "reward": i} for i in range(4)]
        as_file(steps / f"step_{step}.jsonl", rows)
    for rank in "ab":
        rows = [{"step": 1, "prompt": "p", "uid": "u", "reward": i} for i in range(2)]
        as_file(shards / f"rank-{rank}.jsonl", rows)
    assert values(steps, "step", "reward")[3:5] == [(2, 3.0), (10, 0.0)]
    assert {g for (g,) in values(shards, "group_id")} == {"u"}
    assert sorted(i for (i,) in values(shards, "sample_index")) == [0, 1, 2, 3]


def test_folders_of_other_things_are_no_runs(tmp_path) -> None:
    for name, content in {
        "notes/a.json": '{"name": 1}',
        "table/b.csv": "x,y\n1,2\n",
        "nested/inner/c.jsonl": '{"prompt": "p", "reward": 1}\n',
        "nested/d.jsonl": '{"prompt": "p", "reward": 1}\n',
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    assert [entry.path.name for entry in find_runs(tmp_path)] == ["inner"]


def test_tokens_of_the_prompt_stand_in_for_its_text(tmp_path) -> None:
    rows = [{"prompt_ids": [1, 2, p], "reward": 0, "response_ids": [4]} for p in (7, 7, 8)]
    found = values(as_file(tmp_path / "a.jsonl", rows), "prompt_id", "prompt_length", "token_ids")
    assert found[0] == found[1]
    assert found[0][0] != found[2][0]
    assert found[0][1:] == (3, [4])


def test_a_conversation_is_cut_before_its_first_answer(tmp_path) -> None:
    said = [{"role": r, "content": c} for r, c in (("user", "q"), ("assistant", "a"), ("tool", "t"))]
    path = as_file(tmp_path / "a.jsonl", [{"messages": said, "reward": 1}])
    assert values(path, "prompt", "response") == [("user: q", "assistant: a\ntool: t")]


def test_advantages_of_a_response_and_of_its_tokens(tmp_path) -> None:
    rows = [
        {"prompt": "p", "reward": 1, "advantages": [0.5, 0.5]},
        {"prompt": "p", "reward": 1, "advantages": [0.5, 1.0]},
        {"prompt": "p", "reward": 1, "advantages": -0.5},
        {"prompt": "p", "reward": 1, "advantages": [[0.25, 0.25]]},
    ]
    found = values(as_file(tmp_path / "a.jsonl", rows), "advantage", "token_advantage")
    assert found == [(0.5, [0.5, 0.5]), (None, [0.5, 1.0]), (-0.5, None), (0.25, [0.25, 0.25])]


def test_reasons_to_end_are_told_in_the_schemas_words(tmp_path) -> None:
    said = ["eos", "MAX_TOKENS", "FinishReason.STOP", {"type": "length", "length": 9}, "odd", "", None]
    rows = [{"prompt": "p", "reward": 1, "stop_reason": each} for each in said]
    rows += [{"prompt": "p", "reward": 1, "truncated": True}, {"prompt": "p", "reward": 1, "is_truncated": 0}]
    found = [reason for (reason,) in values(as_file(tmp_path / "a.jsonl", rows), "finish_reason")]
    assert found == ["stop", "length", "stop", "length", "odd", None, None, "length", "stop"]


def test_cells_that_are_cut_long_or_not_utf8_are_counted(tmp_path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b'prompt,reward\np,1\np,1,2\n"multi\nline",2\np,\xff\n\np,"3\n')
    run = open_run(path)
    assert run.num_rows + sum(run.rejected.values()) == 5
    assert values(path, "prompt", "reward")[:2] == [("p", 1.0), ("multi\nline", 2.0)]
    assert run.rejected.keys() >= {"row has more or fewer cells than the header", "line is not UTF-8"}


ARRAYS = st.lists(
    st.dictionaries(
        st.text(max_size=4),
        st.floats() | st.text(max_size=8) | st.lists(st.integers(), max_size=3) | st.none(),
        max_size=3,
    ),
    max_size=6,
)


@given(ARRAYS, st.sampled_from([None, 0, 2]), st.integers(1, 40))
def test_arrays_come_in_whole_whatever_the_size_of_a_piece(objects, indent, piece) -> None:
    import audit.importers.generic.arrays as arrays

    before, arrays.PIECE = arrays.PIECE, piece
    try:
        book = Book()
        text = json.dumps(objects, indent=indent, ensure_ascii=False)
        found = list(array_records(io.BytesIO(text.encode("utf-8", "surrogatepass")), book))
    finally:
        arrays.PIECE = before
    assert json.dumps(found) == json.dumps(objects)
    assert not book.rejected


@given(st.binary(max_size=60))
def test_any_bytes_in_an_array_are_read_or_named(content) -> None:
    book = Book()
    try:
        found = list(array_records(io.BytesIO(b"[" + content), book))
    except BadLog:
        return
    assert all(isinstance(each, dict) for each in found)


def test_a_cut_array_and_what_is_no_record(tmp_path) -> None:
    path = tmp_path / "a.json"
    path.write_text('[{"prompt": "p", "reward": NaN}, 7, {"prompt": "p", "reward": 2}, {"prompt": "p", "rew')
    run = open_run(path)
    assert run.num_rows == 2
    assert sum(run.rejected.values()) == 2
    assert math.isnan(values(path, "reward")[0][0])


@pytest.mark.parametrize(
    "whole",
    [
        {"columns": ["prompt", "reward"], "data": [["p", 1.0], ["q", 2.0]]},
        {"about": "x", "rows": [{"prompt": "p", "reward": 1.0}, {"prompt": "q", "reward": 2.0}]},
        {"prompt": ["p", "q"], "reward": [1.0, 2.0]},
    ],
)
def test_one_object_with_records_in_it(tmp_path, whole) -> None:
    path = tmp_path / "a.json"
    path.write_text(json.dumps(whole))
    assert values(path, "prompt", "reward") == [("p", 1.0), ("q", 2.0)]


@pytest.mark.parametrize(
    "content", [b"", b"null", b"3", b"{", b"[", b"[[[", b"\xff\xfe", b"[" * 10**5, b'{"a":' * 10**5, b"[]"]
)
@pytest.mark.parametrize("name", ["a.json", "a.jsonl", "a.csv", "a.parquet", "a.json.gz"])
def test_junk_is_one_named_problem(tmp_path, name, content) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(BadLog):
        open_run(tmp_path / name)


def test_directories_named_like_files(tmp_path) -> None:
    (tmp_path / "a.jsonl").mkdir()
    with pytest.raises(BadLog):
        open_run(tmp_path / "a.jsonl")


def test_columns_that_were_said_are_taken_before_any_format(tmp_path) -> None:
    rows = [{"input": "p", "output": "a", "score": 0.0, "step": 1, "true_reward": float(i)} for i in range(4)]
    path = as_file(tmp_path / "1.jsonl", rows)
    assert open_run(path).format == "verl"
    (tmp_path / "rlaudit.toml").write_text('[columns]\nreward = "true_reward"\n')
    assert open_run(path).format == "generic"
    assert [r for (r,) in values(path, "reward")] == [0.0, 1.0, 2.0, 3.0]
    (tmp_path / "rlaudit.toml").write_text('format = "verl"\n[columns]\nreward = "true_reward"\n')
    with pytest.raises(BadLog, match="a verl log names its own columns"):
        open_run(path)


def test_several_files_of_a_folder_are_said_to_be_one_run(tmp_path) -> None:
    for name in "ab":
        as_file(tmp_path / f"{name}.jsonl", ROWS)
    assert any("2 files are taken as parts of one run" in note for note in open_run(tmp_path).notes)

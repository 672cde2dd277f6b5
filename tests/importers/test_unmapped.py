"""Logs whose columns nobody has named: refused with both ways to say what they mean, and never lost."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import tomllib
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from synthetic import rollouts, write

from audit.errors import AuditError, MissingColumn
from audit.importers import find_runs, open_run
from audit.importers.generic.heads import head_of
from audit.importers.generic.unmapped import looks_like_rollouts

ROWS = [
    {"it": s, "task_uid": f"q{p}", "task_txt": f"Q{p}?", "answer_txt": "a b", "grade": i / 4, "toks": [1, 2]}
    for s in (0, 1)
    for p in (0, 1)
    for i in range(4)
]
COLUMNS = {"prompt": "task_txt", "reward": "grade", "step": "it"}
KINDS = ("log.parquet", "log.jsonl")


def put(path: Path, rows: list[dict]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def toml(folder: Path, columns: dict[str, str], head: str = "") -> None:
    lines = "".join(f"{name} = {json.dumps(source)}\n" for name, source in columns.items())
    (folder / "rlaudit.toml").write_text(f"{head}\n[columns]\n{lines}")


def refusal(path: Path) -> str:
    with pytest.raises(AuditError) as caught:
        open_run(path)
    return str(caught.value)


def advised(said: str) -> tuple[dict[str, str], str]:
    """The columns of the command that a message shows, and the TOML that it says to write."""
    command = shlex.split(said.split("as in: ")[1].split("; or, ", maxsplit=1)[0])
    pairs = dict(command[i + 1].split("=", 1) for i, word in enumerate(command) if word == "--column")
    return pairs, "\n".join(said.split("with the lines ")[1].rstrip(".)").strip("'").split("' and '"))


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("folder", [False, True])
def test_a_refusal_lists_the_columns_and_what_it_says_to_do_works(tmp_path, name, folder) -> None:
    file = put(tmp_path / "log" / name, ROWS)
    path = file.parent if folder else file
    said = refusal(path)
    assert ", ".join(ROWS[0]) in said
    pairs, written = advised(said)
    assert pairs == COLUMNS
    assert tomllib.loads(written) == {"columns": COLUMNS}
    assert f"rlaudit import {path} DEST --column" in said
    assert f"write {file.parent / 'rlaudit.toml'} " in said
    (file.parent / "rlaudit.toml").write_text(written)
    run = open_run(path)
    assert (run.format, run.num_rows) == ("generic", len(ROWS))
    assert set(run.responses(["reward"])["reward"].to_pylist()) == {0.0, 0.25, 0.5, 0.75}


def test_a_log_of_the_schema_that_lacks_columns_says_so_and_how_to_name_them(tmp_path) -> None:
    rows = [{"step": 0, "prompt_id": "p", "group_id": "g", "rank": i, "reward": 1.0} for i in range(2)]
    said = refusal(put(tmp_path / "log.parquet", rows))
    assert "needs column 'sample_index'" in said
    assert "--column sample_index=NAME" in said


def test_names_of_a_shell_or_of_toml_are_quoted(tmp_path) -> None:
    rows = [{"prompt": "p", "completion": "c", 'grade "; rm -rf x': 1.0}]
    pairs, written = advised(refusal(put(tmp_path / "a b" / "log.jsonl", rows).parent))
    assert pairs == {"reward": 'grade "; rm -rf x'}
    assert tomllib.loads(written) == {"columns": pairs}


@pytest.mark.parametrize("name", KINDS)
def test_rollouts_that_cannot_be_read_are_listed_with_the_reason(tmp_path, name) -> None:
    put(tmp_path / "raw" / name, ROWS)
    put(tmp_path / "good" / "log.jsonl", [{"prompt": "p", "reward": i} for i in range(4)])
    good, raw = find_runs(tmp_path)
    assert (good.path.name, good.error) == ("good", None)
    assert (raw.path, raw.run) == (tmp_path / "raw", None)
    assert isinstance(raw.error, MissingColumn)
    assert str(raw.error) == refusal(tmp_path / "raw")


OTHER = {
    "metrics.parquet": [{"step": 1, "reward_mean": 0.5, "completion_length": 7.5, "kl": 0.1}],
    "progress.jsonl": [{"step": 1, "reward/mean": 0.5, "completions/mean_length": 7.5}],
    "leaderboard.jsonl": [{"model": "m", "task": "gsm8k", "score": 0.5, "stderr": 0.1}],
    "samples.jsonl": [{"doc_id": 1, "target": "4", "resps": [["4"]], "acc": 1.0}],
    "train.parquet": [{"question": "1+1?", "answer": "2"}],
    "pairs.parquet": [{"prompt": "p", "chosen": "a", "rejected": "b", "score_chosen": 1.0}],
    "sft.jsonl": [{"prompt": "p", "completion": "c"}],
}


@pytest.mark.parametrize("name", OTHER)
def test_tables_of_something_else_are_not_listed(tmp_path, name) -> None:
    file = put(tmp_path / "other" / name, OTHER[name])
    assert not looks_like_rollouts(head_of(file))
    assert find_runs(tmp_path) == []


def test_a_table_above_runs_is_listed_and_hides_none(tmp_path) -> None:
    put(tmp_path / "all.parquet", ROWS)
    put(tmp_path / "a" / "log.jsonl", [{"prompt": "p", "reward": i} for i in range(4)])
    assert [(entry.path, entry.run is not None) for entry in find_runs(tmp_path)] == [
        (tmp_path, False),
        (tmp_path / "a", True),
    ]


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("head", ["", 'format = "generic"'])
def test_one_mapping_serves_the_file_its_folder_and_the_folder_above(
    tmp_path, name, head, monkeypatch
) -> None:
    file = put(tmp_path / "runs" / "a" / name, ROWS)
    put(tmp_path / "runs" / "b" / name, ROWS)
    put(tmp_path / "runs" / "evals" / "table.csv.jsonl", [{"model": "m", "accuracy": 0.5}])
    (tmp_path / "runs" / "plots").mkdir()
    toml(tmp_path / "runs", COLUMNS, head)
    for path in (file, file.parent):
        assert (open_run(path).format, open_run(path).num_rows) == ("generic", 16)
    assert [(e.path.name, e.error) for e in find_runs(tmp_path / "runs")] == [("a", None), ("b", None)]
    assert "holds 2 runs, not one: a, b" in refusal(tmp_path / "runs")
    monkeypatch.chdir(file.parent)
    assert open_run(Path(name)).num_rows == open_run(Path()).num_rows == 16


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("head", ["", 'format = "generic"'])
@pytest.mark.parametrize("columns", [{"reward": "grad"}, COLUMNS | {"reward": "grad"}])
@pytest.mark.parametrize("above", [False, True])
def test_a_name_that_is_not_there_is_told_wherever_the_mapping_lies(
    tmp_path, name, head, columns, above
) -> None:
    file = put(tmp_path / "runs" / "a" / name, ROWS)
    toml(tmp_path / "runs" if above else file.parent, columns, head)
    for path in (file, file.parent, tmp_path / "runs"):
        said = refusal(path)
        assert "no record has 'grad', which was declared to be reward. Did you mean 'grade'?" in said
    (entry,) = find_runs(tmp_path / "runs")
    assert "Did you mean 'grade'?" in str(entry.error)


def test_a_mapping_above_leaves_logs_of_other_formats_to_themselves(tmp_path) -> None:
    sample = Path(__file__).parents[2] / "sample_logs" / "trl_completions"
    shutil.copytree(sample, tmp_path / "trl_run")
    put(tmp_path / "mine" / "log.jsonl", ROWS)
    toml(tmp_path, COLUMNS)
    found = {entry.path.name: entry.run and entry.run.format for entry in find_runs(tmp_path)}
    assert found == {"mine": "generic", "trl_run": "trl"}


def test_a_mapping_above_leaves_logs_of_the_schema_to_themselves(tmp_path) -> None:
    run = write(tmp_path / "made", rollouts(steps=2))
    loose = tmp_path / "runs" / "loose"
    loose.mkdir(parents=True)
    shutil.copy(run.files[0].path, loose / "a.parquet")
    put(tmp_path / "runs" / "mine" / "log.parquet", ROWS)
    toml(tmp_path / "runs", COLUMNS)
    found = [(e.path.name, e.run and e.run.format) for e in find_runs(tmp_path / "runs")]
    assert found == [("loose", "rlaudit"), ("mine", "generic")]
    assert open_run(loose).num_rows == open_run(loose / "a.parquet").num_rows == run.num_rows


@pytest.mark.parametrize("name", KINDS)
def test_a_pipe_is_not_waited_for(tmp_path, name) -> None:
    (tmp_path / "runs").mkdir()
    toml(tmp_path, COLUMNS)
    os.mkfifo(tmp_path / "runs" / name)
    assert head_of(tmp_path / "runs" / name) == {}
    for path in (tmp_path / "runs", tmp_path / "runs" / name):
        refusal(path)
    assert find_runs(tmp_path / "runs") == []


def test_a_mapping_renames_columns_of_a_log_of_the_schema_wherever_it_is_opened(tmp_path) -> None:
    run = write(tmp_path / "made", rollouts(steps=2))
    table = pq.read_table(run.files[0].path)
    (tmp_path / "runs" / "a").mkdir(parents=True)
    file = tmp_path / "runs" / "a" / "log.parquet"
    pq.write_table(table.append_column("grade", pa.array([7.0] * table.num_rows)), file)
    opened = [open_run(file), open_run(file.parent), find_runs(tmp_path / "runs")[0].run]
    assert {each.format for each in opened if each} == {"rlaudit"}
    toml(file.parent, {"reward": "grade"})
    opened = [open_run(file), open_run(file.parent), find_runs(tmp_path / "runs")[0].run]
    assert [set(run.responses(["reward"])["reward"].to_pylist()) for run in opened if run] == [{7.0}] * 3


def test_names_that_no_line_can_hold_are_cut_and_not_suggested(tmp_path) -> None:
    rows = [{"prompt": "p", "completion": "c", "score_" + "x" * 10**5: 1.0, "grade\n": 0.5, "n" * 60: 1}]
    said = refusal(put(tmp_path / "log" / "log.jsonl", rows).parent)
    assert f"score_{'x' * 54}…, grade\n, {'n' * 60}. Say" in said
    assert advised(said)[0] == {"reward": "NAME"}
    assert len(said) < 1000

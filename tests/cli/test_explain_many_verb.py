"""``rlaudit explain`` of several runs, of a directory, and of what is neither."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

import jsonschema
import pytest
from synthetic import rollouts, write

from audit.report.schemas import schema_of

TRIO = ("grpo", "dr_grpo", "rloo")


@pytest.fixture(scope="module")
def team(tmp_path_factory):
    root = tmp_path_factory.mktemp("team")
    for seed, name in enumerate(TRIO):
        write(root / name, rollouts(seed=seed, prompts=3, steps=3, epochs=1), name)
    return root


def test_a_directory_stands_for_its_runs_and_what_is_broken_is_said(rlaudit, team, tmp_path) -> None:
    for name in TRIO:
        (tmp_path / name).symlink_to(team / name)
    broken = tmp_path / "broken" / "rollouts"
    broken.mkdir(parents=True)
    (broken / "a.parquet").write_bytes(b"PAR1 cut")
    done = rlaudit("explain", tmp_path)
    assert done.code == 0, done.err
    assert done.out.startswith("3 runs of 3 configurations.")
    assert "broken" in done.out.partition("Skipped")[2]
    named = rlaudit("explain", *(team / name for name in TRIO))
    assert named.out.splitlines()[0] == done.out.splitlines()[0]


def test_json_is_the_contract_and_the_matrix_reconciles(rlaudit, team, tmp_path) -> None:
    done = rlaudit("explain", team, "--json", "-o", tmp_path / "r.json")
    shape = json.loads(done.out)
    jsonschema.validate(shape, schema_of("explain_many"))
    assert shape == json.loads((tmp_path / "r.json").read_text())
    assert shape["schema"] == "rlaudit.explain_many.v1"
    values = shape["objective"]["values"]
    for i, row in enumerate(values):
        assert row[i]["value"] == 0.0
        assert [cell["value"] for cell in row] == [other[i]["value"] for other in values]
    assert sorted(run for group in shape["configurations"] for run in group["runs"]) == sorted(TRIO)
    assert sorted(run for group in shape["clusters"] for run in group["runs"]) == sorted(TRIO)


def test_the_pages_hold_every_run_and_escape_them(rlaudit, team, tmp_path) -> None:
    data = rollouts(seed=8, prompts=3, steps=3, epochs=1)
    write(tmp_path / "odd", data, "grpo", run_id="<b>|x| `y` [z]", config={"note<i>": "<script>"})
    write(tmp_path / "other", data, "dr_grpo", config={"note<i>": "plain"})
    for ending in ("html", "md"):
        page = tmp_path / f"r.{ending}"
        done = rlaudit("explain", tmp_path / "odd", tmp_path / "other", team / "rloo", "-o", page)
        assert done.code == 0, done.err
        assert f"Report written to {page}" in done.out.replace("\n", "")
        text = page.read_text()
        assert "rloo" in text
        if ending == "html":
            shown = text.partition('<details class="raw">')[0]
            assert "<b>" not in shown
            assert "<script" not in text
            assert shown.count("<rect") == 9
            assert "cannot be compared" not in shown
        else:
            assert "<b>" not in re.sub(r"(`+)[^\n]*?[^`]\1(?!`)", "", text)


def test_two_runs_keep_their_contract_also_from_a_directory(rlaudit, team, tmp_path) -> None:
    for name in TRIO[:2]:
        (tmp_path / name).symlink_to(team / name)
    below = rlaudit("explain", tmp_path, "--json")
    assert json.loads(below.out)["schema"] == "rlaudit.explain.v1"
    again = rlaudit("explain", team / "grpo", team / "grpo", "--json")
    assert "same log" in json.loads(again.out)["verdict"]["text"]


def test_a_run_that_is_given_twice_is_compared_once(rlaudit, team) -> None:
    done = rlaudit("explain", team, team / "grpo", "--json")
    (left,) = json.loads(done.out)["left_out"]
    assert left["path"].endswith("grpo")
    assert "more than once" in left["error"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("grpo",), "compares two runs or more"),
        (("grpo", "grpo", "grpo"), "more than once"),
        (("grpo", "dr_grpo", "nowhere"), "no such file or directory"),
    ],
)
def test_what_is_no_comparison_is_one_line(rlaudit, team, arguments, said) -> None:
    done = rlaudit("explain", *(team / one for one in arguments))
    assert done.code == 2
    assert done.out == ""
    assert said in done.err
    assert done.err.count("\n") == 1


def test_a_warm_explanation_imports_neither_torch_nor_pandas(rlaudit, team) -> None:
    pair = [str(team / name) for name in TRIO[:2]]
    assert rlaudit("explain", *pair).code == 0
    script = (
        "import sys; from audit.cli import main\n"
        f"try: main(['explain', *{pair!r}])\n"
        "except SystemExit as end: assert not end.code\n"
        "heavy = {'torch', 'pandas', 'scipy.stats', 'duckdb', 'polars', 'streamlit'} & set(sys.modules)\n"
        "sys.exit(f'imported: {sorted(heavy)}' if heavy else 0)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, env=dict(os.environ)
    )
    assert done.returncode == 0, done.stderr

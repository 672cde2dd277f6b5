"""``rlaudit objectives``: listing, showing, comparing, calculating."""

from __future__ import annotations

import json

import pytest

from audit.objectives.catalogue import CATALOGUE
from audit.objectives.objective import from_dict


def cells(said: str) -> dict[str, list[str]]:
    rows = (line.split("  ") for line in said.splitlines() if line.startswith("  p "))
    parts = ([part.strip() for part in row if part.strip()] for row in rows)
    return {first: rest for first, *rest in parts}


def test_it_lists_shows_and_compares(rlaudit) -> None:
    assert "2402.03300" in rlaudit("objectives").out
    assert "models in memory" in rlaudit("objectives", "--wide").out
    assert "arXiv:2503.14476" in rlaudit("objectives", "dapo").out
    changed = rlaudit("objectives", "grpo", "--set", "scale.ddof=1").out
    assert "changed from the catalogue: scale.ddof" in changed
    assert "seq-mean-token-sum-norm" in rlaudit("objectives", "grpo", "dr_grpo").out
    assert "REINFORCE++" in rlaudit("objectives", "reinforce++-baseline").out


@pytest.mark.parametrize("name", CATALOGUE)
def test_json_of_one_is_its_fields(rlaudit, name) -> None:
    assert from_dict(json.loads(rlaudit("objectives", name, "--json").out)) == CATALOGUE[name].objective


def test_json_of_many_is_a_list(rlaudit) -> None:
    assert len(json.loads(rlaudit("objectives", "--json").out)) == len(CATALOGUE)
    assert [o["name"] for o in json.loads(rlaudit("objectives", "grpo", "rloo", "--json").out)] == [
        "grpo",
        "rloo",
    ]


def test_a_file_of_fields_is_an_objective(rlaudit, tmp_path) -> None:
    out = rlaudit("objectives", "grpo", "--set", "scale.kind=none", "--set", "name=mine", "--json").out
    (tmp_path / "mine.json").write_text(out)
    made = rlaudit("objectives", tmp_path / "mine.json", "--factor", "--rate", "0.5")
    assert cells(made.out) == {"p = 0.5": ["0.88"]}


def test_the_prompt_factor_of_grpo(rlaudit) -> None:
    rows = cells(rlaudit("objectives", "grpo", "--factor", "--group-size", "8").out)
    assert (rows["p = 0.5"], rows["p → 0"]) == (["1.86"], ["2.65"])
    ddof = rlaudit("objectives", "grpo", "--factor", "--group-size", 8, "--set", "scale.ddof=1").out
    assert (cells(ddof)["p = 0.5"], cells(ddof)["p → 0"]) == (["1.74"], ["2.47"])
    rloo = cells(rlaudit("objectives", "rloo", "--factor", "--group-size", 8).out)
    assert set(map(tuple, rloo.values())) == {("1.00",)}


def test_groups_without_signal(rlaudit) -> None:
    rates = [option for p in (0.02, 0.71, 0.44) for option in ("--rate", p)]
    done = rlaudit("objectives", "--zero-signal", "--group-size", 8, *rates)
    assert cells(done.out) == {"p = 0.02": ["85.1 %"], "p = 0.71": ["6.5 %"], "p = 0.44": ["1.1 %"]}


def test_numbers_as_json(rlaudit) -> None:
    done = rlaudit("objectives", "grpo", "rloo", "--factor", "--rate", 0, "--json")
    columns = json.loads(done.out)["columns"]
    assert [column["objective"] for column in columns] == ["grpo", "rloo"]
    assert columns[0]["rows"][0]["factor"] == pytest.approx(7**0.5)
    batch = json.loads(rlaudit("objectives", "grpo", "--effective-batch", "--json").out)["columns"][0]["rows"]
    assert 0 < batch["effective_responses"] < batch["live_responses"]
    beta = json.loads(rlaudit("objectives", "grpo", "--effective-beta", "--json").out)["columns"][0]["rows"]
    assert all(0 < row["beta"] < 0.04 for row in beta)


@pytest.mark.parametrize("kind", ["--factor", "--zero-signal", "--effective-batch", "--effective-beta"])
def test_a_chart_is_written(rlaudit, tmp_path, kind) -> None:
    out = tmp_path / "c.json"
    done = rlaudit("objectives", "grpo", kind, "-o", out)
    assert done.code == 0, done.err
    assert done.out.endswith(f"Chart written to {out}\n")
    spec = json.loads(out.read_text())
    points = max(map(len, spec["datasets"].values()))
    assert points == (8 if kind == "--effective-batch" else 101 * (5 if kind == "--zero-signal" else 1))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--factor",), "--factor needs an objective"),
        (("gpg", "--factor"), "gpg: scale.kind 'alive_share' is taken over the batch"),
        (("ppo", "--effective-batch"), "ppo: advantages come from the log"),
        (("rloo", "--effective-beta"), "rloo has no KL to the reference"),
        (("grpo", "--factor", "--zero-signal"), "ask for one at a time"),
        (("grpo", "--factor", "--rate", "1.5"), "1.5 is not a success rate"),
        (("grpo", "--factor", "--rate", "nan"), "nan is not a success rate"),
        (("grpo", "--factor", "--group-size", "1"), "--group-size must be at least 2"),
        (("grpo", "--factor", "--group-size", "-3"), "--group-size must be at least 2"),
        (("grpo", "--factor", "--reward", "1"), "--reward 1: expected VALUE:PROBABILITY"),
        (("grpo", "--factor", "--reward", "a:b"), "--reward a:b: expected VALUE:PROBABILITY"),
        (("grpo", "--factor", "--reward", "1:nan"), "sum to 1"),
        (("grpo", "--factor", "--reward", "nan:0.5", "--reward", "1:0.5"), "rewards must be finite"),
        (("grpo", "--factor", "--reward", "1:0.5"), "sum to 1, not 0.5"),
        (("grpo", "--zero-signal", "--reward", "1:1"), "--reward describes the prompt of --factor"),
        (("grpo", "--group-size", "8"), "go with --factor"),
        (("grpo", "-o", "x.svg"), "go with --factor"),
        (("--set", "scale.ddof=1"), "--set changes an objective: name one"),
        (("grpo", "--factor", "-o", "x.pdf"), "must end in .svg or .png or .html or .json"),
        (("gspoo", "--factor"), "Did you mean 'gspo'"),
    ],
)
def test_what_makes_no_sense_is_one_line(rlaudit, tmp_path, monkeypatch, arguments, said) -> None:
    monkeypatch.chdir(tmp_path)
    done = rlaudit("objectives", *arguments)
    assert (done.code, done.out) == (2, "")
    assert said in done.err
    assert done.err.count("\n") == 1
    assert not list(tmp_path.iterdir())

"""Bad input is one line on stderr that says what is wrong, and exit code 2; never a traceback."""

from __future__ import annotations

import json
import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest


def refused(done, *said: str) -> None:
    assert done.code == 2
    assert done.out == ""
    assert done.err.startswith("rlaudit: ")
    assert done.err.count("\n") == 1
    for text in said:
        assert text in done.err


@pytest.mark.parametrize("verb", ["summary", "check", "length"])
def test_a_missing_path(rlaudit, verb) -> None:
    refused(rlaudit(verb, "no/such/run"), "no/such/run: no such file or directory")


def test_a_text_file_named_parquet(rlaudit, tmp_path) -> None:
    (tmp_path / "x.parquet").write_text("step,reward\n1,1\n")
    refused(rlaudit("summary", tmp_path / "x.parquet"), "x.parquet", "not Parquet")


def test_a_log_without_rewards_names_the_closest_column(rlaudit, tmp_path) -> None:
    columns = {"step": [1], "prompt_id": ["p"], "group_id": ["g"], "sample_index": [0], "rewards": [1.0]}
    pq.write_table(pa.table(columns), tmp_path / "x.parquet")
    refused(rlaudit("check", tmp_path / "x.parquet"), "column 'reward'", "Did you mean 'rewards'?")


def test_an_empty_directory(rlaudit, tmp_path) -> None:
    refused(rlaudit("summary", tmp_path), "no readable Parquet file")


def test_names_with_quotes_and_brackets_work(rlaudit, runs, tmp_path) -> None:
    odd = tmp_path / "it's run[1] *?#"
    shutil.copytree(runs / "grpo-1", odd)
    (odd / "run.json").unlink()
    for verb in ("summary", "check"):
        done = rlaudit(verb, odd)
        assert done.code == 0
        assert "it's run[1] *?#" in done.out
    assert rlaudit("explain", odd, runs / "dr-1").code == 0


def test_a_name_that_is_not_utf8_is_refused_or_read(rlaudit, runs, tmp_path) -> None:
    odd = tmp_path / "run\udcff"
    try:
        shutil.copytree(runs / "grpo-1", odd)
    except (OSError, UnicodeError):
        pytest.skip("this file system takes only UTF-8 names")
    done = rlaudit("summary", odd)
    assert done.code in {0, 2}
    assert "Traceback" not in done.err


def test_control_characters_of_a_bad_manifest_do_not_reach_the_terminal(rlaudit, runs, tmp_path) -> None:
    shutil.copytree(runs / "grpo-1", tmp_path / "run")
    (tmp_path / "run" / "run.json").write_text(
        '{"schema": "rlaudit.run.v1", "run_id": "x", "objective": "\\u001b[2J\\u202e"}'
    )
    refused(rlaudit("weights", tmp_path / "run", "-o", tmp_path / "w.parquet"), "\\x1b[2J\\u202e")
    for verb in ("length", "clipping", "groups"):
        said = rlaudit(verb, tmp_path / "run").out
        assert "\\x1b[2J\\u202e" in said
        assert "\x1b" not in said


def test_an_unknown_objective_gets_a_suggestion(rlaudit, runs) -> None:
    refused(rlaudit("objectives", "gpro"), "unknown objective 'gpro'", "Did you mean", "'grpo'?")
    refused(rlaudit("length", runs / "grpo-1", "--objective", "dr-grp"), "Did you mean 'dr_grpo'")
    refused(rlaudit("length", runs / "grpo-1", "--objective", "gone.json"), "gone.json")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("scale.dof=1", "Did you mean 'ddof'?"),
        ("scale.ddof", "expected FIELD=VALUE"),
        ("scale.ddof=2", "scale.ddof"),
        ("kl.loss.coefficient=-1", "kl.loss.coefficient"),
        ("kl=3", "object"),
        ("=3", "--set"),
        ("scale.kind.deeper=1", "scale.kind"),
    ],
)
def test_a_wrong_change_names_the_field(rlaudit, change, said) -> None:
    refused(rlaudit("objectives", "grpo", "--set", change), said)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("r.pdf", "must end in .html or .md or .json"),
        ("r", "must end in .html"),
        ("gone/r.html", "no such directory"),
    ],
)
def test_a_report_in_an_impossible_place_is_refused_before_any_work(rlaudit, tmp_path, name, said) -> None:
    refused(rlaudit("explain", "no/run", "no/run", "-o", tmp_path / name), said)


def test_weights_without_a_reference_are_refused_with_the_setting_that_makes_them(rlaudit, tmp_path) -> None:
    row = {
        "prompt": "p",
        "step": 0,
        "token_ids": [1, 2],
        "logp_theta": [-0.5, -1.0],
        "logp_old": [-0.5, -1.0],
    }
    log = tmp_path / "log.jsonl"
    log.write_text("".join(json.dumps(row | {"reward": reward}) + "\n" for reward in (0, 1)))
    command = ("weights", log, "--objective", "grpo", "-o", tmp_path / "w.parquet")
    advised = "--set kl.loss=null"
    refused(
        rlaudit(*command),
        f"needs column 'logp_ref', which this log does not have. Or leave the KL out: {advised}.",
    )
    done = rlaudit(*command, *advised.split())
    assert (done.code, done.err) == (0, "")


def test_weights_in_an_impossible_place_are_refused(rlaudit, runs, tmp_path) -> None:
    refused(rlaudit("weights", runs / "grpo-1", "-o", tmp_path), "is a directory")
    refused(rlaudit("weights", runs / "grpo-1", "-o", tmp_path / "gone" / "w.parquet"), "no such directory")
    refused(rlaudit("weights", runs / "grpo-1", "-o", tmp_path / "w.json"), "must end in .parquet")


def test_a_verb_that_needs_a_declared_objective_says_what_to_give(rlaudit, runs, tmp_path) -> None:
    refused(rlaudit("weights", runs / "bare", "-o", tmp_path / "w.parquet"), "--objective")
    assert "--objective" in rlaudit("length", runs / "bare").out


def test_the_dashboard_wants_a_directory(rlaudit, tmp_path) -> None:
    refused(rlaudit("dashboard", tmp_path / "gone"), "not a directory")


@pytest.mark.parametrize("arguments", [("nonsense",), ("check",), ("check", "x", "--fail-on", "never")])
def test_wrong_usage_is_exit_code_2(rlaudit, arguments) -> None:
    done = rlaudit(*arguments)
    assert done.code == 2
    assert "Traceback" not in done.err


def test_a_cut_file_says_what_to_do(rlaudit, runs, tmp_path) -> None:
    whole = next((runs / "grpo-1").rglob("*.parquet")).read_bytes()
    (tmp_path / "cut.parquet").write_bytes(whole[: len(whole) // 2])
    refused(rlaudit("summary", tmp_path), "1 file: being written", "or was cut: copy it again")

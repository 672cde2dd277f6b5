"""groups, prompts, rewards, staleness: on every sample log, and on logs that lack a column."""

from __future__ import annotations

import json
import random
from pathlib import Path

import jsonschema
import pytest
from loose import write_loose
from synthetic import rollouts, standardised, with_advantages, write

from audit.report.schemas import schema_of

VERBS = ("groups", "prompts", "rewards", "staleness")
SAMPLES = Path(__file__).parents[2] / "sample_logs"
LOGS = [SAMPLES / "trl_completions", *sorted((SAMPLES / "team").iterdir())]
WITH_OBJECTIVE = ("groups", "prompts", "staleness")


def full_rows(**options) -> list[dict]:
    """Rows with every column that a breakdown looks at."""
    rng = random.Random(4)
    data = with_advantages(rollouts(**options), standardised(0, 0.0))
    for row in data:
        row["logp_sampler"] = [x - 0.01 for x in row["logp_old"]]
        row["correct"] = row["reward"] > 0.5
        row["reward_components"] = {"accuracy": row["reward"], "format": float(rng.random() < 0.5)}
        row["policy_version"] = row["update"]
        row["sampler_version"] = row["update"] - row["epoch"]
        row["turn"], row["trajectory_id"] = 0, f"{row['group_id']}/{row['sample_index']}"
        row["prompt_length"] = 9
    return data


COLUMNS = sorted(full_rows(steps=1)[0])
SHOWN = ("correct", "length", "logp_theta", "prompt", "reward", "reward_components", "step")
"""Columns without which a page looks different."""
REQUIRED = ("group_id", "prompt_id", "reward", "sample_index", "step")


def contract(done, verb: str) -> dict:
    assert done.code == 0, done.err
    shape = json.loads(done.out)
    jsonschema.Draft202012Validator(schema_of(verb)).validate(shape)
    return shape


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("log", LOGS, ids=lambda log: log.name)
def test_every_sample_log_gives_text_and_the_contract(rlaudit, verb, log) -> None:
    if log.name in ("trl_completions", "grpo-seed1", "dapo-seed1", "rloo-seed1"):
        contract(rlaudit(verb, log, "--json"), verb)
    said = rlaudit(verb, log)
    assert said.code == 0
    assert log.name in said.out
    assert max(map(len, said.out.splitlines())) <= 100


@pytest.fixture(scope="session")
def lacking(tmp_path_factory) -> dict[str, Path]:
    """One log for each column, without it."""
    root, data = tmp_path_factory.mktemp("lacking"), full_rows(steps=2)
    for column in COLUMNS:
        if column in REQUIRED:
            write_loose(root / column, [row | {column: None} for row in data], objective="grpo")
        else:
            write(root / column, [{k: v for k, v in row.items() if k != column} for row in data], "grpo")
    return {column: root / column for column in COLUMNS}


@pytest.mark.parametrize("verb", VERBS)
def test_without_one_column_there_is_a_result_or_the_column_is_named(rlaudit, verb, lacking) -> None:
    for column, path in lacking.items():
        done = rlaudit(verb, path, "--json")
        if done.code == 2:
            assert column in ("group_id", "prompt_id")
            assert done.err.count("\n") == 1
            assert f"'{column}'" in done.err
            continue
        contract(done, verb)
        if column in SHOWN:
            assert rlaudit(verb, path).code == 0


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize(
    "keep", [("step", "prompt_id", "group_id", "sample_index", "reward"), ("response",), ("length",)]
)
def test_the_poorest_logs_give_a_result(rlaudit, verb, keep, tmp_path) -> None:
    data = [{k: row[k] for k in {*REQUIRED, *keep}} for row in full_rows(steps=2, epochs=1)]
    write(tmp_path / "run", data)
    assert contract(rlaudit(verb, tmp_path / "run", "--json"), verb)["skipped"]
    assert "needs" in rlaudit(verb, tmp_path / "run").out


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize(
    "rewards", [[None], [float("nan"), 1.0], [1.0], [float("inf"), 0.0], [0.1, 0.2, 0.3]]
)
def test_odd_rewards_give_a_result(rlaudit, verb, rewards, tmp_path) -> None:
    data = full_rows(steps=2)
    for at, row in enumerate(data):
        row["reward"] = rewards[at % len(rewards)]
    write(tmp_path / "run", data, "grpo")
    contract(rlaudit(verb, tmp_path / "run", "--json"), verb)
    assert rlaudit(verb, tmp_path / "run").code == 0


@pytest.mark.parametrize("verb", VERBS)
def test_a_single_response_gives_a_result(rlaudit, verb, tmp_path) -> None:
    write(tmp_path / "run", full_rows(steps=1, groups=1, size=1, epochs=1), "grpo")
    contract(rlaudit(verb, tmp_path / "run", "--json"), verb)
    assert rlaudit(verb, tmp_path / "run").code == 0


@pytest.mark.parametrize("verb", WITH_OBJECTIVE)
def test_another_objective_may_be_asked_for_and_changed(rlaudit, verb, tmp_path) -> None:
    write(tmp_path / "run", full_rows(steps=3), "grpo")
    own = contract(rlaudit(verb, tmp_path / "run", "--json"), verb)
    other = contract(rlaudit(verb, tmp_path / "run", "--objective", "rloo", "--json"), verb)
    changed = contract(rlaudit(verb, tmp_path / "run", "--set", "clip.epsilon_low=0.01", "--json"), verb)
    assert (own["objective"], other["objective"]) == ("grpo", "rloo")
    assert changed["objective"] == "grpo"
    assert rlaudit(verb, tmp_path / "run", "--objective", "grp").code == 2


@pytest.mark.parametrize("verb", VERBS)
def test_what_a_log_says_is_shown_and_never_acts(rlaudit, verb, tmp_path) -> None:
    hostile = "[red]x[/]\x1b[2J\u202e<img>"
    data = full_rows(steps=3)
    for row in data:
        row["prompt"] = row["prompt_id"] = f"{hostile}{row['prompt_id']}"
        row["reward_components"] = {hostile: row["reward"], f"{hostile}2": row["reward"] / 2}
    write(tmp_path / "run", data, "grpo", run_id=hostile)
    said = rlaudit(verb, tmp_path / "run")
    assert said.code == 0
    assert "\x1b" not in said.out
    assert "\u202e" not in said.out
    assert "[red]x[/]" in said.out


def test_group_sizes_that_are_asked_for_are_estimated(rlaudit, tmp_path) -> None:
    write(tmp_path / "run", full_rows(steps=3), "grpo")
    done = rlaudit("groups", tmp_path / "run", "--group-size", "3", "--group-size", "4096", "--json")
    sizes = contract(done, "groups")["by_size"]
    assert [each["group_size"] for each in sizes] == [3, 4096]
    assert sizes[0]["share"]["value"] is not None
    assert sizes[1]["share"] == {"value": None, "low": None, "high": None, "n": 0}
    assert rlaudit("groups", tmp_path / "run", "--group-size", "1").code == 2


def test_top_bounds_the_list_of_prompts(rlaudit, tmp_path) -> None:
    write(tmp_path / "run", full_rows(steps=6), "grpo")
    for top in (0, 2):
        shape = contract(rlaudit("prompts", tmp_path / "run", "--top", top, "--json"), "prompts")
        assert len(shape["heaviest"]) == top


@pytest.mark.parametrize("verb", VERBS)
def test_a_chart_is_written_beside_the_text_and_never_into_a_log(rlaudit, verb, tmp_path) -> None:
    write(tmp_path / "run", full_rows(steps=4), "grpo")
    done = rlaudit(verb, tmp_path / "run", "-o", tmp_path / "c.json")
    assert done.out.endswith(f"Chart written to {tmp_path / 'c.json'}\n")
    assert json.loads((tmp_path / "c.json").read_text())["$schema"].startswith("https://vega.github.io")
    for bad in (tmp_path / "run" / "c.json", tmp_path / "c.pdf"):
        assert rlaudit(verb, tmp_path / "run", "-o", bad).code == 2
        assert not bad.exists()


@pytest.mark.parametrize("verb", VERBS)
def test_a_file_that_is_cut_short_is_named(rlaudit, verb, tmp_path) -> None:
    write(tmp_path / "run", full_rows(steps=3), "grpo")
    whole = next((tmp_path / "run" / "rollouts").glob("*.parquet"))
    (tmp_path / "run" / "rollouts" / "half.parquet").write_bytes(whole.read_bytes()[:3000])
    done = rlaudit(verb, tmp_path / "run")
    assert done.code == 0
    assert "half.parquet was left out: being written" in " ".join(done.out.split())
    assert any(
        "half.parquet" in note for note in contract(rlaudit(verb, tmp_path / "run", "--json"), verb)["notes"]
    )

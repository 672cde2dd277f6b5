"""The JSON contracts: schemas are current, and real output follows them."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any, get_args, get_type_hints

import jsonschema
import msgspec
import pytest
from hostile_text import HOSTILE
from synthetic import rollouts, write

from audit.analyses.check import check
from audit.analyses.clip_curve import clip_curve
from audit.analyses.directory import summarise_path
from audit.analyses.explain import explain
from audit.analyses.group_view import group_view
from audit.analyses.length import length_bias
from audit.analyses.length_course import length_courses
from audit.analyses.length_ecdf import length_distributions
from audit.analyses.metric_curves import metric_curves
from audit.analyses.one_step import one_step
from audit.analyses.prompt_course import prompt_course
from audit.analyses.prompt_responses import prompt_responses
from audit.analyses.prompt_tables import Column, Table
from audit.analyses.run_overview import run_overview
from audit.analyses.weight_shifts import weight_shifts
from audit.cli import main
from audit.cli.report import measured
from audit.errors import AuditError
from audit.facts.chosen import chosen_objective
from audit.facts.rows import RunRows
from audit.facts.step_rows import step_rows, steps_of
from audit.importers import open_run
from audit.logs import Run
from audit.objectives.catalogue import named
from audit.report.as_json import as_json
from audit.report.run_report import run_report
from audit.report.schemas import CONTRACTS, SHOWN, schema_of, schema_text, write_schemas
from audit.stats import Estimate


def valid(verb: str, result: object) -> None:
    validator = jsonschema.Draft202012Validator(schema_of(verb))
    validator.validate(json.loads(as_json(result)))


@pytest.mark.parametrize("verb", CONTRACTS | SHOWN)
def test_the_committed_schema_is_current(verb) -> None:
    held = (files("audit.schemas") / f"{verb}.v1.schema.json").read_text(encoding="utf-8")
    assert held == schema_text(verb), "stale: run python -m audit.report.schemas"
    jsonschema.Draft202012Validator.check_schema(json.loads(held))


def test_writing_them_gives_one_file_a_contract(tmp_path) -> None:
    names = [f"{name}.v1.schema.json" for name in CONTRACTS | SHOWN]
    assert [path.name for path in write_schemas(tmp_path)] == names
    held = {path.name for path in files("audit.schemas").iterdir() if path.name.endswith(".schema.json")}
    assert held == {*names, "run.v1.schema.json"}


def test_output_of_full_and_of_poor_logs_follows_the_schemas(tmp_path, explanation) -> None:
    poor = [
        {key: row[key] for key in ("step", "prompt_id", "group_id", "sample_index", "reward")}
        for row in rollouts(steps=3, epochs=1)
    ]
    full, bare = write(tmp_path / "full", rollouts(), "grpo"), write(tmp_path / "bare", poor)
    for result in (explanation, explain(full, bare), explain(bare, bare)):
        valid("explain", result)
    for path in (full.path, bare.path, tmp_path):
        valid("summary", summarise_path(path))
    for run in (full, bare):
        valid("check", check(run))
    rows = RunRows.read(full)
    valid("length", length_bias(rows, *chosen_objective(rows, None)))


@pytest.fixture(scope="module", params=["all columns", "lengths", "rewards", "sample log", "overflow"])
def run(request, tmp_path_factory) -> Run:
    """A log of tier 5, of tier 2, of tier 1, one that a trainer wrote, and one of rewards without end."""
    if request.param == "sample log":
        return open_run(Path(__file__).parents[2] / "sample_logs" / "testbed" / "grpo-seed0")
    rows = rollouts(steps=3)
    kept = ["step", "prompt_id", "group_id", "sample_index", "reward"]
    if request.param in ("lengths", "rewards"):
        kept += ["length", "correct"] if request.param == "lengths" else []
        rows = [{key: row[key] for key in kept if key in row} for row in rows]
    if request.param == "overflow":
        for row in rows:
            row["reward"] = row["reward"] * 1e308
    return write(tmp_path_factory.mktemp("logs") / "run", rows, "grpo")


def test_every_section_of_a_report_follows_the_schema_of_its_verb(run) -> None:
    made = [section for section in run_report([run], measure=measured).sections if section.failed is None]
    assert {"summary", "check", "groups"} <= {section.section for section in made}
    for section in made:
        valid(section.section, section.result)
        assert section.result.schema == f"rlaudit.{section.section}.v1"


def test_what_the_dashboard_draws_follows_its_schema(run) -> None:
    rows = RunRows.read(run)
    grpo, dr_grpo = named("grpo"), named("dr_grpo")
    step = step_rows(rows, steps_of(rows)[0])
    with run.connect() as connection:
        [[prompt]] = connection.execute("SELECT min(prompt_id) FROM rollouts").fetchall()
    made: dict[str, Callable[[], Any]] = {
        "clip_curve": lambda: clip_curve(rows, grpo),
        "group_view": lambda: group_view(step, step.groups[0], {"grpo": grpo}),
        "length_courses": lambda: length_courses(rows),
        "length_distributions": lambda: length_distributions(rows),
        "metric_curves": lambda: metric_curves(rows),
        "one_step": lambda: one_step(step, grpo, dr_grpo),
        "prompt_course": lambda: prompt_course(run, prompt),
        "prompt_responses": lambda: prompt_responses(run, prompt),
        "run_overview": lambda: run_overview(run),
        "weight_shifts": lambda: weight_shifts([rows], grpo, dr_grpo),
    }
    assert made.keys() == SHOWN.keys()
    told = set()
    for name, measure in made.items():
        try:
            valid(name, measure())
        except AuditError:
            continue
        told.add(name)
    assert {"group_view", "metric_curves", "prompt_course", "prompt_responses", "run_overview"} <= told
    if run.tier >= 5:
        assert told == SHOWN.keys()


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("objectives", ["objectives"]),
        ("objectives", ["objectives", "grpo"]),
        ("objective_tables", ["objectives", "grpo", "rloo", "--factor"]),
        ("objective_tables", ["objectives", "grpo", "--factor", "--reward", "0:0.5", "--reward", "2:0.5"]),
        ("objective_tables", ["objectives", "--zero-signal"]),
        ("objective_tables", ["objectives", "grpo", "--effective-beta"]),
        ("objective_tables", ["objectives", "grpo", "--effective-batch"]),
        ("dialect", ["dialect"]),
        ("dialect", ["dialect", "trl", "--version", "1.0.0"]),
        ("dialect", ["dialect", "trl", "--from", "0.15.2", "--to", "1.0.0"]),
        ("formats", ["import", "--formats"]),
    ],
)
def test_verbs_without_a_run_follow_their_schemas(name, arguments, capsys) -> None:
    with pytest.raises(SystemExit) as ended:
        main([*arguments, "--json"])
    assert ended.value.code == 0
    jsonschema.Draft202012Validator(schema_of(name)).validate(json.loads(capsys.readouterr().out))


def test_tables_have_the_fields_of_what_is_printed() -> None:
    for table in CONTRACTS["objective_tables"]:
        assert table.__struct_fields__ == Table.__struct_fields__
        column = get_args(get_type_hints(table)["columns"])[0]
        assert column.__struct_fields__ == Column.__struct_fields__


def test_a_schema_names_its_version_and_refuses_another(explanation) -> None:
    shape = json.loads(as_json(explanation))
    assert shape["schema"] == "rlaudit.explain.v1"
    validator = jsonschema.Draft202012Validator(schema_of("explain"))
    assert not validator.is_valid(shape | {"schema": "rlaudit.explain.v2"})
    del shape["verdict"]
    assert not validator.is_valid(shape)


def test_json_holds_nothing_that_acts_and_means_the_same() -> None:
    text = as_json({"id": HOSTILE + "é😀\x7f"})
    assert json.loads(text) == {"id": HOSTILE + "é😀\x7f"}
    assert "é😀" in text
    assert text.replace("\n", "").isprintable()


def test_nan_and_infinity_are_null(explanation) -> None:
    lost = Estimate(float("nan"), float("-inf"), float("inf"), 0)
    assert json.loads(as_json(lost)) == {"value": None, "low": None, "high": None, "n": 0}
    effect = msgspec.structs.replace(explanation.effects[0], distance=lost)
    valid("explain", msgspec.structs.replace(explanation, effects=[effect]))

"""The JSON contracts: schemas are current, and real output follows them."""

from __future__ import annotations

import json
from importlib.resources import files

import jsonschema
import msgspec
import pytest
from hostile_text import HOSTILE
from synthetic import rollouts, write

from audit.analyses.check import check
from audit.analyses.directory import summarise_path
from audit.analyses.explain import explain
from audit.analyses.length import length_bias
from audit.facts.chosen import chosen_objective
from audit.facts.rows import RunRows
from audit.report.as_json import as_json
from audit.report.schemas import CONTRACTS, schema_of, schema_text, write_schemas
from audit.stats import Estimate


def valid(verb: str, result: object) -> None:
    validator = jsonschema.Draft202012Validator(schema_of(verb))
    validator.validate(json.loads(as_json(result)))


@pytest.mark.parametrize("verb", CONTRACTS)
def test_the_committed_schema_is_current(verb) -> None:
    held = (files("audit.schemas") / f"{verb}.v1.schema.json").read_text(encoding="utf-8")
    assert held == schema_text(verb), "stale: run python -m audit.report.schemas"
    jsonschema.Draft202012Validator.check_schema(json.loads(held))


def test_writing_them_gives_one_file_a_verb(tmp_path) -> None:
    assert [path.name for path in write_schemas(tmp_path)] == [f"{verb}.v1.schema.json" for verb in CONTRACTS]


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

"""The contract on disk and what the package derives from it."""

import json
import re
from importlib import resources

import jsonschema
import msgspec
import pyarrow as pa
import pytest

from audit.errors import BadManifest
from audit.logs.manifest import Manifest, manifest_from_dict, manifest_to_dict
from audit.objectives.objective import PARTS
from audit.schema import (
    BY_NAME,
    COLUMNS,
    KEY,
    LOG_PROBS,
    REQUIRED,
    TIERS,
    TOKEN_LISTS,
    Problem,
    arrow_schema,
    tier_of,
)

FILES = resources.files("audit.schemas")
README = FILES.joinpath("README.md").read_text(encoding="utf-8")
RUN_SCHEMA = json.loads(FILES.joinpath("run.v1.schema.json").read_text(encoding="utf-8"))

TIER_1 = {"step", "prompt_id", "group_id", "sample_index", "reward"}
TIER_2 = TIER_1 | {"length"}
TIER_3 = TIER_2 | {"advantage"}
TIER_4 = TIER_3 | {"logp_theta", "logp_old"}
TIER_5 = TIER_4 | {"logp_ref"}
TIER_6 = TIER_5 | {"sampler_version"}


def test_arrow_schema_follows_the_contract():
    schema = arrow_schema()
    assert schema.names == [column.name for column in COLUMNS]
    assert schema.field("reward").type == pa.float64()
    assert schema.field("reward").nullable
    assert not schema.field("step").nullable
    assert schema.field("logp_theta").type == pa.list_(pa.float32())
    assert schema.field("created_at").type == pa.timestamp("us", tz="UTC")


def test_named_sets_are_made_of_columns():
    assert set(KEY) <= set(BY_NAME)
    assert set(REQUIRED) == TIER_1
    assert {"token_ids", "loss_mask", "value"} <= set(TOKEN_LISTS)
    assert LOG_PROBS == ("logp_theta", "logp_old", "logp_ref", "logp_sampler")
    for tier in TIERS:
        assert {*tier.all, *tier.any} <= set(BY_NAME)


def test_only_optional_columns_have_a_default():
    assert {c.name: c.default for c in COLUMNS if c.default is not None} == {"epoch": 0, "is_greedy": False}
    assert not any(c.required for c in COLUMNS if c.default is not None)


@pytest.mark.parametrize(
    ("columns", "tier"),
    [
        (set(), 0),
        (TIER_1, 1),
        (TIER_2, 2),
        (TIER_1 | {"response"}, 2),
        (TIER_1 | {"token_ids"}, 3),
        (TIER_3, 3),
        (TIER_4, 4),
        (TIER_4 - {"logp_old"}, 3),
        (TIER_5, 5),
        (TIER_6, 6),
        (TIER_6 - {"logp_ref"}, 4),
        (TIER_6 - {"reward"}, 0),
        (TIER_6 - {"length"}, 1),
    ],
)
def test_a_tier_needs_all_tiers_below(columns, tier):
    assert tier_of(columns) == tier


def test_problem_has_the_fields_of_the_check_contract():
    problem = msgspec.to_builtins(Problem(id="reward.nan", severity="error", summary="…", steps=(1, 2)))
    assert set(problem) == {
        "id", "severity", "column", "rows", "steps", "summary", "certainty", "hint",
    }  # fmt: skip
    assert msgspec.json.decode(msgspec.json.encode(problem))["steps"] == [1, 2]


def table_rows(first_cell):
    """Rows of the Markdown table in the README whose head starts with ``first_cell``, as lists of cells."""
    lines = README.split(f"| {first_cell} |", 1)[1].splitlines()[2:]
    rows = []
    for line in lines:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("|").split("|")])
    return rows


def test_readme_lists_every_column_as_the_contract_has_it():
    expected = []
    for c in COLUMNS:
        status = "required, may be null" if c.nullable else "required"
        if not c.required:
            status = "" if c.default is None else f"default {json.dumps(c.default)}"
        meaning = c.meaning + (f" ({c.unit})" if c.unit else "")
        expected.append([f"`{c.name}`", c.type, status, meaning])
    assert table_rows("column") == expected


def test_readme_lists_every_tier_as_the_contract_has_it():
    rows = table_rows("tier")
    assert [(row[0], row[1]) for row in rows] == [(str(t.tier), t.name) for t in TIERS]
    for row, tier in zip(rows, TIERS, strict=True):
        assert re.findall(r"`(\w+)`", row[2]) == [*tier.all, *tier.any]
        assert (" or " in row[2]) == (len(tier.any) > 1)


def test_readme_example_is_a_valid_run_json():
    example = json.loads(re.search(r"```json\n(.*?)```", README, re.DOTALL)[1])
    jsonschema.validate(example, RUN_SCHEMA, cls=jsonschema.Draft202012Validator)
    manifest = manifest_from_dict(example)
    assert manifest.unknown == ()
    assert manifest_to_dict(manifest) == example


def test_readme_example_writes_a_log_that_opens(tmp_path, monkeypatch):
    from audit.logs import open_run, validate

    monkeypatch.chdir(tmp_path)
    exec(re.search(r"```python\n(import os.*?)```", README, re.DOTALL)[1], {})
    run = open_run("my_run")
    assert (run.num_rows, run.tier) == (4, 4)
    assert [p.id for p in validate(run)] == ["manifest.absent"]


def test_run_schema_is_itself_valid_and_knows_every_field():
    jsonschema.Draft202012Validator.check_schema(RUN_SCHEMA)
    fields = set(Manifest.__struct_fields__) - {"declared", "unknown"}
    assert set(RUN_SCHEMA["properties"]) == fields
    assert set(RUN_SCHEMA["$defs"]["objective"]["properties"]) == {"name", *PARTS}


@pytest.mark.parametrize(
    ("change", "valid"),
    [
        ({}, True),
        ({"objective": "grpo"}, True),
        ({"objective": {"name": "grpo", "scale": {"ddof": 1}}}, True),
        ({"framework": {"name": "trl"}}, True),
        ({"something_else": 1}, True),
        ({"group_size": None}, True),
        ({"schema": "rlaudit.run.v2"}, False),
        ({"objective": 3}, False),
        ({"framework": "trl"}, False),
        ({"framework": {"version": "1.0"}}, False),
        ({"group_size": 0}, False),
        ({"group_size": "8"}, False),
        ({"length_unit": "miles"}, False),
        ({"config": [1]}, False),
        ({"run_id": 7}, False),
    ],
)
def test_json_schema_and_reader_agree(change, valid):
    content = {"schema": "rlaudit.run.v1", "run_id": "a", **change}
    assert jsonschema.Draft202012Validator(RUN_SCHEMA).is_valid(content) is valid
    if valid:
        manifest_from_dict(content)
    else:
        with pytest.raises(BadManifest):
            manifest_from_dict(content)

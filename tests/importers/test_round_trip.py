"""Rows of the schema, written as text, and read again: nothing is lost that the text can hold."""

from __future__ import annotations

import csv
import io
import json
import math
from pathlib import Path

import numpy as np
import pyarrow as pa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from audit.importers import open_run
from audit.schema import BY_NAME, COLUMNS, TOKEN_LISTS

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
NAME = st.text("abcXYZ0123-_.", min_size=1, max_size=6)
FLOAT = st.floats(width=64)
SCALARS = {
    "int64": st.integers(-(2**63), 2**63 - 1),
    "int32": st.integers(-(2**31), 2**31 - 1),
    "double": FLOAT,
    "bool": st.booleans(),
    "string": TEXT,
    "map<string, double>": st.dictionaries(NAME, FLOAT, min_size=1, max_size=3),
}
LISTS = {
    "list<int32>": st.integers(-(2**31), 2**31 - 1),
    "list<bool>": st.booleans(),
    "list<float>": st.floats(width=32),
}
LEFT = {"created_at", "extra", "step", "prompt_id", "group_id", "sample_index"}


@st.composite
def rows(draw):
    """Rows with the required columns, unique keys, and any of the others."""
    names = draw(st.sets(st.sampled_from([c.name for c in COLUMNS if c.name not in LEFT])))
    made = []
    for group in range(draw(st.integers(1, 3))):
        for index in range(draw(st.integers(1, 3))):
            length = draw(st.integers(0, 4))
            row = {
                "step": group,
                "prompt_id": draw(NAME),
                "group_id": f"g{group}",
                "sample_index": index,
                "reward": draw(FLOAT),
            }
            for name in sorted(names - {"reward"}):
                kind = BY_NAME[name].type
                values = (
                    st.lists(LISTS[kind], min_size=length, max_size=length)
                    if kind in LISTS
                    else SCALARS[kind]
                )
                row[name] = draw(values)
            made.append(row)
    return made


def same(a: object, b: object) -> bool:
    if isinstance(a, float) and isinstance(b, float):
        return a == b or (math.isnan(a) and math.isnan(b))
    if isinstance(a, list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    return type(a) is type(b) and a == b


def write(path: Path, made: list[dict]) -> None:
    if path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in made), encoding="utf-8")
    elif path.suffix == ".json":
        path.write_text(json.dumps(made, ensure_ascii=False), encoding="utf-8")
    else:
        text = io.StringIO()
        out = csv.writer(text, delimiter="\t" if path.suffix == ".tsv" else ",")
        out.writerow(made[0])
        for row in made:
            out.writerow(json.dumps(v) if isinstance(v, (list, dict, bool)) else v for v in row.values())
        path.write_text(text.getvalue(), encoding="utf-8", newline="")


def read(path: Path, names: list[str]) -> list[dict]:
    run = open_run(path)
    assert not run.rejected
    table = pa.Table.from_batches(list(run.batches(names)))
    found = table.to_pylist()
    for row in found:
        for name in names:
            if BY_NAME[name].type.startswith("map") and row[name] is not None:
                row[name] = dict(row[name])
    return found


@given(rows(), st.sampled_from(["jsonl", "json", "csv", "tsv"]))
@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
def test_schema_to_text_and_back(tmp_path_factory, made, suffix) -> None:
    path = tmp_path_factory.mktemp("r") / f"a.{suffix}"
    write(path, made)
    names = list(made[0])
    texts = {"finish_reason", "trajectory_id"} if suffix in {"csv", "tsv"} else set()
    for row, again in zip(made, read(path, names), strict=True):
        for name in names:
            expected = row[name]
            if name in TOKEN_LISTS and BY_NAME[name].type == "list<float>":
                expected = np.asarray(expected, np.float32).astype(float).tolist()
            if name in texts and not str(expected).strip():
                # A cell cannot tell empty text from nothing.
                continue
            assert same(again[name], expected), (name, again[name], expected)


def test_a_run_of_this_package_written_as_text_audits_alike(tmp_path) -> None:
    from synthetic import rollouts, standardised, with_advantages

    from audit.analyses.summary import summarise
    from audit.report.as_json import as_json

    made = with_advantages(rollouts(steps=3), standardised(0, 0.0))
    found = {}
    for suffix in ("jsonl", "json", "csv"):
        write(tmp_path / f"log.{suffix}", made)
        told = json.loads(as_json(summarise(open_run(tmp_path / f"log.{suffix}"))))
        del told["source"], told["skipped"]
        found[suffix] = told
    assert found["jsonl"] == found["json"] == found["csv"]
    assert found["jsonl"]["responses"] == len(made)

"""What was weighed on a sample of steps is named, with how much of the run that was."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path

import jsonschema
import pytest
from synthetic import rollouts, write

from audit.analyses import length_catalogue
from audit.analyses.length import length_bias
from audit.facts.rows import RunRows
from audit.report.as_json import as_json
from audit.report.length_charts import push_frame
from audit.report.length_page import length_html, length_markdown
from audit.report.length_words import legend, sampled


def test_a_sample_is_named_with_its_steps_and_tokens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = RunRows.read(write(tmp_path / "run", rollouts(steps=20, epochs=1), "grpo"))
    assert rows.facts is not None
    total = int(rows.facts["tokens"].sum())
    whole = length_bias(rows, None, others=("grpo", "sapo"))
    assert sampled(whole) == ""
    assert legend(whole).startswith("slope:")
    monkeypatch.setattr(length_catalogue, "SAMPLE_TOKENS", total // 4 + 1)
    found = length_bias(rows, None, others=("grpo", "sapo", "kimi"))
    said = legend(found)
    assert said.startswith("On a sample of steps: sapo, kimi.")
    assert "5 of 20 steps" in said
    assert f"of {total:,} tokens" in said
    marked = push_frame(found)["objective"].unique(maintain_order=True).to_list()
    assert sorted(marked) == ["grpo", "kimi (sample)", "sapo (sample)"]
    assert "sapo (sample)" in length_markdown(found)
    assert "sapo (sample)" in length_html(found)
    schema = json.loads((files("audit.schemas") / "length.v1.schema.json").read_text(encoding="utf-8"))
    jsonschema.validate(json.loads(as_json(found)), schema)

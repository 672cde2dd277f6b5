"""``rlaudit length``: reports as files, and the remedy that it names."""

from __future__ import annotations

import json


def test_a_report_is_written_beside_what_is_shown(rlaudit, runs, tmp_path) -> None:
    out = tmp_path / "length.html"
    said = rlaudit("length", runs / "grpo-1", "-o", out)
    assert said.code == 0
    assert "Length bias: weight per token goes as L^-1.00" in " ".join(said.out.split())
    assert "L^-1.00" in out.read_text()
    refused = rlaudit("length", runs / "grpo-1", "-o", tmp_path / "length.pdf")
    assert refused.code == 2
    assert ".html" in refused.err


def test_the_remedy_can_be_given_back_as_it_stands(rlaudit, runs) -> None:
    biased = json.loads(rlaudit("length", runs / "grpo-1", "--json").out)
    assert biased["biased"] is True
    changes = [word for change in biased["remedy"]["set"] for word in ("--set", change)]
    changed = json.loads(rlaudit("length", runs / "grpo-1", "--json", *changes).out)
    assert (changed["biased"], changed["law"]) == (False, "none")
    assert changed["pressure"] == biased["remedy"]["pressure"]

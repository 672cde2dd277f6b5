"""Charts of groups: a legend names what is drawn and nothing else."""

from __future__ import annotations

import pytest
from synthetic import rollouts, write

import audit as rlaudit
from audit.report.prompt_panels import zero_panel


@pytest.mark.parametrize(
    ("prompts", "named"), [(4, ["observed", "expected"]), (100_000, ["observed"])], ids=["again", "once"]
)
def test_nothing_is_named_that_is_not_drawn(tmp_path, prompts, named) -> None:
    write(tmp_path, rollouts(steps=6, prompts=prompts), "grpo")
    chart = zero_panel(rlaudit.groups(tmp_path), "#123456").to_dict()
    for layer in chart["layer"]:
        assert layer["encoding"]["color"]["scale"]["domain"] == named
    rows = next(iter(chart["datasets"].values()))
    assert {row["series"] for row in rows} == set(named)

"""Charts of the breakdowns draw the numbers of the result, and files are written where they may be."""

from __future__ import annotations

import json

import numpy as np
import pytest
from synthetic import rollouts, standardised, with_advantages, write

from audit.analyses.prompts import prompt_breakdown
from audit.analyses.rewards import reward_breakdown
from audit.analyses.staleness import staleness
from audit.analyses.zero_groups import group_breakdown
from audit.errors import AuditError
from audit.facts.rows import RunRows
from audit.objectives.catalogue import named
from audit.report.breakdown_charts import chart_of_breakdown
from audit.report.charts import save_chart


@pytest.fixture(scope="module")
def rows(tmp_path_factory) -> RunRows:
    data = with_advantages(rollouts(), standardised(0, 0.0))
    for row in data:
        row["reward_components"] = {"<b>a</b>\x1b": row["reward"] - 0.25, "rest": 0.25}
        row["policy_version"], row["sampler_version"] = row["update"], row["update"] - row["epoch"]
    return RunRows.read(write(tmp_path_factory.mktemp("runs") / "run", data, "grpo"))


def drawn(chart) -> list[dict]:
    return [row for rows in json.loads(chart.to_json())["datasets"].values() for row in rows]


def test_groups_over_steps(rows) -> None:
    result = group_breakdown(rows, named("grpo"))
    points = drawn(chart_of_breakdown(result))
    observed = [row["value"] for row in points if row["series"] == "observed"]
    assert observed == pytest.approx([part.observed.value for part in result.by_step])
    assert all(row["low"] <= row["value"] <= row["high"] for row in points)


def test_prompts_by_rate_and_lorenz(rows) -> None:
    result = prompt_breakdown(rows, named("grpo"))
    points = drawn(chart_of_breakdown(result))
    own = [(row["x"], row["y"]) for row in points if row["series"] == "grpo" and "y" in row]
    assert np.array(own) == pytest.approx(np.array(result.shares[0].lorenz))
    factors = [row["value"] for row in points if row["series"] == "grpo" and "value" in row]
    assert factors == pytest.approx([each.observed.value for each in result.factors[0].bins])


def test_components_and_lag(rows) -> None:
    result = reward_breakdown(rows)
    points = drawn(chart_of_breakdown(result))
    assert [row["x"] for row in points] == ["<b>a</b>\\x1b", "rest"]
    assert [row["value"] for row in points] == pytest.approx([1.0, 0.0])
    lag = staleness(rows)
    assert {row["value"] for row in drawn(chart_of_breakdown(lag))} == {
        each.mean.value for each in lag.lag.by_step
    }


def test_a_chart_is_written_as_svg(rows, tmp_path) -> None:
    save_chart(chart_of_breakdown(prompt_breakdown(rows)), tmp_path / "c.svg")
    assert (tmp_path / "c.svg").read_text().lstrip().startswith("<svg")


def test_where_there_is_nothing_to_draw_it_is_said(tmp_path) -> None:
    poor = RunRows.read(write(tmp_path / "run", rollouts(steps=1, groups=1, epochs=1)))
    for result in (reward_breakdown(poor), staleness(poor)):
        with pytest.raises(AuditError, match="nothing to draw"):
            chart_of_breakdown(result)

"""Pages of the breakdowns: within their width, what is odd said in words, nothing where there is nothing."""

from __future__ import annotations

import random

import msgspec
import pytest
from synthetic import rollouts, standardised, with_advantages, write

from audit.analyses.prompts import prompt_breakdown
from audit.analyses.rewards import reward_breakdown
from audit.analyses.staleness import staleness
from audit.analyses.zero_groups import group_breakdown
from audit.facts.rows import RunRows
from audit.objectives.catalogue import named
from audit.report.text import show_groups, show_prompts, show_rewards, show_staleness
from audit.stats import Estimate


@pytest.fixture(scope="module")
def rows(tmp_path_factory) -> RunRows:
    data, rng = with_advantages(rollouts(steps=20), standardised(0, 0.0)), random.Random(0)
    for row in data:
        a = rng.gauss(0.0, 1.0)
        row["reward_components"] = {"a": a, "b": row["reward"] - a}
        row["policy_version"], row["sampler_version"] = row["update"], row["update"] - row["epoch"]
    return RunRows.read(write(tmp_path_factory.mktemp("runs") / "run", data, "grpo"))


@pytest.mark.parametrize("width", [80, 120])
def test_pages_keep_their_width(rows, shown, width) -> None:
    grpo = named("grpo")
    for show, result in (
        (show_groups, group_breakdown(rows, grpo)),
        (show_prompts, prompt_breakdown(rows, grpo)),
        (show_rewards, reward_breakdown(rows)),
        (show_staleness, staleness(rows, grpo)),
    ):
        said = shown(show, result, width=width)
        assert max(map(len, said.splitlines())) <= width
        assert all(line == line.rstrip() for line in said.splitlines())
        assert "None" not in said
        assert "nan" not in said


def test_groups_say_which_way_the_prediction_fails(rows, shown) -> None:
    result = group_breakdown(rows, named("grpo"))
    for low, high, word in ((0.1, 0.3, "more alike"), (-0.3, -0.1, "less alike")):
        gap = Estimate((low + high) / 2, low, high, 80)
        changed = msgspec.structs.replace(
            result, expected=msgspec.structs.replace(result.expected, difference=gap)
        )
        assert word in shown(show_groups, changed)
    line = next(x for x in shown(show_groups, result).splitlines() if x.strip().startswith("all "))
    assert line.split()[-1] == "80"


def test_irregular_groups_are_listed_and_regular_ones_are_not(rows, shown) -> None:
    result = group_breakdown(rows)
    assert "nothing irregular" not in shown(show_groups, result)  # prompts repeat within a step
    odd = msgspec.structs.replace(result.shapes, same_prompt_in_step=0)
    assert "nothing irregular" in shown(show_groups, msgspec.structs.replace(result, shapes=odd))


def test_rewards_say_what_cancels(rows, shown) -> None:
    said = shown(show_rewards, reward_breakdown(rows))
    assert "components cancel" in said
    assert "a and b: correlation -" in said
    assert "the reward is the sum of its components" in said


def test_staleness_says_from_where_on_a_ratio_is_not_1(rows, shown) -> None:
    said = " ".join(shown(show_staleness, staleness(rows, named("grpo"))).split())
    assert "Ratio ≠ 1: of a token of the response |log ratio| is above 0.0001 (heuristic)." in said


def test_staleness_leaves_out_columns_that_were_not_logged(rows, shown) -> None:
    said = shown(show_staleness, staleness(rows, named("grpo")))
    assert "mismatch  " not in said
    assert "mismatch with the sampler: needs logp_sampler" in said
    assert "removed" in said
    assert "50% of the responses were sampled by an earlier version" in said


def test_prompts_mark_the_objective_and_shorten_long_texts(rows, shown) -> None:
    result = prompt_breakdown(rows, named("grpo"))
    long = [msgspec.structs.replace(each, prompt="x" * 500) for each in result.heaviest]
    said = shown(show_prompts, msgspec.structs.replace(result, heaviest=long))
    assert "grpo *" in said
    assert "x" * 39 + "…" in said
    assert "x" * 41 not in said

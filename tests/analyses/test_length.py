"""Length bias against Jensen's inequality worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest
from synthetic import rollouts, write

from audit.analyses.length import length_bias
from audit.cli.options import change_objective
from audit.errors import MissingColumn
from audit.facts.chosen import chosen_objective
from audit.facts.rows import RunRows
from audit.objectives.catalogue import CATALOGUE, named
from audit.stats import Estimate


def on_policy(tmp_path, **options):
    return RunRows.read(write(tmp_path / "run", rollouts(epochs=1, **options), sampling={"max_tokens": 20}))


def test_per_response_mean_pushes_correct_answers_down_and_wrong_ones_up(tmp_path) -> None:
    result = length_bias(on_policy(tmp_path, steps=30), named("grpo"), others=())
    assert result.slope.positive.value == pytest.approx(-1.0, abs=1e-9)
    assert result.slope.negative.value == pytest.approx(-1.0, abs=1e-9)
    assert result.pressure.correct.high < 0 < result.pressure.wrong.low
    assert "L^-1.00 [-1.00, -1.00]" in result.verdict
    assert (result.biased, result.law) == (True, "1/length")


@pytest.mark.parametrize("name", ["dr_grpo", "dapo", "rloo"])
def test_a_shared_divisor_does_not_push_within_a_side(tmp_path, name: str) -> None:
    result = length_bias(on_policy(tmp_path), named(name), others=())
    for side in (result.pressure.correct, result.pressure.wrong):
        assert side.value == pytest.approx(0.0, abs=1e-12)
    assert result.slope.all == Estimate(0.0, 0.0, 0.0, result.slope.all.n)
    assert (result.biased, result.law, result.remedy) == (False, "none", None)


def test_the_pressure_is_the_covariance_of_one_group_by_hand(tmp_path) -> None:
    data = rollouts(steps=1, groups=1, epochs=1)
    for row, reward in zip(data, [1, 1, 1, 0, 0, 0, 0, 0], strict=True):
        row["reward"] = float(reward)
    result = length_bias(RunRows.read(write(tmp_path / "run", data)), named("grpo"), others=())
    length = np.array([row["length"] for row in data], dtype=float)
    reward = np.array([row["reward"] for row in data])
    weight = (reward - reward.mean()) / reward.std() / length / 8
    weight /= np.abs(weight).mean()
    for side, chosen in ((result.pressure.correct, reward == 1), (result.pressure.wrong, reward == 0)):
        assert side.value == pytest.approx(np.cov(weight[chosen], length[chosen])[0, 1], rel=1e-6)
        assert side.n == chosen.sum()
    assert result.pressure.all.value == pytest.approx(np.cov(weight, length)[0, 1], rel=1e-6)


def test_objectives_that_the_log_cannot_carry_are_skipped_with_the_column(tmp_path) -> None:
    result = length_bias(on_policy(tmp_path, steps=2), named("grpo"))
    by_name = {entry.objective: entry for entry in result.per_objective}
    assert by_name["remax"].pressure is None
    assert "is_greedy" in by_name["remax"].skipped
    assert "advantage" in by_name["ppo"].skipped
    assert list(by_name) == list(CATALOGUE)
    assert all((entry.pressure is None) == bool(entry.skipped) for entry in result.per_objective)
    assert by_name["dapo"].pressure is not None


def test_a_log_without_log_probs_says_that_the_ratio_is_assumed(tmp_path) -> None:
    keep = ("step", "prompt_id", "group_id", "sample_index", "reward", "length")
    data = [{k: row[k] for k in keep} for row in rollouts(epochs=1)]
    result = length_bias(RunRows.read(write(tmp_path / "run", data)), named("grpo"), others=())
    assert result.slope.positive.value == pytest.approx(-1.0, abs=1e-9)
    assert any("logp_theta" in doubt for doubt in result.doubts)


def test_without_lengths_nothing_is_said(tmp_path) -> None:
    keep = ("step", "prompt_id", "group_id", "sample_index", "reward")
    data = [{k: row[k] for k in keep} for row in rollouts(epochs=1)]
    with pytest.raises(MissingColumn, match="token_ids"):
        length_bias(RunRows.read(write(tmp_path / "run", data)), named("grpo"), others=())


def test_rounding_is_not_a_push(tmp_path) -> None:
    result = length_bias(on_policy(tmp_path, steps=6), named("dr_grpo"), others=())
    for side in (result.pressure.correct, result.pressure.wrong):
        assert (side.value, side.low, side.high) == (0.0, 0.0, 0.0)
    assert "pushes neither correct nor wrong answers beyond noise (0 [0, 0])" in result.verdict


def test_equal_lengths_are_not_called_weightless(tmp_path) -> None:
    data = rollouts(steps=2, epochs=1, longest=1)
    result = length_bias(RunRows.read(write(tmp_path / "run", data)), named("grpo"), others=())
    assert "too alike in length" in result.verdict
    assert result.biased is None


def test_text_alone_gives_the_drift_in_characters_and_skips_the_rest(tmp_path) -> None:
    keep = ("step", "prompt_id", "group_id", "sample_index", "reward", "response")
    data = [{k: row[k] for k in keep} for row in rollouts(epochs=1)]
    result = length_bias(RunRows.read(write(tmp_path / "run", data)), named("grpo"), others=())
    assert result.unit == "characters"
    assert result.drift.all.n == len(data)
    assert (result.biased, result.per_objective, result.push_and_drift) == (None, [], None)
    assert "token_ids, or length in tokens" in [s.needs for s in result.skipped]


def test_the_remedy_is_what_the_command_line_takes_and_removes_the_bias(tmp_path) -> None:
    rows = on_policy(tmp_path, steps=6)
    found = length_bias(rows, named("grpo"), others=())
    assert found.remedy is not None
    assert f"--set {found.remedy.set[0]} takes the slope to 0 [0, 0]" in found.verdict
    changed, _ = chosen_objective(rows, change_objective(named("grpo"), found.remedy.set))
    again = length_bias(rows, changed, others=())
    assert again.biased is False
    assert again.pressure == found.remedy.pressure


def test_means_over_micro_batches_of_one_response_are_means_per_response(tmp_path) -> None:
    data = [row | {"micro_batch": i} for i, row in enumerate(rollouts(steps=6, epochs=1))]
    rows = RunRows.read(write(tmp_path / "run", data))
    found = length_bias(rows, named("bnpo"), others=())
    assert (found.biased, found.law) == (True, "1/length")
    assert found.remedy.set == ["aggregation.scope=update"]


def test_rewards_without_right_and_wrong_are_split_by_sign_and_it_is_said(tmp_path) -> None:
    data = rollouts(steps=4, epochs=1, reward=lambda p, text, rng: rng.random())
    found = length_bias(RunRows.read(write(tmp_path / "run", data)), named("grpo"), others=())
    assert found.pressure.correct.high < 0 < found.pressure.wrong.low
    assert (found.drift.correct.n, found.trend.wrong.points) == (0, 0)
    assert "correct" in [skip.needs for skip in found.skipped]
    assert any("stand for a reward above and below" in doubt for doubt in found.doubts)

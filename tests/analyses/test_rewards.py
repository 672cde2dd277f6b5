"""The breakdown of rewards against loops, numpy and cases worked out by hand."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest
from loose import write_loose
from scipy import stats
from synthetic import rollouts, write

from audit.analyses.reward_components import component_values
from audit.analyses.rewards import reward_breakdown
from audit.analyses.samples import samples_of
from audit.analyses.within_group import correlation, spread
from audit.errors import MissingColumn
from audit.facts.rows import RunRows


def with_parts(weights: dict[str, float], *, noise: float = 0.0, seed: int = 0, **options) -> list[dict]:
    """Rows whose reward is a weighted sum of components drawn at random."""
    rng = np.random.default_rng(seed)
    data = rollouts(epochs=1, **options)
    for row in data:
        shared = rng.normal()
        parts = {name: float(rng.normal() + shared * (at % 2)) for at, name in enumerate(weights)}
        row["reward_components"] = parts
        row["reward"] = sum(weights[name] * value for name, value in parts.items())
        row["reward"] += noise * float(rng.normal())
    return data


def broken_down(path, data):
    rows = RunRows.read(write(path, data))
    return rows, reward_breakdown(rows)


def by_group(data: list[dict], value) -> list[np.ndarray]:
    groups: dict[str, list[float]] = defaultdict(list)
    for row in data:
        groups[row["group_id"]].append(value(row))
    return [np.array(values) for values in groups.values()]


@pytest.mark.parametrize(
    ("weights", "how"), [({"a": 1.0, "b": 1.0, "c": 1.0}, "sum"), ({"a": 0.7, "b": -0.3, "c": 2.0}, "fitted")]
)
def test_weights_are_found_and_shares_are_covariances_that_sum_to_one(tmp_path, weights, how) -> None:
    data = with_parts(weights)
    _, result = broken_down(tmp_path / "run", data)
    made = result.signal
    assert made.how == how
    total = np.concatenate([g - g.mean() for g in by_group(data, lambda row: row["reward"])])
    for each in made.shares:
        assert each.weight == pytest.approx(weights[each.name])
        x = np.concatenate(
            [g - g.mean() for g in by_group(data, lambda row, n=each.name: row["reward_components"][n])]
        )
        assert each.share.value == pytest.approx(weights[each.name] * (x @ total) / (total @ total))
        assert each.share.n == len(data)
    assert sum(each.share.value for each in made.shares) == pytest.approx(1.0)
    assert made.rest.value == 0.0


def test_what_components_do_not_explain_is_the_rest(tmp_path) -> None:
    _, result = broken_down(tmp_path / "run", with_parts({"a": 1.0, "b": 0.5}, noise=1.0))
    made = result.signal
    assert made.how == "fitted with misfit"
    assert made.rest.low > 0.1
    assert sum(each.share.value for each in made.shares) + made.rest.value == pytest.approx(1.0)


def test_components_that_cancel_are_told(tmp_path) -> None:
    data = rollouts(epochs=1)
    for row in data:
        accuracy = 2.0 if row["reward"] else -2.0
        row["reward_components"] = {"accuracy": accuracy, "format": -accuracy}
        row["reward"] = 0.0
    _, result = broken_down(tmp_path / "run", data)
    varied = [len(set(g)) > 1 for g in by_group(data, lambda row: row["reward_components"]["format"])]
    assert result.signal.cancelled_groups.value == pytest.approx(np.mean(varied))
    assert result.signal.cancelled.value == pytest.approx(1.0)
    assert result.signal.pairs[0].correlation.value == pytest.approx(-1.0)
    assert result.reward.distinct == 1
    assert result.reward.alike.value == 1.0
    assert result.reward.at_low.value is None


def test_a_component_without_weight_cancels_nothing(tmp_path) -> None:
    data = rollouts(epochs=1)
    for at, row in enumerate(data):
        row["reward_components"] = {"accuracy": row["reward"], "format": float(at % 3 == 0), "fixed": 1.0}
    _, result = broken_down(tmp_path / "run", data)
    assert {each.name: each.weight for each in result.signal.shares} == {
        "accuracy": pytest.approx(1.0),
        "format": 0.0,
        "fixed": None,
    }
    assert result.signal.cancelled_groups.value == 0.0


def test_components_that_repeat_each_other_are_tied(tmp_path) -> None:
    data = with_parts({"a": 1.0, "b": 2.0})
    for row in data:
        row["reward_components"]["c"] = 3.0 * row["reward_components"]["a"] + 1.0
    _, result = broken_down(tmp_path / "run", data)
    assert set(result.signal.tied) == {"a", "b", "c"}
    assert sum(each.share.value for each in result.signal.shares) == pytest.approx(1.0)


def test_saturation_distribution_and_constant_groups(tmp_path) -> None:
    data = rollouts(epochs=1)
    rng = np.random.default_rng(0)
    for row in data:
        row["reward"] = float(rng.choice([0.0, 0.3, 0.5, 1.0], p=[0.5, 0.1, 0.2, 0.2]))
        if row["step"] == 3:
            row["reward"] = 0.5
    _, result = broken_down(tmp_path / "run", data)
    values = np.array([row["reward"] for row in data])
    part = result.reward
    assert part.at_low.value == pytest.approx(np.mean(values == 0.0))
    assert part.at_high.value == pytest.approx(np.mean(values == 1.0))
    assert {each.value: pytest.approx(each.share) for each in part.frequent} == {
        v: np.mean(values == v) for v in (0.0, 0.3, 0.5, 1.0)
    }
    assert dict(part.quantiles)[0.25] == np.quantile(values, 0.25)
    assert part.alike.value == pytest.approx(
        np.mean([len(set(g)) == 1 for g in by_group(data, lambda row: row["reward"])])
    )
    assert part.constant_steps == 1


def test_spread_and_correlation_within_groups(tmp_path) -> None:
    data = with_parts({"a": 1.0, "b": 1.0})
    rows, result = broken_down(tmp_path / "run", data)
    groups = by_group(data, lambda row: row["reward"])
    pooled = np.sqrt(np.mean([g.var(ddof=1) for g in groups]))
    assert result.reward.spread.value == pytest.approx(pooled)
    lengths = by_group(data, lambda row: row["length"])
    x = np.concatenate([g - g.mean() for g in groups])
    y = np.concatenate([g - g.mean() for g in lengths])
    assert result.reward.with_length.value == pytest.approx(stats.pearsonr(x, y).statistic, abs=1e-6)
    samples = samples_of(rows)
    some = samples.reward.copy()
    some[::3] = np.nan
    assert correlation(samples, some, some).value == pytest.approx(1.0)
    assert spread(samples, some).n == np.isfinite(some).sum()


def test_a_reward_that_changes_scale_is_told_with_an_interval(tmp_path) -> None:
    data = with_parts({"a": 1.0}, steps=30)
    for row in data:
        if row["step"] > 24:
            row["reward"] = 3.0 * row["reward"] + 5.0
    _, result = broken_down(tmp_path / "run", data)
    change = result.changes[0]
    last = [row["reward"] for row in data if row["step"] > 24]
    first = [row["reward"] for row in data if row["step"] <= 6]
    assert change.mean_change.value == pytest.approx(np.mean(last) - np.mean(first))
    assert change.spread_ratio.low < 3.0 < change.spread_ratio.high
    assert change.spread_ratio.low > 2.0
    assert [(each.first_step, each.last_step) for each in change.by_step][0::4] == [(1, 6), (25, 30)]
    assert change.by_step[-1].mean.value == pytest.approx(np.mean(last))


def test_intervals_of_shares_cover_the_truth(tmp_path) -> None:
    covers = 0
    for seed in range(20):
        data = with_parts({"a": 1.0, "b": 1.0}, seed=seed, steps=6, prompts=40)
        _, result = broken_down(tmp_path / f"run{seed}", data)
        # Var(a) = 1, Var(b) = 2, independent.
        covers += result.signal.shares[0].share.low <= 1 / 3 <= result.signal.shares[0].share.high
    assert covers >= 16


def test_equal_texts_with_different_rewards(tmp_path) -> None:
    data = rollouts(epochs=1, longest=2)
    seen: dict[tuple, list[dict]] = defaultdict(list)
    for row in data:
        row["reward"] = float(len(row["response"]))
        seen[row["prompt_id"], row["response"]].append(row)
    repeated = [rows for rows in seen.values() if len(rows) > 1]
    repeated[0][0]["reward"] += 0.5
    repeated[1][1]["reward"] -= 0.25
    _, result = broken_down(tmp_path / "run", data)
    assert (result.texts.repeated, result.texts.differing) == (len(repeated), 2)
    assert result.texts.largest_gap == pytest.approx(0.5)
    several = [len({row["response"] for row in rows}) > 1 for rows in _groups(data)]
    alike = [len({row["reward"] for row in rows}) == 1 for rows in _groups(data)]
    assert result.texts.distinct == sum(several)
    assert result.texts.distinct_alike == sum(a and b for a, b in zip(several, alike, strict=True))


def _groups(data: list[dict]) -> list[list[dict]]:
    groups: dict[str, list[dict]] = defaultdict(list)
    for row in data:
        groups[row["group_id"]].append(row)
    return list(groups.values())


def test_rewards_that_are_no_numbers_are_counted_by_kind(tmp_path) -> None:
    data = rollouts(steps=4)
    for at, bad in enumerate((None, None, float("nan"), float("inf"))):
        data[at]["reward"] = bad
        data[at]["reward_components"] = {"a": 1.0, "b": float("nan")}
    for row in data[4:]:
        row["reward_components"] = {"a": row["reward"]}
    _, result = broken_down(tmp_path / "run", data)
    assert (result.unscored.null, result.unscored.nan, result.unscored.infinite) == (2, 1, 1)
    assert result.unscored.responses == 128
    assert result.samples == 124
    assert [part.name for part in result.components] == ["a"]


def test_components_are_read_as_they_were_written(tmp_path) -> None:
    data = rollouts(steps=2)
    for at, row in enumerate(data):
        row["reward_components"] = (
            None if at % 5 == 0 else {"x": at, "y": None} if at % 2 else {"z": -1.0 * at}
        )
    found = component_values(RunRows.read(write(tmp_path / "run", data)))
    assert set(found) == {"x", "z"}
    for name, values in found.items():
        for row, value in zip(data, values.tolist(), strict=True):
            given = (row["reward_components"] or {}).get(name)
            assert np.isnan(value) if given is None else value == given


def test_without_groups_nothing_is_said_and_without_components_it_is_skipped(tmp_path) -> None:
    data = [row | {"group_id": None} for row in rollouts(steps=2)]
    with pytest.raises(MissingColumn, match="group_id"):
        reward_breakdown(RunRows.read(write_loose(tmp_path / "a", data)))
    _, result = broken_down(tmp_path / "b", rollouts(steps=2))
    assert (result.signal, result.components) == (None, [])
    assert {skip.needs for skip in result.skipped} == {"reward_components"}


def test_a_component_may_be_called_reward(tmp_path) -> None:
    data = [row | {"reward_components": {"reward": row["reward"]}} for row in rollouts(steps=3)]
    _, result = broken_down(tmp_path / "run", data)
    assert [part.name for part in result.components] == ["reward"]
    assert len(result.changes) == 2


@pytest.mark.parametrize("empty", [{}, {"accuracy": None}, {"accuracy": float("nan")}])
def test_components_that_hold_nothing_are_skipped(tmp_path, empty) -> None:
    data = rollouts(epochs=1)
    for row in data:
        row["reward_components"] = empty
    _, found = broken_down(tmp_path / "run", data)
    assert found.components == []
    assert found.signal is None
    assert "reward_components" in {s.check: s.needs for s in found.skipped}["components of the reward"]

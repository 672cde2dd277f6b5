"""Version lag and ratio drift against loops over rows and tokens."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
from synthetic import rollouts, write

from audit.analyses.staleness import staleness
from audit.facts.chosen import chosen_objective
from audit.facts.rows import RunRows
from audit.facts.weigh import weigh


def lagging(lags=(0, 1, 2, 3, 7, 12), **options) -> list[dict]:
    rng = random.Random(3)
    data = rollouts(**options)
    for row in data:
        lag = rng.choice(lags)
        row["policy_version"] = 2**60 + row["update"]
        row["sampler_version"] = row["policy_version"] - lag
        row["logp_sampler"] = [x - abs(rng.gauss(0.0, 0.01 * (1 + lag))) for x in row["logp_old"]]
    return data


def broken_down(path, data, declared="grpo"):
    rows = RunRows.read(write(path, data, declared, sampling={"max_tokens": 20}))
    objective, notes = chosen_objective(rows, None) if declared else (None, [])
    return rows, staleness(rows, objective, notes=notes)


def lag_of(row: dict) -> int:
    return row["policy_version"] - row["sampler_version"]


def test_shares_of_each_lag_are_counts(tmp_path) -> None:
    data = lagging()
    _, result = broken_down(tmp_path / "run", data)
    spans = [(each.low, each.high) for each in result.lag.shares]
    assert spans == [(0, 0), (1, 1), (2, 2), (3, 3), (5, 8), (9, 16)]
    for each in result.lag.shares:
        rows = [row for row in data if each.low <= lag_of(row) <= each.high]
        assert each.responses.value == pytest.approx(len(rows) / len(data))
        tokens = sum(row["length"] for row in rows)
        assert each.tokens.value == pytest.approx(tokens / sum(row["length"] for row in data))
        assert each.length.value == pytest.approx(tokens / len(rows))
        gaps = [
            abs(np.float32(a).item() - np.float32(b).item())
            for row in rows
            for a, b in zip(row["logp_old"], row["logp_sampler"], strict=True)
        ]
        assert each.mismatch.value == pytest.approx(math.fsum(gaps) / tokens)
        assert each.log_ratio.value == pytest.approx(math.sqrt(mean_square(rows)))
    assert result.lag.most == 12
    assert result.lag.mean.value == pytest.approx(np.mean([lag_of(row) for row in data]))
    assert result.lag.stale.value == pytest.approx(np.mean([lag_of(row) > 0 for row in data]))
    assert sum(each.mean.n for each in result.lag.by_step) == len(data)
    assert max(each.most for each in result.lag.by_step) == 12


def ratios(rows: list[dict]) -> list[float]:
    return [
        np.float32(a).item() - np.float32(b).item()
        for row in rows
        for a, b in zip(row["logp_theta"], row["logp_old"], strict=True)
    ]


def mean_square(rows: list[dict]) -> float:
    logs = ratios(rows)
    return math.fsum(x * x for x in logs) / len(logs)


def test_drift_over_inner_passes_is_that_of_the_tokens(tmp_path) -> None:
    data = lagging(epochs=3)
    _, result = broken_down(tmp_path / "run", data)
    assert [each.epoch for each in result.passes] == [0, 1, 2]
    for each in result.passes:
        rows = [row for row in data if row["epoch"] == each.epoch]
        logs = ratios(rows)
        assert each.responses == len(rows)
        assert each.ratio.value == pytest.approx(np.mean(np.exp(logs)))
        assert each.log_ratio.value == pytest.approx(np.mean(logs), abs=1e-12)
        assert each.size.value == pytest.approx(math.sqrt(mean_square(rows)))
        assert each.largest == pytest.approx(max(map(abs, logs)))
        assert each.moved.value == pytest.approx(
            np.mean([max(map(abs, ratios([row]))) > 1e-4 for row in rows])
        )
    assert "grows from 0 to" in result.verdict


def test_the_removed_share_is_that_of_the_objective(tmp_path) -> None:
    rows, result = broken_down(tmp_path / "run", lagging())
    objective, _ = chosen_objective(rows, None)
    zeroed = np.concatenate([b.tokens.layout.sum(b.weights.zeroed.double()) for b in weigh(rows, objective)])
    tokens = rows.facts["loss_tokens"]
    assert zeroed.sum() > 0
    for each in result.passes:
        here = rows.epoch == each.epoch
        assert each.zeroed.value == pytest.approx(zeroed[here].sum() / tokens[here].sum())


def test_versions_that_contradict_the_log_probs_are_told(tmp_path) -> None:
    data = lagging(lags=(0,))
    _, result = broken_down(tmp_path / "run", data)
    moved = [max(map(abs, ratios([row]))) > 1e-4 for row in data]
    assert result.lag.fresh_but_moved.value == pytest.approx(np.mean(moved))
    assert "versions and log-probs disagree" in result.verdict
    for row in data:
        row["logp_theta"] = row["logp_old"]
    _, sound = broken_down(tmp_path / "sound", data)
    assert sound.lag.fresh_but_moved.value == 0.0
    assert sound.verdict.startswith("Every response was sampled by the version that it updated.")
    assert "disagree" not in sound.verdict


def test_versions_from_the_future_and_unknown_ones_are_counted(tmp_path) -> None:
    data = lagging(lags=(-2, 0, 1))
    for row in data[:5]:
        row["sampler_version"] = None
    _, result = broken_down(tmp_path / "run", data)
    assert result.lag.negative == sum(lag_of(row) == -2 for row in data[5:])
    assert result.lag.unknown == 5
    assert result.lag.shares[0].high == -1
    assert "do not count the same thing" in result.verdict


def test_greedy_responses_are_not_updated_on(tmp_path) -> None:
    data = lagging(lags=(1,))
    for row in data[::4]:
        row["is_greedy"], row["sampler_version"] = True, row["policy_version"]
    _, result = broken_down(tmp_path / "run", data, None)
    assert result.responses == 3 * len(data) // 4
    assert result.lag.stale.value == 1.0


def test_what_is_missing_is_named(tmp_path) -> None:
    _, result = broken_down(tmp_path / "run", rollouts(epochs=1), None)
    assert result.lag is None
    assert {skip.check: skip.needs for skip in result.skipped} == {
        "version lag": "policy_version and sampler_version",
        "mismatch with the sampler": "logp_sampler",
        "share that the trust region removed": "an objective: name one with --objective",
        "drift over inner passes": "epoch, with more than one inner pass",
    }
    assert "cannot be audited" in result.verdict


def test_versions_that_never_meet_in_a_row_are_missing(tmp_path) -> None:
    data = lagging()
    for at, row in enumerate(data):
        row["policy_version" if at % 2 else "sampler_version"] = None
    _, result = broken_down(tmp_path / "run", data)
    assert result.lag is None
    assert any("in the same rows" in skip.needs for skip in result.skipped)


def test_a_response_without_a_loss_token_did_not_stay(tmp_path) -> None:
    data = lagging()
    for row in data[::4]:
        row["loss_mask"] = [False] * row["length"]
    _, result = broken_down(tmp_path / "run", data)
    for each in result.passes:
        rows = [row for row in data if row["epoch"] == each.epoch and any(row["loss_mask"])]
        moved = [max(map(abs, ratios([row]))) > 1e-4 for row in rows]
        assert (each.moved.value, each.moved.n) == (pytest.approx(np.mean(moved)), len(rows))

"""A sampler that lags, an engine that drifts, and a temperature: three gaps of policies that walk."""

from __future__ import annotations

import numpy as np
import pytest
from synthetic import Rows, write

from audit.analyses.explain import explain

VOCABULARY, PROMPTS, PLACES, STEPS = 6, 12, 4, 16


def log_softmax(logits: np.ndarray) -> np.ndarray:
    return logits - np.log(np.exp(logits).sum(-1, keepdims=True))


def made(
    seed: int,
    *,
    lag: int = 0,
    pace: float = 0.1,
    drift: float = 0.0,
    temperature: float = 1.0,
    theta: bool = True,
    versions: bool = False,
) -> Rows:
    """A policy that walks by ``pace`` an update; the sampler's log-probs are noisy by 0.01 + drift · step."""
    rng = np.random.default_rng(seed)
    start = np.random.default_rng(99).normal(0.0, 1.0, (PROMPTS, PLACES, VOCABULARY))
    walk = [start]
    for _ in range(STEPS):
        walk.append(walk[-1] + pace * rng.normal(size=start.shape))
    rows: Rows = []
    for step in range(STEPS):
        old, new, ref = (log_softmax(walk[at]) for at in (step, step + 1, 0))
        sampler = log_softmax(walk[max(0, step - lag)] / temperature)
        sampler = sampler + (0.01 + drift * step) * rng.normal(size=sampler.shape)
        batch: Rows = []
        for prompt in range(PROMPTS):
            for sample in range(4):
                ids = [int(rng.choice(VOCABULARY, p=np.exp(log_softmax(s)))) for s in sampler[prompt]]
                at = (prompt, np.arange(PLACES), ids)
                row = {
                    "prompt_id": f"p{prompt}",
                    "group_id": f"{step}-{prompt}",
                    "sample_index": sample,
                    "token_ids": ids,
                    "length": PLACES,
                    "reward": float(rng.random() < 0.5),
                    "logp_old": old[at].tolist(),
                    "logp_ref": ref[at].tolist(),
                    "logp_sampler": np.minimum(sampler[at], 0.0).tolist(),
                }
                if versions:
                    row |= {"policy_version": step, "sampler_version": max(0, step - lag)}
                batch.append(row | {"thetas": (old[at].tolist(), new[at].tolist())})
        for epoch in (0, 1) if theta else (0,):
            number = 2 * step + epoch
            for row in batch:
                kept = {k: v for k, v in row.items() if k != "thetas"}
                kept |= {"logp_theta": row["thetas"][epoch]} if theta else {}
                rows.append(kept | {"step": number, "update": number, "epoch": epoch})
    return rows


def told(tmp_path, a: Rows, b: Rows):
    return explain(write(tmp_path / "a", a), write(tmp_path / "b", b)).verdict.causes


@pytest.mark.parametrize("theta", [True, False])
@pytest.mark.parametrize("side", [0, 1])
def test_a_sampler_that_lags_is_named_without_versions(tmp_path, theta: bool, side: int) -> None:
    rows = [made(1, theta=theta), made(2, theta=theta)]
    rows[side] = made(3, lag=3, theta=theta)
    (cause,) = told(tmp_path, *rows)
    assert cause.id == "staleness"
    assert f"{'AB'[side]}'s sampler and trainer" in cause.summary


def test_a_gap_that_grows_while_the_policy_stands_is_an_engine_that_drifts(tmp_path) -> None:
    still = {"pace": 1e-4}
    (cause,) = told(tmp_path, made(1, **still), made(2, drift=0.02, **still))
    assert cause.id == "numerics.mismatch"
    assert "too little for a lag" in cause.summary
    assert cause.evidence["movement"] == pytest.approx(1e-4, rel=0.3)


def test_versions_that_are_up_to_date_exclude_a_lag(tmp_path) -> None:
    (cause,) = told(tmp_path, made(1, versions=True), made(2, drift=0.02, versions=True))
    assert cause.id == "numerics.mismatch"
    assert "up to date" in cause.summary


def test_a_temperature_is_there_from_the_first_step(tmp_path) -> None:
    causes = told(tmp_path, made(1), made(2, temperature=0.6))
    assert causes[0].id == "sampling.temperature"
    assert "staleness" not in {cause.id for cause in causes}


def test_two_samplers_that_lag_alike_are_no_cause(tmp_path) -> None:
    assert told(tmp_path, made(1, lag=3), made(2, lag=3)) == []

"""Sampler against trainer: loops over tokens, known tails, known resets, known number formats."""

from __future__ import annotations

import math
import random
import statistics
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import genpareto
from synthetic import centred, rollouts, with_advantages, write

from audit.analyses.mismatch import Mismatch, mismatch
from audit.analyses.mismatch_tail import resets
from audit.analyses.pareto import gpd_shape, pareto_k, reliable_k
from audit.facts.chosen import chosen_objective
from audit.facts.rows import RunRows
from audit.importers import open_run
from audit.logs import Run

SAMPLES = Path(__file__).parents[2] / "sample_logs"


def f32(x: float) -> float:
    return struct.unpack("f", struct.pack("f", x))[0]


def measured(run: Run, *, own: bool = False) -> Mismatch:
    rows = RunRows.read(run)
    return mismatch(rows, *chosen_objective(rows, None)) if own else mismatch(rows)


@pytest.fixture(scope="module")
def rows() -> list[dict[str, Any]]:
    rng = random.Random(7)
    made = with_advantages(rollouts(steps=8), centred)
    for at, row in enumerate(made):
        row["loss_mask"] = [(at + t) % 6 > 0 for t in range(row["length"])]
        row["logp_sampler"] = [min(x + rng.gauss(0.0, 0.4), 0.0) for x in row["logp_old"]]
    return made


def gaps(rows: list[dict[str, Any]]) -> list[list[tuple[float, float]]]:
    """(log pi_old, log pi_sampler) of the loss tokens of each response of the first pass that has any."""
    found = []
    for row in rows:
        if row["epoch"] == 0:
            pairs = [
                (f32(row["logp_old"][t]), f32(row["logp_sampler"][t]))
                for t in range(row["length"])
                if row["loss_mask"][t]
            ]
            found += [pairs] if pairs else []
    return found


@pytest.fixture(scope="module")
def result(rows: list[dict[str, Any]], tmp_path_factory: pytest.TempPathFactory) -> Mismatch:
    return measured(write(tmp_path_factory.mktemp("mm") / "run", rows, "grpo_tis"), own=True)


def test_the_gap_is_that_of_a_loop_over_tokens(rows: list[dict[str, Any]], result: Mismatch) -> None:
    pairs = [pair for response in gaps(rows) for pair in response]
    g = [old - sampler for old, sampler in pairs]
    gap = result.gap
    assert gap is not None
    assert result.tokens == len(g)
    assert gap.size.value == pytest.approx(statistics.fmean(map(abs, g)))
    assert gap.mean.value == pytest.approx(statistics.fmean(g))
    assert gap.rms.value == pytest.approx(math.sqrt(statistics.fmean(x * x for x in g)))
    assert gap.k3.value == pytest.approx(statistics.fmean(math.expm1(x) - x for x in g))
    olds, samplers = zip(*pairs, strict=True)
    assert gap.correlation.value == pytest.approx(statistics.correlation(olds, samplers))
    assert gap.follows_logp.value == pytest.approx(statistics.correlation(g, olds))


def test_weights_are_those_of_a_loop_over_responses(rows: list[dict[str, Any]], result: Mismatch) -> None:
    held = [[old - sampler for old, sampler in response] for response in gaps(rows)]
    w = [math.exp(math.fsum(g)) for g in held]
    u = [math.exp(x) for g in held for x in g]
    weights = result.weights
    assert weights is not None
    assert weights.mean.value == pytest.approx(statistics.fmean(w))
    assert weights.ess.value == pytest.approx(sum(w) ** 2 / (len(w) * sum(x * x for x in w)))
    assert weights.token_ess.value == pytest.approx(sum(u) ** 2 / (len(u) * sum(x * x for x in u)))
    lengths = [float(len(g)) for g in held]
    expected = statistics.correlation(lengths, [math.fsum(g) for g in held])
    assert weights.with_length.value == pytest.approx(expected)
    updates: dict[int, list[float]] = {}
    first = [row for row in rows if row["epoch"] == 0 and any(row["loss_mask"])]
    for row, weight in zip(first, w, strict=True):
        updates.setdefault(row["update"], []).append(weight)
    each = [sum(x) ** 2 / (len(x) * sum(y * y for y in x)) for x in updates.values()]
    assert weights.update_ess_median == pytest.approx(statistics.median(each))
    assert weights.update_ess_least == pytest.approx(min(each))
    assert weights.pareto_k == pytest.approx(pareto_k(np.log(w))[0])


def test_corrections_touch_what_a_loop_says(rows: list[dict[str, Any]], result: Mismatch) -> None:
    held = [[old - sampler for old, sampler in response] for response in gaps(rows)]
    tokens = sum(map(len, held))
    u = [math.exp(x) for g in held for x in g]
    w = [(math.exp(math.fsum(g)), len(g)) for g in held]
    effects = {one.name: one for one in result.corrections}
    assert list(effects) == ["tis", "mis", "icepop", "own"]
    assert effects["tis"].touched.value == pytest.approx(sum(x > 2 for x in u) / tokens)
    assert effects["tis"].mean_weight.value == pytest.approx(sum(min(x, 2) for x in u) / tokens)
    outside = sum(not 0.5 <= x <= 5 for x in u)
    assert effects["icepop"].touched.value == pytest.approx(outside / tokens)
    assert effects["icepop"].above.value == pytest.approx(sum(x > 5 for x in u) / tokens)
    kept = sum(x for x in u if 0.5 <= x <= 5)
    assert effects["icepop"].mean_weight.value == pytest.approx(kept / tokens)
    assert effects["mis"].touched.value == pytest.approx(sum(n for x, n in w if x > 3) / tokens)
    assert effects["mis"].responses is not None
    assert effects["mis"].responses.value == pytest.approx(sum(x > 3 for x, _ in w) / len(w))
    assert effects["mis"].mean_weight.value == pytest.approx(sum(x * n for x, n in w if x <= 3) / tokens)
    own = effects["own"]
    assert (own.touched, own.mean_weight) == (effects["tis"].touched, effects["tis"].mean_weight)
    assert outside > 20


def test_parts_and_tail_are_those_of_a_loop(rows: list[dict[str, Any]], result: Mismatch) -> None:
    first = [row for row in rows if row["epoch"] == 0]
    totals = {bucket.name: (bucket.part, bucket.tokens) for bucket in result.by["position"]}
    for name, low, high in (("0", 0, 0), ("2–3", 2, 3), ("8–15", 8, 15), ("from 16", 16, 99)):
        held = [
            abs(f32(row["logp_old"][t]) - f32(row["logp_sampler"][t]))
            for row in first
            for t in range(low, min(high + 1, row["length"]))
            if row["loss_mask"][t]
        ]
        assert totals[name] == (pytest.approx(math.fsum(held)), len(held))
    sizes = sorted((math.fsum(abs(a - b) for a, b in response) for response in gaps(rows)), reverse=True)
    tail = result.tail
    assert tail is not None
    assert tail.held == pytest.approx(sum(sizes[: math.ceil(len(sizes) / 10)]) / sum(sizes))
    largest = max(max(abs(a - b) for a, b in response) for response in gaps(rows))
    assert tail.max_quantiles["1"] == pytest.approx(largest)
    assert tail.identical == 0.0


@pytest.mark.parametrize("shape", [-0.3, 0.0, 0.3, 0.7, 1.2])
def test_shape_of_a_known_tail_is_found(shape: float) -> None:
    rng = np.random.default_rng(11)
    found = [
        gpd_shape(np.sort(genpareto.rvs(shape, scale=3.0, size=1500, random_state=rng))) for _ in range(8)
    ]
    assert statistics.fmean(found) == pytest.approx(shape, abs=0.05)


def test_shape_agrees_with_maximum_likelihood() -> None:
    sample = np.sort(genpareto.rvs(0.5, size=3000, random_state=np.random.default_rng(2)))
    likely, _, _ = genpareto.fit(sample, floc=0.0)
    assert gpd_shape(sample) == pytest.approx(likely, abs=0.02)
    # A common scale has no shape.
    assert gpd_shape(1e-3 * sample) == pytest.approx(gpd_shape(sample), abs=1e-9)


@pytest.mark.parametrize(("shape", "bound"), [(0.3, True), (1.5, False)])
def test_k_of_weights_tells_reliable_from_not(shape: float, bound: bool) -> None:
    rng = np.random.default_rng(5)
    # Pareto weights: P(W > w) = w^(-1 / shape), whose excess over any bound has this shape.
    found = [pareto_k(100.0 + shape * rng.exponential(size=20_000)) for _ in range(6)]
    assert {tail for _, tail in found} == {425}
    assert statistics.fmean(k or 0.0 for k, _ in found) == pytest.approx(shape, abs=0.12)
    assert {(k or 0.0) < reliable_k(20_000) for k, _ in found} == {bound}


def test_short_and_constant_tails_have_no_k() -> None:
    assert pareto_k(np.zeros(12))[0] is None
    assert pareto_k(np.zeros(1000))[0] is None
    assert pareto_k(np.arange(8.0))[0] is None
    assert reliable_k(100) == pytest.approx(0.5)
    assert reliable_k(10**6) == pytest.approx(0.7)


def test_weights_beyond_float_range_still_have_an_effective_size(tmp_path: Path) -> None:
    made = rollouts(steps=2, epochs=1)
    for at, row in enumerate(made):
        row["logp_sampler"] = [x - (900.0 if at == 0 else 890.0) for x in row["logp_old"][:1]] + row[
            "logp_old"
        ][1:]
    weights = measured(write(tmp_path / "run", made)).weights
    assert weights is not None
    assert weights.mean.value is None
    n, small = len(made), math.exp(-10.0)
    ess = (1 + (n - 1) * small) ** 2 / (n * (1 + (n - 1) * small**2))
    assert weights.ess.value == pytest.approx(ess, rel=1e-3)


def test_falls_of_the_mismatch_are_found_and_noise_is_not() -> None:
    rng = np.random.default_rng(0)
    step = np.repeat(np.arange(30), 20)
    level = 0.01 + 0.01 * (step % 10)
    noise = rng.gamma(50.0, 1 / 50.0, size=len(step))
    tokens = rng.integers(10, 40, size=len(step)).astype(float)
    assert resets(step, level * noise * tokens, tokens) == [10, 20]
    assert resets(step, 0.05 * noise * tokens, tokens) == []
    # A slow decline is no fall, however far it goes.
    assert resets(step, 0.1 * 0.9**step * noise * tokens, tokens) == []
    # One response a step: no error can be told, and any fall by half counts.
    assert resets(np.arange(3), np.array([4.0, 5.0, 1.0]), np.ones(3)) == [2]


def short(x: float, kind: str) -> float:
    if kind == "float16":
        return struct.unpack("e", struct.pack("e", x))[0]
    bits = struct.unpack("I", struct.pack("f", x))[0]
    return struct.unpack("f", struct.pack("I", (bits + 0x8000) & 0xFFFF0000))[0]


@pytest.mark.parametrize("kind", ["bfloat16", "float16"])
def test_a_short_number_format_is_recognised_and_bounds_the_gap(tmp_path: Path, kind: str) -> None:
    made = rollouts(steps=4, epochs=1)
    for row in made:
        row["logp_sampler"] = [short(x, kind) for x in row["logp_old"]]
    found = measured(write(tmp_path / "run", made))
    grids = {grid.column: grid for grid in found.grids}
    assert grids["logp_sampler"].format == kind
    assert grids["logp_old"].format is None
    assert grids["logp_old"].bfloat16 < 0.01
    assert found.gap is not None
    assert grids["logp_sampler"].error is not None
    assert found.gap.size.value is not None
    assert 0 < found.gap.size.value <= grids["logp_sampler"].error
    assert any(f"rounded to {kind}" in doubt for doubt in found.doubts)


def test_filled_values_temperature_and_equality_are_named(tmp_path: Path) -> None:
    made = rollouts(steps=4, epochs=1)
    for row in made:
        row["logp_sampler"] = [0.6 * x for x in row["logp_old"]]
    hot = measured(write(tmp_path / "hot", made))
    assert hot.gap is not None
    assert hot.gap.follows_logp.value == pytest.approx(1.0, abs=1e-6)
    assert any("temperature" in doubt for doubt in hot.doubts)
    for row in made:
        row["logp_sampler"] = [0.0 if t == 0 else x for t, x in enumerate(row["logp_old"])]
    filled = measured(write(tmp_path / "filled", made))
    assert filled.placeholders == sum(f32(row["logp_old"][0]) < -1 for row in made) > 10
    for row in made:
        row["logp_sampler"] = row["logp_old"]
    same = measured(write(tmp_path / "same", made))
    assert same.tail is not None
    assert same.tail.identical == 1.0
    assert "agree on every token" in same.verdict
    assert same.weights is not None
    assert same.weights.state == "unknown"
    assert same.weights.ess.value == 1.0


def test_null_and_infinite_sampler_log_probs_are_left_out_and_counted(tmp_path: Path) -> None:
    made = rollouts(steps=4, epochs=1)
    for at, row in enumerate(made):
        row["logp_sampler"] = None if at == 3 else [x - 0.1 for x in row["logp_old"]]
    made[9]["logp_sampler"] = [-math.inf, *made[9]["logp_sampler"][1:]]
    found = measured(write(tmp_path / "run", made))
    assert found.responses == len(made) - 2
    assert any(doubt.startswith("2 responses left out") for doubt in found.doubts)
    assert found.gap is not None
    assert found.gap.mean.value == pytest.approx(0.1, abs=1e-6)


@pytest.mark.parametrize(
    "path",
    [*sorted((SAMPLES / "team").glob("[cgr]*1")), SAMPLES / "trl_completions/completions"],
    ids=lambda path: path.name,
)
def test_sample_logs_give_a_named_skip(path: Path) -> None:
    found = measured(open_run(path))
    assert found.gap is None
    assert "logp_sampler" in found.skipped[0].needs

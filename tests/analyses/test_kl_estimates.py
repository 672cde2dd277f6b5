"""KL estimates against loops over tokens, exact enumeration and simulation."""

from __future__ import annotations

import math
import statistics
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from synthetic import rollouts, standardised, with_advantages, write

from audit.analyses.bucket_shares import standard_error
from audit.analyses.kl_estimates import KLReport, kl_report
from audit.analyses.kl_estimates_gradient import gradient_share
from audit.analyses.pareto import pareto_k
from audit.facts.chosen import chosen_objective
from audit.facts.declared import declared_objective
from audit.facts.rows import RunRows
from audit.facts.weigh import weigh
from audit.importers import open_run
from audit.logs import Run
from audit.stats import ratio_of_sums

SAMPLES = Path(__file__).parents[2] / "sample_logs"


def measured(run: Run) -> KLReport:
    rows = RunRows.read(run)
    if declared_objective(run) is None:
        return kl_report(rows, None)
    return kl_report(rows, *chosen_objective(rows, None))


def value(result: KLReport, of: str, per: str, estimator: str, corrected: bool = False) -> float:
    [one] = [
        e.value.value
        for e in result.estimates
        if (e.of, e.per, e.estimator, e.corrected) == (of, per, estimator, corrected)
    ]
    assert one is not None
    return one


def f32(x: float) -> float:
    return struct.unpack("f", struct.pack("f", x))[0]


def k(d: float, estimator: str) -> float:
    return {"k1": d, "k2": d * d / 2, "k3": math.exp(-d) - 1 + d}[estimator]


@pytest.fixture(scope="module")
def rows() -> list[dict[str, Any]]:
    made = with_advantages(rollouts(steps=6), standardised(1, 1e-4))
    for at, row in enumerate(made):
        row["loss_mask"] = [(at + t) % 4 > 0 for t in range(row["length"])]
    return made


@pytest.fixture(scope="module")
def result(rows: list[dict[str, Any]], tmp_path_factory: pytest.TempPathFactory) -> KLReport:
    return measured(write(tmp_path_factory.mktemp("kl") / "run", rows, "grpo", group_size=8))


@pytest.mark.parametrize("estimator", ["k1", "k2", "k3"])
def test_estimates_are_those_of_a_loop_over_tokens(
    rows: list[dict[str, Any]], result: KLReport, estimator: str
) -> None:
    for of in ("theta", "old"):
        total = corrected = count = 0.0
        sequence, weighted = [], []
        for row in rows:
            if of == "old" and row["epoch"] > 0:
                continue
            d, log = [], []
            for t in range(row["length"]):
                if row["loss_mask"][t]:
                    theta, old, ref = (f32(row[f"logp_{p}"][t]) for p in ("theta", "old", "ref"))
                    d.append((theta if of == "theta" else old) - ref)
                    log.append(theta - old)
            total += sum(k(x, estimator) for x in d)
            corrected += sum(math.exp(r) * k(x, estimator) for x, r in zip(d, log, strict=True))
            count += len(d)
            if d:
                sequence.append(k(math.fsum(d), estimator))
                weighted.append(math.exp(math.fsum(log)) * sequence[-1])
        assert value(result, of, "token", estimator) == pytest.approx(total / count)
        assert value(result, of, "sequence", estimator) == pytest.approx(statistics.fmean(sequence))
        if of == "theta":
            assert value(result, of, "token", estimator, True) == pytest.approx(corrected / count)
            assert value(result, of, "sequence", estimator, True) == pytest.approx(statistics.fmean(weighted))


def test_weights_of_the_correction_are_those_of_a_loop(rows: list[dict[str, Any]], result: KLReport) -> None:
    w = []
    for row in rows:
        held = [t for t in range(row["length"]) if row["loss_mask"][t]]
        if held:
            w.append(math.exp(math.fsum(f32(row["logp_theta"][t]) - f32(row["logp_old"][t]) for t in held)))
    assert result.correction is not None
    assert result.correction.ess.value == pytest.approx(sum(w) ** 2 / (len(w) * sum(x * x for x in w)))
    assert result.correction.pareto_k == pytest.approx(pareto_k(np.log(w))[0])


def test_weights_without_a_mean_make_corrected_values_doubtful(tmp_path: Path) -> None:
    made = rollouts(steps=20, epochs=1)
    for at, row in enumerate(made):
        shift = 3.0 * -math.log((at + 0.5) / len(made))
        row["logp_theta"] = [row["logp_old"][0] + shift, *row["logp_old"][1:]]
    found = measured(write(tmp_path / "run", made))
    assert found.correction is not None
    assert (found.correction.pareto_k or 0) > 1
    assert any("corrected values per sequence cannot be trusted" in doubt for doubt in found.doubts)


def test_drift_is_that_of_a_loop(rows: list[dict[str, Any]], result: KLReport) -> None:
    logs = [
        f32(row["logp_theta"][t]) - f32(row["logp_old"][t])
        for row in rows
        for t in range(row["length"])
        if row["loss_mask"][t]
    ]
    assert result.drift is not None
    assert result.drift.k1.value == pytest.approx(-statistics.fmean(logs))
    assert result.drift.k2.value == pytest.approx(statistics.fmean(x * x / 2 for x in logs))
    assert result.drift.k3.value == pytest.approx(statistics.fmean(math.expm1(x) - x for x in logs))


def test_correction_makes_k1_and_k3_exact_where_old_is_what_was_sampled(tmp_path: Path) -> None:
    old, theta, ref = (4, 2, 2), (0.2, 0.5, 0.3), (0.6, 0.1, 0.3)
    exact = sum(p * math.log(p / q) for p, q in zip(theta, ref, strict=True))
    drift = sum(n / 8 * math.log(n / 8 / p) for n, p in zip(old, theta, strict=True))
    made = []
    # Every token as often as old samples it: means are expectations under old.
    for at, token in enumerate(i for i, n in enumerate(old) for _ in range(n)):
        made.append(
            {
                "step": 1,
                "prompt_id": f"p{at % 4}",
                "group_id": f"g{at % 4}",
                "sample_index": at // 4,
                "reward": 0.0,
                "token_ids": [token],
                "logp_old": [math.log(old[token] / 8)],
                "logp_theta": [math.log(theta[token])],
                "logp_ref": [math.log(ref[token])],
            }
        )
    found = measured(write(tmp_path / "run", made))
    for per in ("token", "sequence"):
        assert value(found, "theta", per, "k1", True) == pytest.approx(exact, rel=1e-6)
        assert value(found, "theta", per, "k3", True) == pytest.approx(exact, rel=1e-6)
    assert abs(value(found, "theta", "token", "k1") - exact) > 0.1
    assert found.drift is not None
    assert found.drift.k1.value == pytest.approx(drift, rel=1e-6)
    assert found.drift.k3.value == pytest.approx(drift, rel=1e-6)
    assert "an objective" in found.skipped[-1].needs


def test_pulls_are_the_slopes_and_their_cosines(rows: list[dict[str, Any]], result: KLReport) -> None:
    d, rho = [], []
    for row in rows:
        for t in range(row["length"]):
            if row["loss_mask"][t]:
                theta, old, ref = (f32(row[f"logp_{p}"][t]) for p in ("theta", "old", "ref"))
                d.append(theta - ref)
                rho.append(math.exp(theta - old))
    h = {
        "k1": [1.0] * len(d),
        "k2": d,
        "k3": [1 - math.exp(-x) for x in d],
        "rho k3": [r * x for r, x in zip(rho, d, strict=True)],
    }
    assert [pull.form for pull in result.pulls] == list(h)
    for pull in result.pulls:
        of = np.array(h[pull.form])
        assert pull.mean.value == pytest.approx(of.mean())
        cosine = of @ np.array(d) / np.linalg.norm(of) / np.linalg.norm(d)
        assert pull.alignment.value == pytest.approx(cosine)


@pytest.mark.parametrize(
    "name", ["grpo", {"name": "grpo", "kl": {"loss": {"coefficient": 0.1, "gradient": "ratio"}}}]
)
@pytest.mark.parametrize("by_token", [False, True])
def test_share_of_the_gradient_is_that_of_the_weights(
    tmp_path: Path, rows: list[dict[str, Any]], name: Any, by_token: bool
) -> None:
    made = rows
    if by_token:
        made = [row | {"token_advantage": [row["advantage"]] * row["length"]} for row in rows]
    of = RunRows.read(write(tmp_path / "run", made, name))
    objective, _ = chosen_objective(of, None)
    share = gradient_share(of, objective)
    assert share is not None
    policy = kl = cross = 0.0
    for batch in weigh(of, objective):
        policy += float(batch.weights.policy.square().sum())
        kl += float(batch.weights.kl.square().sum())
        cross += float((batch.weights.kl * batch.weights.policy).sum())
    assert share.ratio.value == pytest.approx(math.sqrt(kl / policy))
    assert share.share.value == pytest.approx(kl / (kl + policy))
    assert share.cosine.value == pytest.approx(cross / math.sqrt(kl * policy))


def test_effective_beta_is_the_coefficient_times_the_std_of_live_groups(
    rows: list[dict[str, Any]], result: KLReport
) -> None:
    groups: dict[str, list[float]] = {}
    for row in rows:
        if row["epoch"] == 0:
            groups.setdefault(row["group_id"], []).append(row["reward"])
    stds = [statistics.pstdev(rewards) for rewards in groups.values() if len(set(rewards)) > 1]
    own = result.placement
    assert own is not None
    assert own.where == "loss"
    assert own.coefficient == 0.04
    assert own.group_std is not None
    assert own.group_std.value == pytest.approx(statistics.fmean(stds))
    assert own.effective_beta is not None
    assert own.effective_beta.value == pytest.approx(0.04 * statistics.fmean(stds))
    assert own.group_std.n == len(stds)
    half = next(one for one in own.by_rate if one.rate == 0.5)
    factor = sum(math.comb(8, n) / 256 * math.sqrt(n / 8 * (1 - n / 8)) for n in range(9)) / 0.25
    assert half.beta == pytest.approx(0.04 / factor)


PENALISED = {"name": "rloo", "kl": {"reward": {"coefficient": 0.05}}}


def _within(groups: list[str], values: list[float]) -> float:
    """Standard deviation about the mean of each group."""
    of_group: dict[str, list[float]] = {}
    for group, value in zip(groups, values, strict=True):
        of_group.setdefault(group, []).append(value)
    squares = [(v - statistics.fmean(each)) ** 2 for each in of_group.values() for v in each]
    return math.sqrt(statistics.fmean(squares))


def test_kl_in_the_reward_is_told_with_its_size(tmp_path: Path, rows: list[dict[str, Any]]) -> None:
    own = measured(write(tmp_path / "run", rows, PENALISED, group_size=8)).placement
    assert own is not None
    assert own.where == "reward"
    assert own.penalty is not None
    assert own.coefficient is not None
    paid = [
        own.coefficient
        * sum(
            f32(o) - f32(r)
            for o, r, m in zip(row["logp_old"], row["logp_ref"], row["loss_mask"], strict=True)
            if m
        )
        for row in rows
        if row["epoch"] == 0
    ]
    assert own.penalty.mean.value == pytest.approx(statistics.fmean(paid))
    first = [row for row in rows if row["epoch"] == 0]
    assert own.penalty.spread == pytest.approx(
        _within([row["group_id"] for row in first], paid)
        / _within([row["group_id"] for row in first], [row["reward"] for row in first])
    )
    none = measured(write(tmp_path / "none", rows, "dr_grpo")).placement
    assert none is not None
    assert none.where == "none"


@pytest.mark.parametrize(("shift", "state"), [(0.0, "same"), (0.5, "different")])
def test_the_first_step_tells_whether_the_reference_is_where_training_began(
    tmp_path: Path, shift: float, state: str
) -> None:
    made = rollouts(steps=3, epochs=1)
    for row in made:
        row["logp_theta"] = row["logp_old"]
        row["logp_ref"] = [x + shift for x in row["logp_old"]]
    found = measured(write(tmp_path / "run", made))
    assert [one.state for one in found.start] == [state] * 2
    assert ("not exactly 0" in found.verdict) == (state != "same")
    assert any("no samples of theta" in doubt or "below 0" in doubt for doubt in found.doubts) == (shift > 0)


def test_noise_without_direction_is_called_noise(tmp_path: Path) -> None:
    made = rollouts(steps=3, epochs=1)
    for row in made:
        row["logp_theta"] = row["logp_old"]
        row["logp_ref"] = [x + (0.01 if t % 2 else -0.01) for t, x in enumerate(row["logp_old"])]
    assert measured(write(tmp_path / "run", made)).start[0].state == "nearly"


def test_one_heavy_response_is_named(tmp_path: Path) -> None:
    made = rollouts(steps=3, epochs=1)
    made[5]["logp_ref"] = [x + 9.0 for x in made[5]["logp_ref"]]
    found = measured(write(tmp_path / "run", made))
    assert any("one response holds" in doubt for doubt in found.doubts)


def test_standard_error_is_the_spread_of_repeated_estimates() -> None:
    rng = np.random.default_rng(4)
    prompt = np.repeat(np.arange(60), 4)
    values, errors, covered = [], [], 0
    for _ in range(600):
        y = rng.integers(1, 20, size=240).astype(float)
        x = y * (0.5 + rng.normal(0, 0.2, size=60)[prompt]) + rng.normal(0, 1, size=240)
        error = standard_error(x, y, prompt)
        assert error is not None
        values.append(x.sum() / y.sum())
        errors.append(error)
        covered += abs(values[-1] - 0.5) < 2 * error
    assert statistics.fmean(errors) == pytest.approx(statistics.stdev(values), rel=0.08)
    assert 0.92 <= covered / 600 <= 0.98
    assert standard_error(x[:4], y[:4], prompt[:4]) is None
    interval = ratio_of_sums(x, y, prompt, 240)
    assert interval.low is not None
    assert interval.high is not None
    assert (interval.high - interval.low) / 4 == pytest.approx(errors[-1], rel=0.2)


@pytest.mark.parametrize(
    "path",
    [*sorted((SAMPLES / "team").glob("[cgr]*1")), SAMPLES / "trl_completions/completions"],
    ids=lambda path: path.name,
)
def test_sample_logs_give_a_result_or_a_named_skip(path: Path) -> None:
    found = measured(open_run(path))
    assert found.estimates or found.skipped
    assert found.verdict


def test_pulls_leave_out_responses_without_log_probs(tmp_path: Path) -> None:
    rows = with_advantages(rollouts(), standardised(0, 0.0))
    for row in rows[::5]:
        row["logp_theta"] = None
    found = measured(write(tmp_path / "run", rows, "grpo"))
    d = np.array(
        [
            f32(theta) - f32(ref)
            for row in rows
            if row["logp_theta"] is not None
            for theta, ref in zip(row["logp_theta"], row["logp_ref"], strict=True)
        ]
    )
    k1, k2 = found.pulls[0], found.pulls[1]
    assert k1.alignment.value == pytest.approx(d.sum() / math.sqrt(len(d)) / np.linalg.norm(d))
    assert k2.mean.value == pytest.approx(d.mean())
    assert k1.alignment.n == k1.mean.n == k2.mean.n == sum(row["logp_theta"] is not None for row in rows)

"""Observed prompt-weight factors against loops and numeric integration, and simulated runs."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate, stats
from synthetic import write

from audit.analyses.observed_factor import _Curve, observed_factors, prepared_factor
from audit.analyses.prompt_factor import prompt_factors, reward_factor
from audit.analyses.rate_bins import rate_bins
from audit.analyses.samples import samples_of
from audit.errors import AuditError, BadObjective
from audit.facts.rows import RunRows
from audit.objectives.catalogue import named


def simulated(path, seed: int, *, prompts: int = 60, visits: int = 6, size: int = 8, values=(0.0, 1.0)):
    """A run whose prompts keep their success rates."""
    rng = np.random.default_rng(seed)
    rates = rng.uniform(0.02, 0.98, prompts)
    data = [
        {"step": v, "prompt_id": f"p{p}", "group_id": f"{v}-{p}", "sample_index": i, "reward": values[won]}
        for v in range(visits)
        for p in range(prompts)
        for i, won in enumerate((rng.random(size) < rates[p]).astype(int).tolist())
    ]
    return data, RunRows.read(write(path, data))


def factor_of(rows, objective, stated=None):
    samples = samples_of(rows)
    bins = rate_bins(samples)
    return observed_factors(
        samples, bins, [prepared_factor(rows, samples, bins, objective, stated or objective)]
    )[0]


@pytest.mark.parametrize("name", ["grpo", "dr_grpo", "reinforce", "rloo"])
@pytest.mark.parametrize("rate", [0.05, 0.5, 0.8])
def test_at_one_rate_the_expectation_is_the_exact_factor(name, rate) -> None:
    found = _Curve(named(name), 8, np.array([0.0, 1.0])).expected(np.array(rate), np.array(0.0))
    (exact,) = prompt_factors(named(name), 8, [rate])
    assert float(found) == pytest.approx(exact.factor, rel=1e-9)


@pytest.mark.parametrize(
    ("name", "values"), [("grpo", (0.0, 1.0)), ("grpo", (-1.0, 1.0)), ("reinforce", (0.0, 1.0))]
)
@pytest.mark.parametrize(("a", "b"), [(2.0, 3.0), (1.5, 7.0)])
def test_over_a_beta_distribution_the_expectation_is_an_integral(name, values, a, b) -> None:
    objective, low, high = named(name), *values
    spread = stats.beta(a, b)

    def weight(p: float) -> float:
        return spread.pdf(p) * p * (1 - p)

    def weighed(p: float) -> float:
        return reward_factor(objective, 5, (low, high), (1 - p, p)).factor * weight(p)

    whole = integrate.quad(weight, 0, 1)[0]
    exact = integrate.quad(weighed, 1e-6, 1 - 1e-6, epsabs=1e-8)[0] / whole
    mean = integrate.quad(lambda p: p * weight(p), 0, 1)[0] / whole
    variance = integrate.quad(lambda p: (p - mean) ** 2 * weight(p), 0, 1)[0] / whole
    found = _Curve(objective, 5, np.array(values)).expected(np.array(mean), np.array(variance))
    assert float(found) == pytest.approx(exact, rel=1e-5)


@pytest.mark.parametrize(("a", "b"), [(0.3, 1.2), (0.6, 0.2), (1.4, 0.05)])
@pytest.mark.parametrize("name", ["grpo", "reinforce", "rloo"])
def test_prompts_that_are_hardly_ever_or_nearly_always_solved_are_expected_by_the_same_integral(
    name, a, b
) -> None:
    # Beta(a, b) under the weights p (1 - p): with a or b below 1 the prompts themselves have no distribution.
    def factor(p: float) -> float:
        p = min(max(p, 1e-12), 1 - 1e-12)
        return reward_factor(named(name), 8, (0.0, 1.0), (1 - p, p)).factor

    ends = {"weight": "alg", "wvar": (a - 1, b - 1), "limit": 200}
    exact = integrate.quad(factor, 0, 1, **ends)[0] / integrate.quad(lambda p: 1.0, 0, 1, **ends)[0]
    mean, variance = stats.beta.stats(a, b)
    found = _Curve(named(name), 8, np.array([0.0, 1.0])).expected(np.array(mean), np.array(variance))
    assert float(found) == pytest.approx(exact, rel=1e-6)


def test_the_observed_factor_is_a_ratio_of_sums_over_groups(tmp_path) -> None:
    data, rows = simulated(tmp_path / "run", 0, prompts=10)
    found = factor_of(rows, named("grpo"))
    rewards: dict[tuple[str, int], list[float]] = {}
    for row in data:
        rewards.setdefault((row["prompt_id"], row["step"]), []).append(row["reward"])
    sums: dict[int, list[float]] = {}
    edges = [0.1, 0.3, 0.5, 0.7, 0.9]
    for (prompt, step), r in rewards.items():
        near = [s for s in (step + 1, step - 1) if 0 <= s < 6]
        near += [s for s in (step + 2, step - 2) if 0 <= s < 6][: 2 - len(near)]
        rate = np.mean([rewards[prompt, s] for s in near])
        place = sum(rate >= edge for edge in edges)
        own = sums.setdefault(place, [0.0, 0.0, 0])
        g = np.array(r)
        own[0] += float(((g - g.mean()) / g.std() * g).sum()) if g.std() else 0.0
        own[1] += float(((g - (g.sum() - g) / 7) * g).sum())
        own[2] += 1
    assert len(found.bins) == len(sums)
    for each in found.bins:
        a, b, n = sums[[0.0, 0.1, 0.3, 0.5, 0.7, 0.9].index(each.low)]
        assert each.observed.n == n
        assert each.observed.value == pytest.approx(a / b)


def test_a_run_that_does_what_it_says_is_where_it_should_be(tmp_path) -> None:
    objective, covers, bins = named("grpo"), 0, 0
    for seed in range(8):
        _, rows = simulated(tmp_path / f"run{seed}", seed)
        for each in factor_of(rows, objective).bins:
            if each.difference.low is not None:
                covers += each.difference.low <= 0.0 <= each.difference.high
                bins += 1
    assert bins >= 40
    assert covers >= 0.88 * bins


def test_another_scale_than_declared_is_told_apart(tmp_path) -> None:
    _, rows = simulated(tmp_path / "run", 1)
    found = factor_of(rows, named("rloo"), named("grpo"))
    assert all(each.difference.high < -0.5 for each in found.bins if each.difference.high is not None)
    assert all(each.observed.value == pytest.approx(1.0) for each in found.bins)


def test_an_objective_without_baseline_is_not_misjudged_by_unlucky_visits(tmp_path) -> None:
    differences = []
    for seed in range(6):
        _, rows = simulated(tmp_path / f"run{seed}", seed, visits=8)
        differences += [each.difference.value for each in factor_of(rows, named("reinforce")).bins[:3]]
    assert abs(np.mean(differences)) < 0.15


def test_rewards_of_three_values_or_of_the_log_have_no_such_curve(tmp_path) -> None:
    data, rows = simulated(tmp_path / "run", 0, prompts=4)
    with pytest.raises(BadObjective):
        factor_of(rows, named("ppo"))
    data[0]["reward"] = 0.5
    with pytest.raises(AuditError, match="two values"):
        factor_of(RunRows.read(write(tmp_path / "other", data)), named("grpo"))

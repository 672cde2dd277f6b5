"""Several runs: distances by a slow loop over tokens, clusters and splits by hand, Welch by SciPy."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import ttest_ind
from synthetic import rollouts, write

import audit
from audit.analyses.distances import DistanceMatrix
from audit.analyses.explain_many import MOST_RUNS, explain_many, labels_of
from audit.analyses.outcome_distance import seed_noise
from audit.analyses.run_clusters import Fork, clusters_of
from audit.analyses.run_distance import cosine_distances, objective_distances
from audit.analyses.run_fields import Configuration
from audit.analyses.run_outcomes import RunOutcome
from audit.analyses.run_splits import PairCause, separating, splits_of
from audit.analyses.seed_comparison import seed_comparisons, spreads
from audit.errors import AuditError
from audit.facts.rows import RunRows
from audit.facts.weigh import weigh
from audit.objectives.catalogue import named
from audit.stats import Estimate

NAMES = ("grpo", "dr_grpo", "rloo")


@pytest.fixture(scope="module")
def three(tmp_path_factory):
    root = tmp_path_factory.mktemp("three")
    return [
        write(root / name, rollouts(seed=seed, steps=4, groups=2), name, seed=seed)
        for seed, name in enumerate(NAMES)
    ]


@pytest.fixture(scope="module")
def found(three):
    return explain_many(three)


def matrix(names: list[str], values: list[list[float]]) -> DistanceMatrix:
    cells = [[Estimate(v, None, None, 1) if np.isfinite(v) else None for v in row] for row in values]
    return DistanceMatrix("", "", names, cells, names, 1)


def slow_distance(runs: list[RunRows], one: str, other: str) -> float:
    """1 - cosine, token by token over all runs."""
    dot = a_square = b_square = 0.0
    for rows in runs:
        sides = []
        for name in (one, other):
            objective = named(name)
            if name == "dr_grpo":
                budget = float(max(rows.length))
                objective = objective.replace(
                    aggregation=type(objective.aggregation)(
                        kind=objective.aggregation.kind, constant=budget, scope=objective.aggregation.scope
                    )
                )
            sides.append(np.concatenate([batch.weights.weight.numpy() for batch in weigh(rows, objective)]))
        for x, y in zip(*(side.tolist() for side in sides), strict=True):
            dot, a_square, b_square = dot + x * y, a_square + x * x, b_square + y * y
    return 1.0 - dot / (a_square * b_square) ** 0.5


def test_distances_are_those_of_a_loop_over_tokens(three, found) -> None:
    rows = [RunRows.read(run) for run in three]
    assert found.objective is not None
    assert found.objective.on == list(NAMES)
    for i, j in itertools.combinations(range(3), 2):
        value = found.objective.array()[i, j]
        assert value == pytest.approx(slow_distance(rows, NAMES[i], NAMES[j]), abs=1e-9)
        cell = found.objective.values[i][j]
        assert cell.low <= value <= cell.high
        assert cell.n == sum(one.num_rows for one in rows)


def test_matrices_are_symmetric_and_zero_on_the_diagonal(found) -> None:
    array = found.objective.array()
    np.testing.assert_array_equal(array, array.T)
    np.testing.assert_array_equal(np.diag(array), 0.0)


def test_the_order_of_the_runs_changes_nothing_but_the_order(three, found) -> None:
    turned = audit.explain_many([run.path for run in three[::-1]])
    np.testing.assert_allclose(turned.objective.array()[::-1, ::-1], found.objective.array(), atol=1e-12)
    assert turned.clusters == found.clusters
    assert turned.configurations == found.configurations
    assert [(s.left, s.right) for s in turned.splits] == [(s.left, s.right) for s in found.splits]


def test_shares_of_the_parts_of_a_split_sum_to_the_whole(found) -> None:
    split = found.splits[-1]
    assert len(split.left) == len(split.right) == 1
    shares = {field.part: field.share for field in split.fields if field.share is not None}
    assert shares
    assert sum(share.value for share in shares.values()) == pytest.approx(1.0, abs=1e-9)
    assert {pair.causes[0] for pair in found.pairs} >= {"objective.aggregation"}
    assert [(pair.a, pair.b) for pair in found.pairs] == list(itertools.combinations(NAMES, 2))


def test_seeds_of_one_configuration_are_one_and_three_a_side_are_not_preliminary(tmp_path) -> None:
    def short(prompt: str, text: str, rng) -> float:
        return float(len(text) < 10)

    def often(prompt: str, text: str, rng) -> float:
        return float(len(text) < 18)

    runs = [
        write(
            tmp_path / f"{name}-{seed}",
            rollouts(seed=9 * seed, prompts=3, steps=4, epochs=1, reward=reward),
            name,
            seed=seed,
            config={"learning_rate": 1e-6, "seed": seed, "output_dir": f"/runs/{seed}"},
        )
        for name, reward in (("grpo", short), ("rloo", often))
        for seed in (1, 2, 3)
    ]
    made = explain_many(runs)
    assert [(c.name, c.seeds) for c in made.configurations] == [("grpo", [1, 2, 3]), ("rloo", [1, 2, 3])]
    assert not made.verdict.preliminary
    assert "reliminary" not in made.verdict.text
    (reward,) = [c for c in made.comparisons if c.metric == "reward"]
    assert reward.method == "welch"
    assert reward.apart
    assert "Beyond seed noise: reward" in made.verdict.text
    assert explain_many(runs[:3]).verdict.text.endswith("They differ in the seed alone.")


def test_a_run_that_declares_nothing_is_a_configuration_of_its_own(tmp_path, three) -> None:
    bare = [write(tmp_path / name, rollouts(seed=9, steps=4, groups=2)) for name in ("bare-1", "bare-2")]
    made = explain_many([*three, *bare])
    assert ["bare-1"] in [group.runs for group in made.configurations]
    assert np.isnan(made.objective.array()[3:]).all()
    assert {s.needs for s in made.skipped if "bare-1" in s.check} >= {
        "a declared objective, or logged advantages"
    }
    assert all("bare-1" not in cluster.runs for cluster in made.clusters)


def test_what_one_log_cannot_carry_is_weighed_on_the_others(tmp_path, three) -> None:
    rows = [{k: v for k, v in row.items() if k != "logp_ref"} for row in rollouts(seed=5, steps=4, groups=2)]
    bare = write(tmp_path / "no-reference", rows, "rloo")
    labels = [*NAMES, "no-reference"]
    objectives = [named(name) for name in (*NAMES, "rloo")]
    made, skipped = objective_distances(labels, [RunRows.read(run) for run in (*three, bare)], objectives)
    assert made.on == list(NAMES)
    assert ("objective distances on no-reference", "logp_ref") in [(s.check, s.needs) for s in skipped]
    assert made.array()[2, 3] == 0.0
    alone, skipped = objective_distances(
        labels[2:], [RunRows.read(bare)] * 2, [named("grpo"), named("dr_grpo")]
    )
    assert alone.on == labels[2:]
    assert ("objective distances of kl", "logp_ref") in [(s.check, s.needs) for s in skipped]


def test_more_runs_than_a_page_holds_are_refused(three) -> None:
    with pytest.raises(AuditError, match=f"up to {MOST_RUNS} runs; {MOST_RUNS + 1} were given"):
        explain_many([three[0]] * (MOST_RUNS + 1))


def test_runs_of_one_id_are_told_apart_by_their_paths(tmp_path) -> None:
    data = rollouts(steps=1, groups=1, epochs=1)
    runs = [write(tmp_path / place / "run", data, "grpo", run_id="run") for place in ("x", "y")]
    assert labels_of(runs) == ["run (x/run)", "run (y/run)"]


@given(st.integers(2, 5), st.integers(1, 6), st.integers(0, 10**6))
def test_cosines_are_those_of_vectors(kinds: int, size: int, seed: int) -> None:
    vectors = np.random.default_rng(seed).normal(size=(kinds, size))
    pairs = list(itertools.combinations(range(kinds), 2))
    totals = np.array([v @ v for v in vectors] + [vectors[i] @ vectors[j] for i, j in pairs])
    wanted = [
        1 - vectors[i] @ vectors[j] / np.linalg.norm(vectors[i]) / np.linalg.norm(vectors[j])
        for i, j in pairs
    ]
    np.testing.assert_allclose(cosine_distances(totals, kinds), wanted, atol=1e-12)


def test_two_clusters_made_by_hand() -> None:
    values = [[0, 9, 1, 8], [9, 0, 9, 1], [1, 9, 0, 8], [8, 1, 8, 0]]
    clusters, forks = clusters_of(matrix(["d", "b", "c", "a"], values), 2.0)
    assert [(c.name, c.runs) for c in clusters] == [("cluster 1", ["a", "b"]), ("cluster 2", ["c", "d"])]
    assert forks == [Fork(8.5, ["a", "b"], ["c", "d"])]
    nan = float("nan")
    clusters, forks = clusters_of(matrix(["a", "b", "c"], [[0, 1, nan], [1, 0, nan], [nan, nan, nan]]), 2.0)
    assert [c.runs for c in clusters] == [["a", "b"]]
    assert forks == []


@given(st.permutations(range(4)))
def test_names_of_clusters_do_not_depend_on_the_order(order: list[int]) -> None:
    values = np.array([[0, 1, 5, 5], [1, 0, 5, 5], [5, 5, 0, 3], [5, 5, 3, 0]], dtype=float)
    turned = matrix(["abcd"[i] for i in order], values[np.ix_(order, order)].tolist())
    clusters, forks = clusters_of(turned, 2.0)
    assert [c.runs for c in clusters] == [["a", "b"], ["c"], ["d"]]
    assert [f.height for f in forks] == [5.0, 3.0]


FIELDS = st.dictionaries(st.sampled_from(["objective.x", "config.y", "z"]), st.integers(0, 1))


@given(st.lists(FIELDS, min_size=2, max_size=5), st.integers(1, 4))
def test_fields_that_separate_are_constant_on_both_sides_and_differ(fields, at: int) -> None:
    at = min(at, len(fields) - 1)
    runs = {str(i): one for i, one in enumerate(fields)}
    left, right = list(runs)[:at], list(runs)[at:]
    got = {name for name, _, _ in separating(Fork(1.0, left, right), runs)}
    for name in ("objective.x", "config.y", "z"):
        sides = [{runs[run].get(name) for run in side} for side in (left, right)]
        wanted = len(sides[0]) == len(sides[1]) == 1 and sides[0] != sides[1]
        known = name.startswith("objective.") or None not in sides[0] | sides[1]
        assert (name in got) == (wanted and known)


def test_a_cause_splits_where_every_pair_across_names_it_and_none_within() -> None:
    def pair(a: str, b: str, *causes: str) -> PairCause:
        return PairCause(a, b, list(causes), None, None, "")

    across = [pair(a, b, "data.prompts", "staleness", "optimiser") for a in "ab" for b in "cd"]
    pairs = [
        *across[:3],
        pair("d", "b", "data.prompts", "staleness"),
        pair("a", "b", "staleness"),
        pair("c", "d"),
    ]
    fork = Fork(1.0, ["a", "b"], ["c", "d"])
    (split,) = splits_of([fork], {run: {} for run in "abcd"}, lambda side: side[0], lambda a, b: None, pairs)
    assert split.causes == ["data.prompts"]
    assert split.fields == []


def outcomes(values: dict[str, list[float]]) -> tuple[list[RunOutcome], list[Configuration]]:
    groups = [
        Configuration(name, [f"{name}{i}" for i in range(len(means))], []) for name, means in values.items()
    ]
    runs = [
        RunOutcome(run, {"reward": Estimate(mean, None, None, 1)})
        for group, means in zip(groups, values.values(), strict=True)
        for run, mean in zip(group.runs, means, strict=True)
    ]
    return runs, groups


MEANS = st.lists(st.floats(-5, 5).map(lambda x: round(x, 3)), min_size=3, max_size=6, unique=True)


@given(MEANS, MEANS)
def test_seeds_are_compared_as_scipy_does(a: list[float], b: list[float]) -> None:
    runs, groups = outcomes({"a": a, "b": b})
    (found,) = seed_comparisons(runs, ["reward"], groups)
    test = ttest_ind(b, a, equal_var=False)
    interval = test.confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((interval.low, interval.high), rel=1e-9, abs=1e-12)
    assert found.p == pytest.approx(test.pvalue, rel=1e-6, abs=1e-300)
    assert not found.preliminary
    noise, freedom = seed_noise(runs, ["reward"], groups)
    within = sum(np.var(x, ddof=1) * (len(x) - 1) for x in (a, b)) / (len(a) + len(b) - 2)
    assert freedom == len(a) + len(b) - 2
    assert noise["reward"] ** 2 == pytest.approx(within)


def test_one_seed_on_a_side_borrows_the_spread_of_the_others() -> None:
    runs, groups = outcomes({"a": [1.0], "b": [2.0, 2.2, 2.4], "c": [0.0, 0.3]})
    found = {(c.a, c.b): c for c in seed_comparisons(runs, ["reward"], groups)}
    alone = found["a", "b"]
    assert (alone.method, alone.preliminary, alone.n) == ("pooled", True, [1, 3])
    # Pooled over b and c: (0.08 + 0.045) / 3; t(3) at 0.975 is 3.18245.
    reach = 3.182446 * (0.125 / 3 * (1 + 1 / 3)) ** 0.5
    assert (alone.low, alone.high) == pytest.approx((1.2 - reach, 1.2 + reach), rel=1e-6)
    assert found["b", "c"].method == "welch"
    assert all(c.adjusted_p >= c.p for c in found.values())
    (spread,) = [s for s in spreads(runs, ["reward"], groups) if s.configuration == "a"]
    assert (spread.low, spread.sd, spread.n) == (None, None, 1)
    runs, groups = outcomes({"a": [1.0], "b": [2.0]})
    (nothing,) = seed_comparisons(runs, ["reward"], groups)
    assert (nothing.method, nothing.p, nothing.apart) == ("none", None, False)

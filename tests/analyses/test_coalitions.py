"""Shapley values against permutations, and the sums of hybrids against weights formed one by one."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from synthetic import rollouts, write

from audit.analyses.coalitions import (
    coalition_sums,
    contradictory,
    distances,
    hybrids,
    log_scales,
    shapley_matrix,
    tied_parts,
)
from audit.facts.rows import RunRows
from audit.facts.weigh import weigh
from audit.objectives.catalogue import CATALOGUE, named
from audit.objectives.objective import Aggregation, differing_parts


@given(st.integers(1, 4), st.data())
def test_shapley_is_the_mean_over_orders(k: int, data: st.DataObject) -> None:
    values = data.draw(st.lists(st.floats(-5, 5), min_size=2**k, max_size=2**k))
    expected = np.zeros(k)
    for order in itertools.permutations(range(k)):
        mask = 0
        for player in order:
            expected[player] += values[mask | 1 << player] - values[mask]
            mask |= 1 << player
    expected /= math.factorial(k)
    phi = shapley_matrix(k) @ np.array(values)
    assert phi == pytest.approx(expected, abs=1e-9)
    assert phi.sum() == pytest.approx(values[-1] - values[0], abs=1e-9)


def test_hybrids_take_exactly_the_parts_of_their_mask() -> None:
    a, b = named("grpo"), named("dapo")
    parts = differing_parts(a, b)
    made = hybrids(a, b, parts)
    assert made[0] == a
    assert made[-1].replace(name="dapo") == b
    for mask, objective in enumerate(made):
        for bit, part in enumerate(parts):
            assert getattr(objective, part) == getattr(b if mask >> bit & 1 else a, part)


@pytest.mark.parametrize("other", ["rloo", "dapo", "gspo", "cispo"])
def test_totals_are_the_inner_products_of_the_weight_vectors(tmp_path, other: str) -> None:
    rows = RunRows.read(write(tmp_path / "run", rollouts(steps=3)))
    a, b = named("grpo"), named(other)
    parts = differing_parts(a, b)
    sums = coalition_sums(rows, a, b, parts)
    count = 2 ** len(parts)

    def vector(objective) -> torch.Tensor:
        return torch.cat([batch.weights.weight for batch in weigh(rows, objective)])

    base = vector(a)
    totals = sums.sums.sum(axis=0)
    for mask, hybrid in enumerate(hybrids(a, b, parts)):
        w = vector(hybrid)
        assert totals[mask] == pytest.approx(float(w @ base), rel=1e-9)
        assert distances(totals, count)[mask] == pytest.approx(
            1.0 - float(torch.nn.functional.cosine_similarity(w, base, dim=0)), abs=1e-9
        )
        assert log_scales(totals, count)[mask] == pytest.approx(
            math.log(float(w.norm() / base.norm())), abs=1e-9
        )
    assert sums.sums.shape == (len(np.unique(rows.prompt)), 2 * count)


def test_a_constant_factor_changes_the_scale_and_not_the_direction(tmp_path) -> None:
    rows = RunRows.read(write(tmp_path / "run", rollouts(steps=2)))
    a = named("rloo")
    b = a.replace(aggregation=Aggregation(kind="seq-mean-token-sum-norm", constant=4.0))
    totals = coalition_sums(rows, a, b, ("aggregation",)).sums.sum(axis=0)
    assert distances(totals, 2)[1] == pytest.approx(0.0, abs=1e-12)
    assert log_scales(totals, 2)[1] == pytest.approx(-math.log(4.0))


@pytest.mark.parametrize("one", CATALOGUE)
def test_no_hybrid_contradicts_itself(one: str) -> None:
    for other in CATALOGUE:
        a, b = named(one), named(other)
        parts = tied_parts(a, b, differing_parts(a, b))
        names = [name for part in parts for name in part.split("+")]
        assert sorted(names) == sorted(differing_parts(a, b))
        for objective in hybrids(a, b, parts):
            assert not contradictory(objective)

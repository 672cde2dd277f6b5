"""Codes, masks and weights of responses as an objective needs them."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from synthetic import rollouts, write

from audit.errors import BadLog
from audit.facts.rows import RunRows, dense
from audit.objectives.objective import Objective


@given(st.lists(st.tuples(st.integers(-3, 3), st.integers(0, 2), st.integers(0, 4)), min_size=1, max_size=40))
def test_dense_codes_are_equal_exactly_where_the_tuples_are(tuples: list[tuple[int, int, int]]) -> None:
    code = dense(*(np.array(column) for column in zip(*tuples, strict=True)))
    assert set(code.tolist()) == set(range(len(set(tuples))))
    for i, a in enumerate(tuples):
        for j, b in enumerate(tuples):
            assert (code[i] == code[j]) == (a == b)


def test_an_inner_epoch_is_a_group_of_its_own_and_a_sample_counts_once(tmp_path) -> None:
    rows = RunRows.read(write(tmp_path / "run", rollouts(steps=2, groups=2, epochs=3)))
    assert rows.num_rows == 2 * 2 * 8 * 3
    assert len(np.unique(rows.sample)) == 2 * 2 * 3
    assert np.bincount(rows.sample).tolist() == [8] * 12


def test_without_update_the_step_and_epoch_name_the_update(tmp_path) -> None:
    data = rollouts(steps=2, groups=1)
    for row in data:
        del row["update"]
        row["step"] = 7 if row["step"] <= 2 else 8
    rows = RunRows.read(write(tmp_path / "run", data))
    assert len(np.unique(rows.update)) == 4


def test_the_generation_batch_is_the_update_unless_logged(tmp_path) -> None:
    data = rollouts(steps=2, groups=2, epochs=1)
    plain = RunRows.read(write(tmp_path / "a", data)).responses(Objective())
    assert np.array_equal(plain.generation_batch, plain.update)
    logged = RunRows.read(write(tmp_path / "b", [row | {"generation_batch": 5} for row in data]))
    assert len(np.unique(logged.responses(Objective()).generation_batch)) == 1


def test_rows_of_a_trajectory_share_one_sample(tmp_path) -> None:
    data = [
        row | {"trajectory_id": f"{row['group_id']}-{row['sample_index'] // 2}"} for row in rollouts(epochs=1)
    ]
    weight = RunRows.read(write(tmp_path / "run", data)).responses(Objective()).sample_weight
    assert weight is not None
    assert weight.tolist() == [0.5] * len(data)


def test_truncation_and_greedy_rows(tmp_path) -> None:
    data = rollouts(epochs=1)
    data[3]["is_greedy"] = True
    responses = RunRows.read(write(tmp_path / "run", data)).responses(Objective())
    assert responses.greedy is not None
    assert np.flatnonzero(responses.greedy).tolist() == [3]
    assert responses.truncated is not None
    assert responses.truncated.tolist() == [row["finish_reason"] == "length" for row in data]


def test_unscorable_rewards_are_nan(tmp_path) -> None:
    data = rollouts(epochs=1)
    data[5]["reward"] = None
    reward = RunRows.read(write(tmp_path / "run", data)).responses(Objective()).reward
    assert np.flatnonzero(np.isnan(reward)).tolist() == [5]


def test_an_integer_that_no_float_equals_is_refused_and_not_rounded(tmp_path) -> None:
    data = [row | {"epoch": 0, "update": 2**53 + 1} for row in rollouts(steps=1, groups=1)]
    rows = RunRows.read(write(tmp_path / "run", data))
    with pytest.raises(BadLog, match=r"run: column 'update' holds integers beyond 2\*\*53"):
        rows.numpy("update")


@pytest.mark.parametrize("seed", range(6))
def test_components_are_those_of_the_maps_read_one_by_one(seed: int, monkeypatch) -> None:
    rng = np.random.default_rng(seed)
    kind = pa.map_(pa.string(), pa.float64())

    def some() -> list[tuple[str, float | None]] | None:
        values = [None, *range(9)]
        return None if rng.random() < 0.2 else [(rng.choice([*"abc"]), rng.choice(values)) for _ in range(3)]

    rows = [some() for _ in range(12)]
    column = pa.chunked_array([pa.array(rows, kind).slice(2, 5), pa.array(rows, kind).slice(7)])
    monkeypatch.setattr(RunRows, "num_rows", len(column))
    run = SimpleNamespace(responses=lambda _: {"reward_components": column}, columns=set())
    found = RunRows(run, None, None)._components
    wanted: dict[str, np.ndarray] = {}
    for row, pairs in enumerate(column.to_pylist()):
        for name, value in pairs or ():
            wanted.setdefault(name, np.full(len(column), np.nan))[row] = np.nan if value is None else value
    assert found.keys() == wanted.keys()
    for name, values in wanted.items():
        np.testing.assert_array_equal(found[name], values)


@pytest.mark.parametrize("seed", range(4))
def test_codes_are_ranks_of_distinct_tuples(seed: int) -> None:
    rng = np.random.default_rng(seed)
    columns = [rng.integers(-3, 9, 30), rng.integers(0, 10**12, 30) // 10**11, rng.integers(0, 10**15, 30)]
    columns[2][::3] = columns[2][0]
    tuples = list(zip(*(column.tolist() for column in columns), strict=True))
    ranks = {one: rank for rank, one in enumerate(sorted(set(tuples)))}
    assert dense(*columns).tolist() == [ranks[one] for one in tuples]

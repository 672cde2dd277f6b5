"""Sums of weights from facts against the streamed weights, and what of a log they read."""

from __future__ import annotations

import random

import numpy as np
import pytest
from synthetic import rollouts, standardised, with_advantages, write

from audit.errors import AuditError, MissingColumn
from audit.facts.rows import RunRows
from audit.facts.token_sums import token_sums
from audit.facts.weight_sums import inner_products, weight_sums
from audit.objectives.catalogue import CATALOGUE
from audit.objectives.objective import Correction, Filter, Objective, Ratio
from audit.objectives.parts import Aggregation


@pytest.fixture(scope="module")
def rows(tmp_path_factory) -> RunRows:
    rng = random.Random(5)
    data = with_advantages(rollouts(steps=3), standardised(0, 1e-6))
    for k, row in enumerate(data):
        row["loss_mask"] = [(k + i) % 4 > 0 for i in range(row["length"])]
        row["logp_theta"] = [x + rng.gauss(0.0, 0.3) for x in row["logp_old"]]
        row["logp_sampler"] = [x - abs(rng.gauss(0.0, 0.3)) for x in row["logp_old"]]
        row["entropy"] = [abs(x) for x in row["logp_old"]]
        row["value"] = [0.5 for _ in row["logp_old"]]
        row["reward_components"] = [("a", row["reward"]), ("b", 0.1)]
    data[9]["reward"] = float("nan")
    return RunRows.read(write(tmp_path_factory.mktemp("log") / "run", data))


EXTRA = [
    CATALOGUE["grpo"].objective.replace(name="truncated", filter=Filter(mask_truncated=True)),
    CATALOGUE["grpo"].objective.replace(name="alive", filter=Filter(dynamic_sampling=True)),
    CATALOGUE["dapo"].objective.replace(
        name="gated",
        ratio=Ratio(
            denominator="old",
            corrections=(Correction(action="gate", low=0.8, high=1.3, leaves_denominator=True),),
        ),
        aggregation=Aggregation(kind="token-mean"),
    ),
]
OBJECTIVES = [*(entry.objective for entry in CATALOGUE.values()), *EXTRA]


def fitting(rows: RunRows, objective: Objective) -> Objective:
    from audit.facts.budget import with_budget

    if objective.shaping.weights is not None:
        objective = objective.replace(shaping=type(objective.shaping)())
    return with_budget(objective, rows)[0]


@pytest.mark.parametrize("objective", OBJECTIVES, ids=lambda o: o.name)
def test_sums_are_those_of_the_streamed_weights(rows: RunRows, objective: Objective) -> None:
    objective = fitting(rows, objective)
    try:
        streamed = token_sums(rows, [objective]).sums[0]
    except AuditError as error:
        with pytest.raises(type(error)):
            weight_sums(rows, objective)
        return
    for found, expected in zip(weight_sums(rows, objective), streamed, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-16)


def test_inner_products_are_those_of_the_streamed_weights(rows: RunRows) -> None:
    names = ("grpo", "dr_grpo", "dapo", "gspo", "cispo", "rloo", "grpo_icepop", "sapo", "gmpo", "reinforce")
    objectives = [*(fitting(rows, CATALOGUE[name].objective) for name in names), *EXTRA]
    pairs = [(a, b) for a in objectives for b in objectives]
    at = [(i, j) for i in range(len(objectives)) for j in range(len(objectives))]
    streamed = token_sums(rows, objectives, at).products
    np.testing.assert_allclose(inner_products(rows, pairs), streamed, rtol=1e-10, atol=1e-18)


def test_one_that_is_weighed_by_token_beside_one_that_is_not(rows: RunRows) -> None:
    pair = [(CATALOGUE["grpo"].objective, CATALOGUE["clip_cov"].objective)]
    streamed = token_sums(rows, pair[0], [(0, 1)]).products
    np.testing.assert_allclose(inner_products(rows, pair), streamed, rtol=1e-12)


def test_a_missing_column_is_named(tmp_path) -> None:
    data = rollouts(steps=1)
    for row in data:
        del row["logp_ref"]
    bare = RunRows.read(write(tmp_path / "run", data))
    with pytest.raises(MissingColumn, match=r"KL in the loss \(grpo\).*logp_ref"):
        weight_sums(bare, CATALOGUE["grpo"].objective)


def test_no_token_column_is_read_twice(tmp_path, monkeypatch) -> None:
    from audit.facts.tokenpass.lists import TOKEN_COLUMNS
    from audit.logs import open_run
    from audit.logs.parquet_part import ParquetPart

    write(tmp_path / "run", rollouts(steps=3), "grpo")
    read: list[str] = []
    original = ParquetPart.batches

    def watched(self, columns, **options):
        read.extend(columns)
        return original(self, columns, **options)

    monkeypatch.setattr(ParquetPart, "batches", watched)

    def work() -> tuple[np.ndarray, np.ndarray]:
        rows = RunRows.read(open_run(tmp_path / "run"))
        grpo, dapo = CATALOGUE["grpo"].objective, CATALOGUE["dapo"].objective
        return weight_sums(rows, grpo).policy, inner_products(rows, [(grpo, dapo), (dapo, dapo)])

    first = work()
    assert set(read) & set(TOKEN_COLUMNS)
    read.clear()
    second = work()
    assert not set(read) & set(TOKEN_COLUMNS)
    np.testing.assert_array_equal(first[0], second[0])
    np.testing.assert_array_equal(first[1], second[1])

"""Shares of the weight by length, difficulty and sign are those of a sum over responses in a plain loop."""

from __future__ import annotations

import statistics
from collections import Counter

import pytest
from synthetic import rollouts, write

from audit.analyses.explain import known
from audit.analyses.weight_shifts import shifts_between, weight_shifts
from audit.errors import AuditError
from audit.facts.rows import RunRows
from audit.objectives.catalogue import named
from audit.objectives.objective import Objective


@pytest.fixture(scope="module")
def made() -> list[dict]:
    return rollouts(steps=8, epochs=1)


@pytest.fixture(scope="module")
def shifts(made, tmp_path_factory):
    run = write(tmp_path_factory.mktemp("runs") / "run", made, "grpo")
    return weight_shifts([RunRows.read(run)], Objective(), named("dr_grpo"))


def advantages(made) -> list[float]:
    groups: dict[str, list[float]] = {}
    for row in made:
        groups.setdefault(row["group_id"], []).append(row["reward"])
    return [row["reward"] - statistics.fmean(groups[row["group_id"]]) for row in made]


def test_shares_sum_to_one_and_moves_to_zero(shifts) -> None:
    for part in (shifts.by_length, shifts.by_difficulty, shifts.by_sign):
        assert sum(shift.a.value for shift in part) == pytest.approx(1.0)
        assert sum(shift.b.value for shift in part) == pytest.approx(1.0)
        assert sum(shift.moved.value for shift in part) == pytest.approx(0.0, abs=1e-12)
        assert all(s.moved.low <= s.b.value - s.a.value <= s.moved.high for s in part)


def test_shares_by_length_are_those_of_a_loop(made, shifts) -> None:
    # Dr. GRPO: every token of a response weighs its centred reward, by a constant.
    total: Counter[str] = Counter()
    names = {
        length: shift.name
        for shift in shifts.by_length
        for first, _, last in [shift.name.partition("–")]
        for length in range(int(first), int(last or first) + 1)
    }
    for row, advantage in zip(made, advantages(made), strict=True):
        total[names[row["length"]]] += abs(advantage) * row["length"]
    whole = sum(total.values())
    for shift in shifts.by_length:
        assert shift.b.value == pytest.approx(total[shift.name] / whole)
        n = sum(names[row["length"]] == shift.name for row in made)
        assert shift.responses == pytest.approx(n / len(made))
    assert len(shifts.by_length) == 10
    assert shifts.n == len(made)


def test_one_objective_against_itself_moves_nothing(made, tmp_path) -> None:
    rows = RunRows.read(write(tmp_path / "run", made, "grpo"))
    for part in (same := weight_shifts([rows], Objective(), Objective())).by_length, same.by_sign:
        assert all(shift.moved.value == shift.moved.low == shift.moved.high == 0.0 for shift in part)


def test_long_answers_gain_where_the_length_is_not_divided_by(made, tmp_path) -> None:
    a = known(write(tmp_path / "a", made, "grpo"))
    b = known(write(tmp_path / "b", rollouts(steps=8, seed=1, epochs=1), "dr_grpo"))
    found = shifts_between(a, b)
    assert found.on == ["a", "b"]
    assert found.by_length[0].moved.value < 0 < found.by_length[-1].moved.value
    assert found.by_length[-1].moved.excludes(0.0)


def test_an_unknown_objective_is_said(made, tmp_path) -> None:
    a = known(write(tmp_path / "a", made, "grpo"))
    b = known(write(tmp_path / "b", made))
    with pytest.raises(AuditError, match="of b would be needed"):
        shifts_between(a, b)

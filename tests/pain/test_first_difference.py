"""Two runs that should be one: P39 of the reports, against the rows that were changed."""

from __future__ import annotations

import copy

import pytest
from builder import Rows, healthy, write

from audit.analyses.explain import explain


def parted(tmp_path, a: Rows, b: Rows) -> str | None:
    return explain(write(tmp_path / "a", a), write(tmp_path / "b", b)).first_difference


@pytest.mark.parametrize(
    ("since", "column"), [(1, "advantage"), (4, "advantage"), (2, "logp_old"), (3, "reward")]
)
def test_the_first_step_and_column_that_differ(tmp_path, since, column) -> None:
    a = healthy(seed=1, steps=6, size=5, groups=2)
    b = copy.deepcopy(a)
    changed = 0
    for row in b:
        if row["step"] >= since and row["sample_index"] != 0:
            changed += row["step"] == since
            if column == "logp_old":
                row[column] = [x - 0.01 for x in row[column]]
            else:
                row[column] += 0.25
    name = {"advantage": "advantages", "logp_old": "log-probs of the old policy", "reward": "rewards"}[column]
    total = sum(row["step"] == since for row in a)
    said = f"Row by row the first difference is at step {since}, in {name} ({changed} of {total} rows)"
    found = parted(tmp_path, a, b)
    assert found == said + (f"; none before step {since}." if since > 1 else ".")


def test_runs_that_draw_other_prompts_from_a_step_on(tmp_path) -> None:
    a, c = healthy(seed=1, steps=10), healthy(seed=99, steps=10)
    b = [row for row in a if row["step"] < 9] + [row for row in c if row["step"] >= 9]
    found = parted(tmp_path, a, b)
    assert found is not None
    assert "first difference is at step 9, in prompts" in found
    assert "none before step 9" in found


def test_one_log_twice(tmp_path) -> None:
    a = healthy(seed=2, steps=4)
    found = parted(tmp_path, a, list(reversed(copy.deepcopy(a))))
    assert found is not None
    assert f"equal over their 4 common steps ({len(a):,} rows)" in found


def test_runs_of_other_samples_are_not_paired(tmp_path) -> None:
    assert parted(tmp_path, healthy(seed=3, steps=5), healthy(seed=4, steps=5)) is None


@pytest.mark.parametrize("seed", [104, 116])
def test_two_prompts_are_too_few_for_a_temperature(tmp_path, seed) -> None:
    a, b = (healthy(seed=s, steps=30, prompts=2, groups=2, size=6) for s in (seed, seed + 1))
    found = explain(write(tmp_path / "a", a), write(tmp_path / "b", b))
    assert found.verdict.causes == []
    early = [effect for effect in found.measured if "log-prob of the samples" in effect.name]
    assert early
    assert all(effect.low < 0 < effect.high for effect in early)

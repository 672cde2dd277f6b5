"""Which objective made these advantages? Made in plain Python, named by the inference."""

from __future__ import annotations

import numpy as np
import pytest
from synthetic import Rows, centred, leave_one_out, rollouts, standardised, with_advantages, write

from audit.analyses.infer import infer
from audit.facts.rows import RunRows
from audit.objectives.catalogue import named


def as_float32(rows: Rows) -> Rows:
    return [row | {"advantage": float(np.float32(row["advantage"]))} for row in rows]


def inferred(tmp_path, rows: Rows, declared=None):
    return infer(RunRows.read(write(tmp_path / "run", as_float32(rows))), declared)


@pytest.mark.parametrize(
    ("make", "baseline", "scale", "ddof", "epsilon"),
    [
        (centred, "group_mean", "none", None, None),
        (leave_one_out, "leave_one_out", "none", None, None),
        (standardised(1, 1e-4), "group_mean", "group_std", 1, 1e-4),
        (standardised(0, 1e-3), "group_mean", "group_std", 0, 1e-3),
        (list, "none", "none", None, None),
    ],
)
def test_the_maker_is_named(tmp_path, make, baseline, scale, ddof, epsilon) -> None:
    found = inferred(tmp_path, with_advantages(rollouts(), make))
    assert found.status == "fits"
    assert found.best is not None
    assert (found.best.baseline, found.best.scale, found.best.ddof) == (baseline, scale, ddof)
    assert epsilon is None or found.best.epsilon == epsilon
    assert found.best.residual < 1e-6
    assert found.n == 12 * 4 * 8 * 2


def test_epsilons_that_the_log_cannot_tell_apart_are_all_named(tmp_path) -> None:
    found = inferred(tmp_path, with_advantages(rollouts(), standardised(1, 1e-8)))
    assert {c.epsilon for c in found.equivalent} == {0.0, 1e-8, 1e-6}
    assert {c.ddof for c in found.equivalent} == {1}


def test_a_contradicted_declaration_is_seen(tmp_path) -> None:
    rows = with_advantages(rollouts(), centred)
    found = inferred(tmp_path, rows, named("grpo"))
    assert found.agrees is False
    assert found.best is not None
    assert found.best.scale == "none"
    assert found.declared_residual > 0.1


def test_ddof_is_a_contradiction_too(tmp_path) -> None:
    found = inferred(tmp_path, with_advantages(rollouts(), standardised(1, 0.0)), named("grpo"))
    assert found.agrees is False
    assert found.declared_residual == pytest.approx(1 - (7 / 8) ** 0.5, rel=0.1)


def test_a_confirmed_declaration_agrees(tmp_path) -> None:
    found = inferred(tmp_path, with_advantages(rollouts(), standardised(0, 0.0)), named("grpo"))
    assert (found.status, found.agrees) == ("fits", True)


def test_advantages_that_nothing_made_are_not_forced_onto_a_candidate(tmp_path) -> None:
    rows = rollouts()
    for k, row in enumerate(rows):
        row["advantage"] = ((k * 7919) % 13) / 6.0 - 1.0
    found = inferred(tmp_path, rows)
    assert found.status == "none_fits"
    assert found.best is not None
    assert found.best.residual > 0.3


def test_kl_in_the_reward_is_found_with_its_coefficient(tmp_path) -> None:
    rows = rollouts()
    groups: dict[tuple[str, int], Rows] = {}
    for row in rows:
        groups.setdefault((row["group_id"], row["epoch"]), []).append(row)
    for group in groups.values():
        shaped = [
            row["reward"]
            - 0.05
            * sum(
                np.float32(o) - np.float32(r) for o, r in zip(row["logp_old"], row["logp_ref"], strict=True)
            )
            for row in group
        ]
        for row, advantage in zip(group, leave_one_out([float(s) for s in shaped]), strict=True):
            row["advantage"] = advantage
    found = inferred(tmp_path, rows)
    assert found.best is not None
    assert found.status == "fits"
    assert found.best.baseline == "leave_one_out"
    assert found.best.reward_kl == pytest.approx(0.05, rel=1e-3)


def test_without_advantages_it_is_skipped_with_the_column(tmp_path) -> None:
    found = infer(RunRows.read(write(tmp_path / "run", rollouts(steps=1))), named("grpo"))
    assert found.status == "skipped"
    assert "'advantage'" in found.reason
    assert found.agrees is None

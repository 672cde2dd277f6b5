"""Length pressure against plain loops, and the catalogue's against the run's own route."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from synthetic import rollouts, standardised, with_advantages, write

from audit.analyses.length import length_bias
from audit.analyses.length_catalogue import fitted, per_objective
from audit.analyses.length_pressure import length_pressure
from audit.analyses.length_rows import LengthRows, length_rows
from audit.facts.chosen import chosen_objective
from audit.facts.rows import RunRows
from audit.objectives.catalogue import CATALOGUE, named


def made_of(rows: list[tuple[int, int, float, float]]) -> tuple[LengthRows, np.ndarray]:
    """(group, correct, length, weight) of each response; two groups share a prompt."""
    group, correct, length, weight = (np.array(column, dtype=float) for column in zip(*rows, strict=True))
    data = LengthRows(
        rows=None,  # type: ignore[arg-type]
        length=length,
        unit="tokens",
        use=np.ones(len(rows), dtype=bool),
        correct=correct,
        correct_is="",
        absolute=True,
        group=group.astype(np.int64),
        cluster=group.astype(np.int64) // 2,
        step=group,
    )
    return data, weight


responses = st.lists(
    st.tuples(
        st.integers(0, 5), st.integers(0, 1), st.integers(1, 50), st.floats(-4, 4).map(lambda x: round(x, 3))
    ),
    min_size=1,
    max_size=40,
)


@given(responses)
def test_it_is_the_pooled_covariance_within_groups_by_plain_loops(rows) -> None:
    data, weight = made_of(rows)
    found = length_pressure(data, weight)
    sizes = [abs(w) for *_, w in rows if w]
    unit = math.fsum(sizes) / len(sizes) if sizes else 1.0
    for side, kept in (("correct", {1}), ("wrong", {0}), ("all", {0, 1})):
        top, bottom, n = 0.0, 0, 0
        for g in range(6):
            mine = [(length, w / unit) for group, right, length, w in rows if group == g and right in kept]
            if len(mine) < 2:
                continue
            n += len(mine)
            bottom += len(mine) - 1
            mean_length, mean_weight = (math.fsum(column) / len(mine) for column in zip(*mine, strict=True))
            top += math.fsum((length - mean_length) * (w - mean_weight) for length, w in mine)
        e = getattr(found, side)
        assert e.n == n
        if not bottom:
            assert e.value is None
            continue
        assert e.value == pytest.approx(top / bottom, rel=1e-9, abs=1e-9)
        if e.low is not None:
            assert e.low <= e.high


@given(responses, st.floats(0.01, 100))
def test_the_scale_of_the_weights_cancels(rows, factor: float) -> None:
    data, weight = made_of(rows)
    once, scaled = length_pressure(data, weight), length_pressure(data, factor * weight)
    for side in ("correct", "wrong", "all"):
        a, b = getattr(once, side).value, getattr(scaled, side).value
        assert (a is None) == (b is None)
        if a is not None:
            assert b == pytest.approx(a, rel=1e-9, abs=1e-9)


def test_every_entry_of_the_catalogue_is_what_its_own_audit_says(tmp_path) -> None:
    rows = RunRows.read(write(tmp_path / "run", with_advantages(rollouts(steps=6), standardised(0, 0.0))))
    data = length_rows(rows)
    listed = per_objective(data, tuple(CATALOGUE))
    assert [entry.objective for entry in listed] == list(CATALOGUE)
    for entry in listed[::4]:
        if entry.pressure is None:
            continue
        alone = length_bias(rows, *chosen_objective(rows, named(entry.objective)), others=())
        assert (alone.pressure, alone.slope.all, alone.law) == (entry.pressure, entry.slope, entry.law)


def test_the_mean_of_a_critic_s_advantages_is_no_push(tmp_path) -> None:
    rows = rollouts(steps=5, epochs=1)
    for row in rows:
        # Q - V sums to reward less value: its mean falls as 1 / length, whatever the objective pushes for.
        row["token_advantage"] = [(row["reward"] - 0.5) / row["length"]] * row["length"]
    found = length_bias(
        RunRows.read(write(tmp_path / "run", rows, "ppo")), named("ppo"), others=("ppo", "rloo")
    )
    assert (found.biased, found.pressure.correct.value, found.push_and_drift) == (False, None, None)
    assert "one advantage per response" in found.skipped[0].needs
    assert "not measurable" in found.verdict
    ppo, rloo = found.per_objective
    assert (ppo.pressure, ppo.law) == (None, "none")
    assert "one advantage per response" in ppo.skipped
    assert rloo.pressure.correct.value == 0.0


def test_what_a_log_cannot_carry_is_taken_out_and_named(tmp_path) -> None:
    rows = [
        {k: v for k, v in row.items() if k not in ("logp_theta", "micro_batch")} for row in rollouts(steps=3)
    ]
    data = length_rows(RunRows.read(write(tmp_path / "run", rows)))
    (bnpo,) = per_objective(data, ("bnpo",))
    assert any("ratio taken out: the log has no logp_theta" in part for part in bnpo.reduced)
    assert any("micro_batch" in part for part in bnpo.reduced)
    assert bnpo.law == "none"
    # The KL in the loss is no part of what the reward pushes for.
    assert fitted(data, named("grpo"))[0].kl.loss is None

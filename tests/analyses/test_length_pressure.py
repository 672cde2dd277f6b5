"""Length pressure against plain loops, and the catalogue's against the run's own route."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from synthetic import rollouts, standardised, with_advantages, write

from audit.analyses import length_catalogue
from audit.analyses.length import length_bias
from audit.analyses.length_catalogue import fitted, per_objective
from audit.analyses.length_pressure import length_pressure
from audit.analyses.length_rows import LengthRows, length_rows
from audit.facts.chosen import chosen_objective
from audit.facts.rows import RunRows
from audit.facts.step_sample import step_sample
from audit.objectives.catalogue import CATALOGUE, named
from audit.stats import Estimate


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
        assert alone.law == entry.law
        for side in ("correct", "wrong", "all"):
            assert_alike(getattr(alone.pressure, side), getattr(entry.pressure, side))
        assert entry.slope is not None
        assert_alike(alone.slope.all, entry.slope)


def assert_alike(a: Estimate, b: Estimate) -> None:
    """One from facts, the other from tokens: they differ in the order of sums alone."""
    assert a.n == b.n
    for one, other in ((a.value, b.value), (a.low, b.low), (a.high, b.high)):
        assert (one is None) == (other is None)
        if one is not None:
            assert one == pytest.approx(other, rel=1e-9, abs=1e-9)


def test_a_long_run_has_what_needs_every_token_measured_on_a_sample(tmp_path, monkeypatch) -> None:
    rows = RunRows.read(
        write(tmp_path / "run", with_advantages(rollouts(steps=20, epochs=1), standardised(0, 0.0)))
    )
    data, names = length_rows(rows), ("grpo", "sapo", "kl_cov", "ppo_gae")
    whole = per_objective(data, names)
    assert rows.facts is not None
    monkeypatch.setattr(length_catalogue, "SAMPLE_TOKENS", int(rows.facts["tokens"].sum()) // 4 + 1)
    grpo, sapo, kl_cov, ppo_gae = per_objective(data, names)
    assert grpo == whole[0]
    assert "value" in ppo_gae.skipped
    for found, of_run in ((sapo, whole[1]), (kl_cov, whole[2])):
        assert of_run.sample is None
        assert found.sample is not None
        assert (found.sample.steps, found.sample.of_steps) == (5, 20)
    # As of a log that holds the steps of the sample alone; the bootstrap meets its prompts in another order.
    sample = step_sample(rows, data.use, length_catalogue.SAMPLE_TOKENS)
    assert sample is not None
    alone = per_objective(length_rows(sample.rows), names)
    assert sapo.pressure is not None
    assert alone[1].pressure is not None
    for side in ("correct", "wrong", "all"):
        found, expected = (getattr(entry.pressure, side) for entry in (sapo, alone[1]))
        assert (found.value, found.n) == (pytest.approx(expected.value), expected.n)


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

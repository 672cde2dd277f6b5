"""Confounds of length by plain loops and regressions: truncation, length in the reward, how responses end."""

from __future__ import annotations

import numpy as np
import pytest
from synthetic import rollouts, write
from test_length_drift import dummies

from audit.analyses.length import length_bias
from audit.analyses.length_reward import reward_length
from audit.analyses.length_rows import length_rows
from audit.analyses.length_stops import stops
from audit.analyses.length_truncation import truncation
from audit.facts.rows import RunRows
from audit.objectives.catalogue import named


def rows_of(tmp_path, rows):
    return RunRows.read(write(tmp_path / "run", rows, sampling={"max_tokens": 20}))


def cut_scores_nothing(rows):
    """Responses that end by length get 0, and the grader's own column says the same."""
    for row in rows:
        if row["finish_reason"] == "length":
            row["reward"] = 0.0
        row["correct"] = row["reward"] == 1.0
    return rows


def test_truncation_and_its_reward_are_those_of_plain_sums(tmp_path) -> None:
    rows = cut_scores_nothing(rollouts(steps=20, epochs=1, longest=6))
    data = length_rows(rows_of(tmp_path, rows))
    found = truncation(data)
    cut = np.array([row["finish_reason"] == "length" for row in rows], dtype=float)
    reward = np.array([row["reward"] for row in rows])
    assert found.share.value == pytest.approx(cut.mean())
    assert found.correct_truncated.value == 0.0
    assert found.correct_other.value == pytest.approx(reward[cut == 0].mean())
    gap = np.linalg.lstsq(np.column_stack([cut, dummies(data.group)]), reward, rcond=None)[0][0]
    assert found.reward_gap.value == pytest.approx(gap)
    assert found.reward_gap.high < 0
    both = [g for g in np.unique(data.group) if 0 < cut[data.group == g].sum() < (data.group == g).sum()]
    assert found.reward_gap.n == np.isin(data.group, both).sum()
    shares = np.array(found.share_by_step)
    assert len(shares) == len(found.step) == 10
    assert shares.mean() == pytest.approx(cut.mean(), abs=0.02)
    said = length_bias(data.rows, named("dr_grpo"), others=())
    assert any("cut off by length; their reward differs" in doubt for doubt in said.doubts)
    assert "truncation" in said.verdict


def test_a_length_term_among_equally_correct_answers_is_found(tmp_path) -> None:
    rows = rollouts(steps=12, epochs=1)
    for row in rows:
        row["correct"] = row["reward"] == 1.0
        row["reward"] -= 0.01 * row["length"]
    data = length_rows(rows_of(tmp_path, rows))
    found = reward_length(data, None)
    reward, length = data.rows.numpy("reward"), data.length
    assert found.slope_equal.value == pytest.approx(-0.01)
    assert found.slope.value == pytest.approx(
        np.linalg.lstsq(np.column_stack([length, dummies(data.group)]), reward, rcond=None)[0][0]
    )
    residual = [
        v - dummies(data.group) @ np.linalg.lstsq(dummies(data.group), v, rcond=None)[0]
        for v in (length, reward)
    ]
    assert found.explained.value == pytest.approx(np.corrcoef(*residual)[0, 1] ** 2)
    expected = 0
    for g in np.unique(data.group):
        mine = [row for row, code in zip(rows, data.group, strict=True) if code == g]
        expected += len({r["correct"] for r in mine}) == 1 and len({r["reward"] for r in mine}) > 1
    assert (found.groups, found.groups_alike) == (48, expected)
    assert expected > 0
    said = length_bias(data.rows, named("dr_grpo"), others=())
    assert said.biased is False
    assert said.pressure.correct.high < 0
    assert any("the push on correct and wrong answers comes with the advantages" in d for d in said.doubts)
    assert any("length counts in the reward itself" in doubt for doubt in said.doubts)


def test_reward_that_is_correctness_alone_has_no_length_in_it(tmp_path) -> None:
    found = reward_length(length_rows(rows_of(tmp_path, rollouts(steps=12, epochs=1))), None)
    assert found.groups_alike == 0
    assert (found.slope_equal.low, found.slope_equal.high) == (0.0, 0.0)


def test_the_stop_token_and_responses_that_are_wrongly_called_cut(tmp_path) -> None:
    rows = rollouts(steps=6, epochs=1)
    for i, row in enumerate(rows):
        row["finish_reason"] = "length" if i % 4 == 0 else "stop"
        if i % 4 or i % 8 == 0:
            row["token_ids"] = [*row["token_ids"][:-1], 77]
        else:
            row["token_ids"] = [*row["token_ids"][:-1], 3]
    rows[1]["finish_reason"] = None
    data = length_rows(rows_of(tmp_path, rows))
    found = stops(data)
    assert found.last.stop_tokens == [77]
    assert found.last.cut_but_stopped == 0.5
    assert (found.last.n_stopped, found.last.n_cut) == (143, 48)
    assert {r.reason: r.n for r in found.reasons} == {"stop": 143, "length": 48, None: 1}
    assert sum(r.share for r in found.reasons) == pytest.approx(1.0)
    said = length_bias(data.rows, named("grpo"), others=())
    assert any("50% of the responses that finish_reason calls cut" in doubt for doubt in said.doubts)


def test_a_log_without_the_stop_token_is_doubted(tmp_path) -> None:
    rows = [
        row | {"token_ids": [(i * 7 + t) % 50 for t in range(row["length"])]}
        for i, row in enumerate(rollouts(steps=6, epochs=1))
    ]
    said = length_bias(rows_of(tmp_path, rows), named("grpo"), others=())
    assert said.stops.last.stop_tokens == []
    assert any("share no last token" in doubt for doubt in said.doubts)


def test_truncation_leaves_out_responses_without_a_finish_reason(tmp_path) -> None:
    rows = cut_scores_nothing(rollouts(steps=20, epochs=1, longest=6))
    for row in rows[::3]:
        row["finish_reason"] = None
    data = length_rows(rows_of(tmp_path, rows))
    found = truncation(data)
    told = np.array([row["finish_reason"] is not None for row in rows])
    cut = np.array([row["finish_reason"] == "length" for row in rows], dtype=float)[told]
    reward = np.array([row["reward"] for row in rows])[told]
    assert found.share.value == pytest.approx(cut.mean())
    assert found.share.n == told.sum()
    assert found.correct_other.value == pytest.approx(reward[cut == 0].mean())
    gap = np.linalg.lstsq(np.column_stack([cut, dummies(data.group[told])]), reward, rcond=None)[0][0]
    assert found.reward_gap.value == pytest.approx(gap)

"""Expected effective batch of a mix of prompts."""

from __future__ import annotations

import numpy as np
import pytest

from audit.analyses.effective_batch import effective_batch
from audit.errors import AuditError, BadObjective
from audit.objectives.catalogue import named


def test_live_groups_are_those_whose_rewards_differ() -> None:
    made = effective_batch(named("grpo"), 8, (0.02, 0.44, 0.71))
    live = [1 - p**8 - (1 - p) ** 8 for p in (0.02, 0.44, 0.71)]
    assert [prompt.live for prompt in made.prompts] == pytest.approx(live)
    assert made.live_groups == pytest.approx(sum(live))
    assert made.live_responses == pytest.approx(8 * sum(live))
    assert made.groups == 3
    assert sum(prompt.pull for prompt in made.prompts) == pytest.approx(1.0)
    assert 0 < made.effective_responses < made.live_responses


def test_the_effective_size_agrees_with_simulation() -> None:
    rates, G = np.array([0.1, 0.5]), 4
    made = effective_batch(named("grpo"), G, rates.tolist())
    reward = (np.random.default_rng(0).random((50_000, 2, G)) < rates[:, None]).astype(float)
    centred = reward - reward.mean(axis=-1, keepdims=True)
    std = reward.std(axis=-1, keepdims=True)
    A = np.abs(np.divide(centred, std, out=np.zeros_like(centred), where=std > 0))
    size = A.sum(axis=(1, 2)).mean() ** 2 / (A**2).sum(axis=(1, 2)).mean()
    assert made.effective_responses == pytest.approx(size, rel=0.01)


def test_alike_weights_are_worth_all_live_responses() -> None:
    made = effective_batch(named("reinforce"), 4, (1.0, 1.0, 0.0))
    assert (made.live_groups, made.live_responses, made.effective_responses) == (2.0, 8.0, 8.0)


def test_a_batch_without_signal_is_worth_nothing() -> None:
    made = effective_batch(named("grpo"), 4, (0.0, 1.0))
    assert (made.live_groups, made.effective_responses) == (0.0, 0.0)


def test_what_has_no_meaning_is_refused() -> None:
    with pytest.raises(AuditError, match="at least one prompt"):
        effective_batch(named("grpo"), 8, ())
    with pytest.raises(BadObjective, match="taken over the batch"):
        effective_batch(named("gpg"), 8, (0.5,))

"""KL coefficient in units of an unscaled reward."""

from __future__ import annotations

import pytest

from audit.analyses.effective_beta import effective_betas
from audit.errors import BadObjective
from audit.objectives.catalogue import named
from audit.objectives.objective import KL, LossKL, RewardKL


def betas(objective, group_size=8, rates=(0.02, 0.5)) -> list[float | None]:
    return [b.beta for b in effective_betas(objective, group_size, rates)]


def test_a_std_weakens_kl_in_the_loss() -> None:
    assert betas(named("grpo")) == pytest.approx([0.04 / 2.5731780, 0.04 / 1.8556559], rel=1e-6)


def test_in_large_groups_it_is_beta_times_the_std() -> None:
    assert betas(named("grpo"), 512, (0.3,)) == pytest.approx([0.04 * (0.3 * 0.7) ** 0.5], rel=0.01)


def test_without_a_scale_it_is_beta() -> None:
    rloo = named("rloo").replace(kl=KL(loss=LossKL(coefficient=0.1)))
    assert betas(rloo) == pytest.approx([0.1, 0.1])


def test_kl_in_the_reward_is_scaled_with_it_unless_taken_off_after() -> None:
    grpo = named("grpo")
    before = grpo.replace(kl=KL(reward=RewardKL(coefficient=0.1)))
    after = grpo.replace(kl=KL(reward=RewardKL(coefficient=0.1, stage="after_scale")))
    assert betas(before) == [0.1, 0.1]
    assert betas(after) == pytest.approx([0.1 / 2.5731780, 0.1 / 1.8556559], rel=1e-6)


def test_a_reward_that_has_no_weight_has_no_beta() -> None:
    best = named("pass_at_k_best").replace(kl=KL(loss=LossKL(coefficient=0.1)))
    assert betas(best, rates=(0.0, 1.0)) == [pytest.approx(0.1), None]


@pytest.mark.parametrize("kl", [KL(), KL(loss=LossKL(coefficient=0.1, against="old"))])
def test_no_kl_to_the_reference_is_said(kl) -> None:
    with pytest.raises(BadObjective, match=r"no KL to the reference.*--set kl\.loss\.coefficient"):
        betas(named("grpo").replace(kl=kl))

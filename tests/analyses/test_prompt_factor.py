"""Prompt-weight factors: published values, closed forms, simulation, and what is refused."""

from __future__ import annotations

import math

import msgspec
import numpy as np
import pytest
import torch

from audit.analyses import possible_groups
from audit.analyses.prompt_factor import prompt_factors, reward_factor
from audit.errors import AuditError, BadObjective
from audit.objectives.advantages import advantages
from audit.objectives.batch import Responses
from audit.objectives.catalogue import CATALOGUE, named
from audit.objectives.objective import KL, Objective, RewardKL, from_dict

RATES = (0.02, 0.10, 0.50, 0.90, 0.98)
TABLE = {
    "mean": ({"baseline": {"kind": "group_mean"}}, (0.875, 0.875, 0.875, 0.875, 0.875)),
    "std": (
        {"baseline": {"kind": "group_mean"}, "scale": {"kind": "group_std"}},
        (2.573, 2.328, 1.856, 2.328, 2.573),
    ),
    "std, ddof 1": (
        {"baseline": {"kind": "group_mean"}, "scale": {"kind": "group_std", "ddof": 1}},
        (2.407, 2.177, 1.736, 2.177, 2.407),
    ),
    "leave-one-out mean and std": (
        {"baseline": {"kind": "leave_one_out"}, "scale": {"kind": "leave_one_out_std", "ddof": 1}},
        (1.212, 1.765, 2.001, 1.765, 1.212),
    ),
    "MaxRL": (
        {"baseline": {"kind": "group_mean"}, "scale": {"kind": "group_mean"}},
        (6.594, 5.217, 1.984, 1.111, 1.020),
    ),
    "best minus second": ({"baseline": {"kind": "runner_up"}}, (0.868, 0.478, 0.008, 0.000, 0.000)),
}
"""Factors at G = 8, to three digits, from an enumeration of their own."""


def factors(objective: Objective, rates=RATES, group_size: int = 8) -> list[float]:
    return [f.factor for f in prompt_factors(objective, group_size, rates)]


@pytest.mark.parametrize("name", TABLE)
def test_known_factors_at_eight_responses(name) -> None:
    fields, expected = TABLE[name]
    assert factors(from_dict(fields)) == pytest.approx(expected, abs=5.1e-4)


def test_grpo_weighs_the_extremes_by_forty_percent_more() -> None:
    grpo = named("grpo")
    assert [round(f, 2) for f in factors(grpo, (0.0, 0.5, 1.0))] == [2.65, 1.86, 2.65]
    ddof_1 = grpo.replace(scale=msgspec.structs.replace(grpo.scale, ddof=1))
    assert [round(f, 2) for f in factors(ddof_1, (0.0, 0.5))] == [2.47, 1.74]


@pytest.mark.parametrize("name", ["rloo", "reinforce", "remax"])
def test_a_baseline_that_does_not_depend_on_the_response_leaves_every_prompt_its_weight(name) -> None:
    assert factors(named(name), (0.0, 0.02, 0.3, 0.5, 0.9, 1.0)) == pytest.approx([1.0] * 6)


@pytest.mark.parametrize("group_size", [2, 3, 8, 64])
def test_closed_forms_at_any_group_size(group_size) -> None:
    def chance(k: int, p: float) -> float:
        return math.comb(group_size, k) * p**k * (1 - p) ** (group_size - k)

    for p in RATES:
        roots = [math.sqrt(k / group_size * (1 - k / group_size)) for k in range(group_size + 1)]
        std = sum(chance(k, p) * root for k, root in enumerate(roots)) / (p * (1 - p))
        assert factors(named("grpo"), (p,), group_size) == pytest.approx([std])
    assert factors(named("dr_grpo"), RATES, group_size) == pytest.approx([1 - 1 / group_size] * 5)
    assert factors(named("grpo"), (0.0,), group_size) == pytest.approx([math.sqrt(group_size - 1)])


@pytest.mark.parametrize("name", ["grpo", "maxrl", "pass_at_k", "pass_at_k_best", "rloo"])
def test_the_limits_are_what_the_factors_tend_to(name) -> None:
    objective = named(name)
    near, limit = factors(objective, (1e-7, 1 - 1e-7)), factors(objective, (0.0, 1.0))
    assert near == pytest.approx(limit, abs=1e-5)


def test_epsilon_damps_what_the_std_raises() -> None:
    grpo = named("grpo")
    damped = grpo.replace(scale=msgspec.structs.replace(grpo.scale, epsilon=0.1))
    assert all(a < b for a, b in zip(factors(damped), factors(grpo), strict=True))


def test_kl_in_the_reward_is_left_out() -> None:
    rloo = named("rloo")
    assert factors(rloo.replace(kl=KL(reward=RewardKL(coefficient=0.1)))) == pytest.approx([1.0] * 5)


def test_dynamic_sampling_raises_the_weight_of_what_is_left() -> None:
    made = prompt_factors(named("dapo"), 8, (0.0, 0.02, 0.5))
    assert made[0].refilled is None
    assert made[1].refilled == pytest.approx(made[1].factor / 0.149236977, rel=1e-6)
    assert made[1].refilled / made[1].factor == pytest.approx(6.7, abs=0.05)
    assert all(f.refilled is None for f in prompt_factors(named("grpo"), 8, (0.02,)))


def test_graded_rewards_agree_with_simulation() -> None:
    values, share, G, draws = (0.0, 0.25, 1.0), (0.5, 0.3, 0.2), 6, 40_000
    generator = np.random.default_rng(1)
    reward = generator.choice(values, size=(draws, G), p=share)
    index = torch.arange(draws).repeat_interleave(G)
    one = torch.ones_like(index)
    zero = torch.zeros_like(index)
    responses = Responses(torch.from_numpy(reward.ravel()), one, one, index, zero, zero)
    mean = float(np.dot(values, share))
    for name in ("grpo", "maxrl", "rloo"):
        A = advantages(responses, named(name)).numpy().reshape(draws, G)
        signal = (A * (reward - mean)).sum(axis=1)
        unit = G * float(np.dot(share, (np.array(values) - mean) ** 2))
        exact = reward_factor(named(name), G, values, share)
        assert exact.standard_error == 0.0
        error = signal.std() / unit / math.sqrt(draws)
        assert exact.factor == pytest.approx(signal.mean() / unit, abs=5 * error)


def test_a_binary_distribution_is_a_success_rate() -> None:
    made = reward_factor(named("grpo"), 8, (0.0, 1.0), (0.7, 0.3))
    assert made.factor == pytest.approx(factors(named("grpo"), (0.3,))[0])
    split = reward_factor(named("grpo"), 8, (0.0, 1.0, 1.0, 5.0), (0.7, 0.1, 0.2, 0.0))
    assert split.factor == pytest.approx(made.factor)


def test_many_values_are_drawn_with_a_stated_error_and_the_same_every_time(monkeypatch) -> None:
    values, share = tuple(float(v) for v in range(5)), (0.2,) * 5
    exact = reward_factor(named("grpo"), 8, values, share)
    monkeypatch.setattr(possible_groups, "MOST", 400)
    drawn = reward_factor(named("grpo"), 8, values, share)
    assert drawn.standard_error > 0
    assert drawn.factor == pytest.approx(exact.factor, abs=4 * drawn.standard_error)
    assert drawn == reward_factor(named("grpo"), 8, values, share)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("ppo", "come from the log"),
        ("ppo_gae", "come from a critic"),
        ("gdpo", "several components"),
        ("gpg", "'alive_share' is taken over the batch"),
        ("reinforce_pp", "scale.whiten is taken over the batch"),
    ],
)
def test_what_is_no_function_of_one_prompt_is_refused(name, said) -> None:
    with pytest.raises(BadObjective, match=said):
        factors(named(name))


@pytest.mark.parametrize("fields", [{"scale": {"kind": "batch_std"}}, {"baseline": {"kind": "batch_mean"}}])
def test_batch_statistics_are_refused(fields) -> None:
    with pytest.raises(BadObjective, match="not a function of its own success rate"):
        factors(from_dict(fields))


def test_bad_numbers_are_refused() -> None:
    with pytest.raises(AuditError, match="not a success rate"):
        factors(named("grpo"), (1.5,))
    with pytest.raises(BadObjective, match="at least 2"):
        factors(named("grpo"), (0.5,), group_size=1)
    with pytest.raises(BadObjective, match="at least 4 responses"):
        factors(named("pass_at_k"), (0.5,), group_size=3)
    with pytest.raises(AuditError, match="sum to 1"):
        reward_factor(named("grpo"), 8, (0.0, 1.0), (0.5, 0.6))
    with pytest.raises(AuditError, match="no signal"):
        reward_factor(named("grpo"), 8, (0.0, 1.0), (0.0, 1.0))


@pytest.mark.parametrize("name", CATALOGUE)
def test_every_entry_has_factors_or_a_reason(name) -> None:
    made: list[float] = []
    reason = ""
    try:
        made = factors(named(name), (0.0, 0.3, 1.0))
    except BadObjective as error:
        reason = str(error)
    assert bool(made) or reason.startswith(f"{name}: ")
    assert all(math.isfinite(f) and f >= -1e-12 for f in made)


def test_large_groups_do_not_overflow() -> None:
    assert factors(named("grpo"), (0.5,), 1200) == pytest.approx([2.0], abs=2e-3)

"""Training: the step is the gradient of the weighted log-likelihood, and every algorithm learns."""

from __future__ import annotations

import msgspec
import pytest
import torch
from testbed_small import SMALL, random_logits

from audit.errors import AuditError, BadObjective
from audit.objectives.catalogue import CATALOGUE, named
from audit.objectives.objective import KL, Baseline, LossKL, Objective, Shaping
from audit.objectives.weights import effective_weights
from audit.testbed import exact
from audit.testbed.language import Language
from audit.testbed.trainable import refusal, terminal_reward
from audit.testbed.training import Setup, Trainer

SHORT = Language(rates=(0.12, 0.44, 0.71), budget=4)


def trained(setup: Setup, seeds: range, batches: int, language: Language = SHORT) -> Trainer:
    trainer = Trainer(language, setup, seeds)
    for _ in range(batches):
        list(trainer.batch())
    return trainer


@pytest.mark.parametrize("name", CATALOGUE)
def test_every_algorithm_learns(name: str) -> None:
    trainer = trained(Setup(objective=named(name), rate=6.0, sampler_noise=0.05), range(4), 14)
    gained = exact.success(SHORT, trainer.policy).mean(-1) - sum(SHORT.rates) / len(SHORT.rates)
    assert float(gained.mean()) > 2.5 * float(gained.std()) / 2.0
    assert float(gained.mean()) > 0.02


def test_a_wrong_sign_would_show() -> None:
    worse = trained(Setup(objective=Objective(shaping=Shaping(weights={"accuracy": -1.0}))), range(2), 20)
    assert float(exact.success(SHORT, worse.policy).mean()) < 0.3


@pytest.mark.parametrize("name", ["grpo", "rloo", "ppo_gae", "remax"])
def test_the_step_is_autograds(name: str) -> None:
    objective = named(name).replace(kl=KL(loss=LossKL(coefficient=0.1)))
    setup = Setup(objective=objective, epochs=3, rate=0.7)
    trainer = Trainer(SMALL, setup, [5, 6])
    start = random_logits(SMALL, 8, runs=2)
    trainer._logits.copy_(start)
    trainer.policy.copy_(start.log_softmax(-1))
    for update in trainer.batch():
        leaf = start.clone().requires_grad_()
        table = leaf.log_softmax(-1).reshape(-1, SMALL.tokens)
        again = effective_weights(update.tokens, update.responses, trainer.objective).weight
        assert torch.equal(again, update.weights.weight)
        (gradient,) = torch.autograd.grad((again * table[update.draw.row, update.draw.token]).sum(), leaf)
        start = start + setup.rate * gradient
        torch.testing.assert_close(trainer.policy, start.log_softmax(-1), rtol=1e-10, atol=1e-12)


def test_ratios_are_one_at_first_and_then_are_not() -> None:
    trainer = Trainer(SHORT, Setup(objective=named("grpo"), epochs=3), [0])
    for _ in range(2):
        moved = [(u.tokens.logp_theta - u.tokens.logp_old).abs().max().item() for u in trainer.batch()]
        assert moved[0] == 0.0
        assert min(moved[1:]) > 1e-3


def test_a_run_does_not_depend_on_its_neighbours() -> None:
    setup = Setup(objective=named("dapo"), sampler_noise=0.1)
    together, alone = trained(setup, range(3), 5), trained(setup, range(2, 3), 5)
    assert torch.equal(together.policy[2], alone.policy[0])
    assert not torch.equal(together.policy[1], alone.policy[0])


def test_the_noise_of_the_sampler_is_in_its_log_probs() -> None:
    quiet, loud = (
        next(Trainer(SHORT, Setup(objective=named("grpo"), sampler_noise=x), range(20)).batch()).tokens
        for x in (0.0, 0.2)
    )
    assert torch.equal(quiet.logp_sampler, quiet.logp_old)
    gap = loud.logp_sampler - loud.logp_old
    assert 0.05 < float(gap.std()) < 0.25


def test_the_shaped_reward_of_every_response() -> None:
    shaping = Shaping(weights={"accuracy": 2.0, "format": 1.0}, offset=-0.5)
    found = terminal_reward(SMALL, Objective(shaping=shaping))
    expected = 2.0 * SMALL.reward + (SMALL.response_first == 0) - 0.5
    assert torch.equal(found, expected)


@pytest.mark.parametrize(
    ("objective", "group_size", "reason"),
    [
        (named("gdpo").replace(shaping=Shaping(weights={"style": 1.0})), 8, "no reward component 'style'"),
        (named("grpo"), 1, "groups of 1"),
        (named("pass_at_k"), 2, "groups of at least 4"),
    ],
)
def test_what_cannot_be_trained_is_refused(objective: Objective, group_size: int, reason: str) -> None:
    with pytest.raises(BadObjective, match=reason) as caught:
        Trainer(SHORT, Setup(objective=objective, group_size=group_size), [0])
    assert objective.name in str(caught.value)


def test_nothing_of_the_catalogue_is_refused() -> None:
    assert [entry.name for entry in CATALOGUE.values() if refusal(entry.objective, 8)] == []
    assert refusal(named("remax"), 1) == ""


@pytest.mark.parametrize(
    "wrong",
    [{"group_size": 0}, {"epochs": 0}, {"rate": 0.0}, {"micro_batches": 4}, {"sampler_noise": -1.0}],
)
def test_settings_out_of_range_are_refused(wrong: dict[str, float]) -> None:
    option = {"rate": "lr"}.get(next(iter(wrong)), next(iter(wrong))).replace("_", "-")
    with pytest.raises(AuditError, match=f"--{option}"):
        Trainer(SHORT, Setup(objective=named("reinforce"), **wrong), [0])


def test_divergence_is_said() -> None:
    far = LossKL(coefficient=1e200, estimator="k3")
    setup = Setup(objective=named("grpo").replace(kl=KL(loss=far)), rate=1e200, epochs=4)
    with pytest.raises(AuditError, match=r"diverged at step .* smaller --lr"):
        trained(setup, range(1), 30)


def test_a_critic_of_other_kinds_of_reward() -> None:
    gae = msgspec.structs.replace(named("ppo_gae").baseline, lam=1.0)
    assert gae == Baseline(kind="gae")
    update = next(
        Trainer(SHORT, Setup(objective=named("ppo_gae").replace(baseline=gae, kl=KL())), [0]).batch()
    )
    _, v = exact.values(SHORT, SHORT.reference, SHORT.reward)
    expected = v.reshape(-1)[update.draw.row]
    torch.testing.assert_close(update.tokens.value, expected, rtol=1e-6, atol=0)

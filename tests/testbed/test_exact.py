"""Exact quantities against brute force over every response, and against autograd."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from testbed_small import (
    SMALL,
    is_correct,
    listed,
    log_probability,
    random_logits,
    random_policy,
    spelled_out,
)

from audit.testbed import exact
from audit.testbed.language import Language

seeds = st.integers(0, 2**31 - 1)


def test_the_reference_has_its_success_rates_whatever_the_length() -> None:
    language = Language()
    chance = exact.response_probability(language, language.reference)
    torch.testing.assert_close(chance.sum(-1), torch.ones(6, dtype=torch.float64), rtol=1e-12, atol=0)
    rates = torch.tensor(language.rates, dtype=torch.float64)
    torch.testing.assert_close(exact.success(language, language.reference), rates, rtol=1e-12, atol=0)
    for tokens in range(2, language.budget + 1):
        alike = language.response_length == tokens
        of_length = (chance * alike).sum(-1)
        right = (chance * language.reward * alike).sum(-1)
        torch.testing.assert_close(right / of_length, rates, rtol=1e-12, atol=0)


def test_the_reference_has_the_lengths_of_the_formula() -> None:
    language = Language()
    h, T = language.stop, language.budget
    expected = sum((n + 1) * h * (1 - h) ** (n - 1) for n in range(1, T)) + T * (1 - h) ** (T - 1)
    found = exact.expected_length(language, language.reference)
    assert found.tolist() == pytest.approx([expected] * 6, rel=1e-12)
    right, wrong = exact.lengths_by_correctness(language, language.reference)
    assert float(right) == pytest.approx(expected, rel=1e-12)
    assert float(wrong) == pytest.approx(expected, rel=1e-12)


@settings(max_examples=20)
@given(seeds, st.sampled_from(["last", "first"]))
def test_sums_over_responses(seed: int, answer: str) -> None:
    language = replace(SMALL, answer=answer)
    policy = random_policy(language, seed, runs=2)
    chance = exact.response_probability(language, policy)
    right_total, wrong_total = [0.0, 0.0], [0.0, 0.0]
    for run in range(2):
        for prompt in range(language.prompts):
            every = listed(language, policy[run, prompt], prompt)
            assert chance[run, prompt].tolist() == pytest.approx([p for p, _, _ in every], rel=1e-12)
            assert sum(p for p, _, _ in every) == pytest.approx(1.0, rel=1e-12)
            success = sum(p for p, _, ok in every if ok)
            assert float(exact.success(language, policy)[run, prompt]) == pytest.approx(success, rel=1e-12)
            length = sum(p * tokens for p, tokens, _ in every)
            assert float(exact.expected_length(language, policy)[run, prompt]) == pytest.approx(length)
            for ok, total in ((True, right_total), (False, wrong_total)):
                if run == 0:
                    total[0] += sum(p * tokens for p, tokens, right in every if right is ok)
                    total[1] += sum(p for p, _, right in every if right is ok)
    right, wrong = exact.lengths_by_correctness(language, policy)
    assert float(right[0]) == pytest.approx(right_total[0] / right_total[1], rel=1e-12)
    assert float(wrong[0]) == pytest.approx(wrong_total[0] / wrong_total[1], rel=1e-12)


@settings(max_examples=20)
@given(seeds, seeds)
def test_kl_is_that_of_whole_responses(seed: int, other_seed: int) -> None:
    policy, other = random_policy(SMALL, seed), random_policy(SMALL, other_seed)
    found = exact.kl(SMALL, policy, other)[0]
    for prompt in range(SMALL.prompts):
        expected = 0.0
        for y in spelled_out(SMALL):
            here, there = (float(log_probability(SMALL, t[0, prompt], y)) for t in (policy, other))
            expected += math.exp(here) * (here - there)
        assert float(found[prompt]) == pytest.approx(expected, rel=1e-9, abs=1e-12)


@settings(max_examples=20)
@given(st.floats(0.05, 3.0))
def test_the_target_is_the_tilted_reference(beta: float) -> None:
    target = exact.target(SMALL, beta)
    for prompt in range(SMALL.prompts):
        tilted = {
            y: math.exp(float(log_probability(SMALL, SMALL.reference[prompt], y)))
            * math.exp(float(is_correct(SMALL, prompt, y)) / beta)
            for y in spelled_out(SMALL)
        }
        total = sum(tilted.values())
        for y, weight in tilted.items():
            found = math.exp(float(log_probability(SMALL, target[prompt], y)))
            assert found == pytest.approx(weight / total, rel=1e-9)


def test_the_target_is_where_the_regularised_gradient_vanishes() -> None:
    target = exact.target(SMALL, 0.3)
    gradient = exact.policy_gradient(SMALL, target, SMALL.reward, beta=0.3, reference=SMALL.reference)
    assert gradient.abs().max() < 1e-15
    elsewhere = exact.policy_gradient(
        SMALL, SMALL.reference, SMALL.reward, beta=0.3, reference=SMALL.reference
    )
    assert elsewhere.abs().max() > 1e-2


@settings(max_examples=20)
@given(seeds, st.floats(0.0, 2.0))
def test_the_policy_gradient_is_that_of_autograd(seed: int, beta: float) -> None:
    logits = random_logits(SMALL, seed)
    policy = logits.log_softmax(-1)
    reference = random_policy(SMALL, seed + 1)
    found = exact.policy_gradient(SMALL, policy, SMALL.reward, beta=beta, reference=reference)[0]
    for prompt in range(SMALL.prompts):
        leaf = logits[0, prompt].clone().requires_grad_()
        table = leaf.log_softmax(-1)
        objective = torch.zeros((), dtype=torch.float64)
        for y in spelled_out(SMALL):
            log = log_probability(SMALL, table, y)
            gap = log - log_probability(SMALL, reference[0, prompt], y)
            objective = objective + log.exp() * (float(is_correct(SMALL, prompt, y)) - beta * gap)
        (gradient,) = torch.autograd.grad(objective, leaf)
        torch.testing.assert_close(found[prompt], gradient, rtol=1e-9, atol=1e-13)


@settings(max_examples=20)
@given(seeds)
def test_the_natural_direction_solves_the_fisher_system(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    logits = random_logits(SMALL, seed)
    weight = torch.randn((1, SMALL.prompts, SMALL.responses), generator=generator, dtype=torch.float64)
    direction = exact.natural_direction(SMALL, logits.log_softmax(-1), weight)[0]
    for prompt in range(SMALL.prompts):
        leaf = logits[0, prompt].clone().requires_grad_()
        table = leaf.log_softmax(-1)
        fisher = torch.zeros(leaf.numel(), leaf.numel(), dtype=torch.float64)
        vanilla = torch.zeros(leaf.numel(), dtype=torch.float64)
        for number, y in enumerate(spelled_out(SMALL)):
            log = log_probability(SMALL, table, y)
            (score,) = torch.autograd.grad(log, leaf, retain_graph=True)
            score = score.flatten()
            fisher += log.exp().detach() * torch.outer(score, score)
            vanilla += log.exp().detach() * weight[0, prompt, number] * score
        torch.testing.assert_close(fisher @ direction[prompt].flatten(), vanilla, rtol=1e-9, atol=1e-12)


@settings(max_examples=20)
@given(seeds)
def test_entropy_of_the_next_token(seed: int) -> None:
    policy = random_policy(SMALL, seed)
    chance = policy.exp()[..., 1:, :]
    torch.testing.assert_close(exact.entropy(policy)[..., 1:], -(chance * chance.log()).sum(-1))
    letters = policy.exp()[..., 0, : SMALL.letters]
    torch.testing.assert_close(exact.entropy(policy)[..., 0], -(letters * letters.log()).sum(-1))

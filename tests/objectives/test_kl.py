"""KL estimators: value against gradient, and what each gradient pulls towards."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from fuzz import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from weight_cases import Row, responses_of, tokens_of

from audit.errors import MissingColumn
from audit.objectives.batch import Responses, Tokens
from audit.objectives.kl import kl_slope, kl_value
from audit.objectives.objective import KL, Aggregation, LossKL, Objective, Ratio, RewardKL
from audit.objectives.token_advantages import token_kl
from audit.objectives.weights import effective_weights
from audit.ragged import Layout

ESTIMATORS = ("k1", "k2", "k3")


@given(st.lists(st.floats(-8, 8), min_size=1, max_size=9), st.sampled_from(ESTIMATORS))
@settings(deadline=None, max_examples=examples(100))
def test_slope_is_the_derivative_of_the_value(differences: list[float], estimator: str) -> None:
    d = torch.tensor(differences, dtype=torch.float64, requires_grad=True)
    written_out = {"k1": d, "k2": d * d / 2, "k3": torch.exp(-d) - 1 + d}[estimator]
    (slope,) = torch.autograd.grad(written_out.sum(), d)
    torch.testing.assert_close(kl_value(d.detach(), estimator), written_out.detach(), rtol=1e-12, atol=1e-14)
    torch.testing.assert_close(kl_slope(d.detach(), estimator), slope, rtol=1e-12, atol=1e-14)


def test_k3_keeps_its_digits_near_zero() -> None:
    tiny = torch.tensor([1e-9, -1e-9], dtype=torch.float64)
    torch.testing.assert_close(kl_slope(tiny, "k3"), tiny, rtol=1e-8, atol=0)
    assert (kl_value(tiny, "k3") >= 0).all()


def exact(estimator: str, gradient: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Expected push on the logits of a three-way choice; gradients of the reverse and the forward KL."""
    logits = torch.tensor([0.3, -1.0, 0.9], dtype=torch.float64, requires_grad=True)
    theta = logits.log_softmax(0)
    ref = torch.tensor([1.1, 0.2, -0.4], dtype=torch.float64).log_softmax(0)
    p = theta.detach().exp()
    rows = [
        Row(0.0, mask=(True,), theta=(t,), old=(t,), ref=(r,), sampler=(t,))
        for t, r in zip(theta.tolist(), ref.tolist(), strict=True)
    ]
    objective = Objective(
        aggregation=Aggregation(kind="token-sum"),
        kl=KL(loss=LossKL(coefficient=1.0, estimator=estimator, gradient=gradient)),
    )
    weight = effective_weights(tokens_of(rows), responses_of(rows), objective).weight
    score = torch.eye(3, dtype=torch.float64) - p  # d log p_i / d logits
    pushed = -(p[:, None] * weight[:, None] * score).sum(0)
    reverse = (theta.exp() * (theta - ref)).sum()
    (of_reverse,) = torch.autograd.grad(reverse, logits, retain_graph=True)
    forward = (ref.exp() * (ref - theta)).sum()
    (of_forward,) = torch.autograd.grad(forward, logits)
    return pushed, torch.stack([of_reverse, of_forward])


@pytest.mark.parametrize(
    ("estimator", "gradient", "target"),
    [
        ("k1", "pathwise", None),
        ("k2", "pathwise", 0),
        ("k3", "pathwise", 1),
        ("k1", "ratio", 0),
        ("k3", "ratio", 0),
    ],
)
def test_expected_gradient(estimator: str, gradient: str, target: int | None) -> None:
    pushed, gradients = exact(estimator, gradient)
    expected = torch.zeros(3, dtype=torch.float64) if target is None else gradients[target]
    torch.testing.assert_close(pushed, expected, rtol=1e-12, atol=1e-14)
    assert not torch.allclose(gradients[0], gradients[1])


def test_ratio_times_k3_does_not_cancel_far_from_the_reference() -> None:
    row = Row(0.0, mask=(True,), theta=(-30.0,), old=(-30.5,), ref=(-0.1,), sampler=(-30.0,))
    objective = Objective(
        ratio=Ratio(denominator="old"), kl=KL(loss=LossKL(coefficient=0.5, gradient="ratio"))
    )
    (weight,) = effective_weights(tokens_of([row]), responses_of([row]), objective).weight.tolist()
    assert weight == pytest.approx(-0.5 * math.exp(0.5) * -29.9, rel=1e-14)


def test_pathwise_k3_pulls_back_exponentially() -> None:
    row = Row(0.0, mask=(True,), theta=(-5.0,), old=(-5.0,), ref=(-1.0,), sampler=(-5.0,))
    objective = Objective(kl=KL(loss=LossKL(coefficient=0.04)))
    (weight,) = effective_weights(tokens_of([row]), responses_of([row]), objective).weight.tolist()
    assert weight == pytest.approx(0.04 * (math.exp(4) - 1), rel=1e-14)


def test_the_kl_in_the_reward_sums_over_loss_tokens() -> None:
    nan = math.nan
    unknown = (nan, nan, nan)
    old, ref = (-1.0, nan, -2.0), (-1.5, nan, -3.0)
    row = Row(1.0, mask=(True, False, True), theta=unknown, old=old, ref=ref, sampler=unknown)
    empty = Row(1.0)
    tokens = tokens_of([row, empty])
    assert token_kl(tokens, "k1").tolist() == [0.5, 0.0, 1.0]
    assert token_kl(tokens, "k2").tolist() == [0.125, 0.0, 0.5]
    k3 = [math.exp(-0.5) - 0.5, 0.0, math.exp(-1.0)]
    assert token_kl(tokens, "k3").tolist() == pytest.approx(k3, rel=1e-14)
    objective = Objective(aggregation=Aggregation(kind="token-sum"), kl=KL(reward=RewardKL(coefficient=0.2)))
    computed = effective_weights(tokens, responses_of([row, empty]), objective)
    assert computed.weight.tolist() == pytest.approx([0.7, 0.0, 0.7], rel=1e-14)
    assert computed.kl.eq(0).all()


@pytest.mark.parametrize("missing", ["logp_theta", "logp_old", "logp_ref", "logp_sampler"])
def test_missing_log_probs_are_named(missing: str) -> None:
    row = Row(1.0, mask=(True,), theta=(-1.0,), old=(-1.0,), ref=(-1.0,), sampler=(-1.0,))
    tokens = replace(tokens_of([row]), **{missing: None})
    objectives = {
        "logp_theta": [
            Objective(ratio=Ratio(denominator="old")),
            Objective(kl=KL(loss=LossKL(coefficient=1))),
        ],
        "logp_old": [
            Objective(ratio=Ratio(denominator="old")),
            Objective(kl=KL(reward=RewardKL(coefficient=1))),
        ],
        "logp_ref": [
            Objective(kl=KL(loss=LossKL(coefficient=1))),
            Objective(kl=KL(reward=RewardKL(coefficient=1))),
        ],
        "logp_sampler": [Objective(ratio=Ratio(denominator="sampler"))],
    }
    for objective in objectives[missing]:
        with pytest.raises(MissingColumn, match=f"'{missing}'") as caught:
            effective_weights(tokens, responses_of([row]), objective)
        assert caught.value.column == missing


def test_a_coefficient_of_zero_needs_no_reference() -> None:
    layout = Layout.from_lengths(torch.tensor([2]))
    logp = torch.tensor([-1.0, -2.0], dtype=torch.float64)
    tokens = Tokens(layout, torch.ones(2, dtype=torch.bool), logp_theta=logp, logp_old=logp)
    one = torch.zeros(1, dtype=torch.int64)
    responses = Responses(torch.ones(1, dtype=torch.float64), one + 2, one + 2, one, one, one)
    off = KL(loss=LossKL(coefficient=0.0), reward=RewardKL(coefficient=0.0))
    plain = effective_weights(tokens, responses, Objective())
    assert torch.equal(effective_weights(tokens, responses, Objective(kl=off)).weight, plain.weight)


def test_a_clamp_leaves_nothing_of_a_k_whose_ratio_is_one() -> None:
    theta = (-1.0, -1.0, -1.0)
    row = Row(0.0, mask=(True,) * 3, theta=theta, old=theta, ref=(-1.5, -4.0, -0.1), sampler=theta)
    kl = LossKL(coefficient=1.0, gradient="unit_ratio", input_clamp=2.0, output_clamp=0.5)
    objective = Objective(aggregation=Aggregation(kind="token-sum"), kl=KL(loss=kl))
    weight = effective_weights(tokens_of([row]), responses_of([row]), objective).weight.tolist()
    assert weight == pytest.approx([-0.5, 0.0, 0.0], abs=1e-14)

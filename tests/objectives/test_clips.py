"""The trust region: which side, which sign, and what happens exactly on a bound."""

from __future__ import annotations

import math

import pytest
import torch
from fuzz import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from weight_cases import Row, responses_of, tokens_of

from audit.objectives.batch import Tokens
from audit.objectives.catalogue import named
from audit.objectives.objective import Objective, Ratio
from audit.objectives.surrogates import CISPOClip, PPOClip, Step, Surrogate
from audit.objectives.weights import effective_weights
from audit.ragged import Layout

BAND = PPOClip(epsilon_low=0.2, epsilon_high=0.28)


def factor(ratio: float, advantage: float, clip: Surrogate) -> tuple[float, bool]:
    """c = slope / A of one token, and whether it lost its gradient."""
    rho, A = (torch.tensor([x], dtype=torch.float64) for x in (ratio, advantage or 1.0))
    layout = Layout.from_lengths(torch.tensor([1]))
    zero = torch.zeros(1, dtype=torch.float64)
    step = Step(
        tokens=Tokens(layout, torch.ones(1, dtype=torch.bool)),
        log_ratio=rho.log(),
        ratio=rho,
        denominator=zero,
        advantage=A if advantage else zero,
        log_correction=zero,
        batch=torch.zeros(1, dtype=torch.int64),
    )
    slope, zeroed = clip.slope(step)
    return (slope / A).item() if advantage else ratio, zeroed.item()


@pytest.mark.parametrize(
    ("ratio", "advantage", "removed"),
    [
        (1.29, 1.0, True),
        (1.29, -1.0, False),
        (0.79, 1.0, False),
        (0.79, -1.0, True),
        (1.27, 1.0, False),
        (0.81, -1.0, False),
        (1.29, 0.0, False),
        (0.79, 0.0, False),
    ],
)
def test_the_clip_removes_only_the_side_that_matches_the_sign(
    ratio: float, advantage: float, removed: bool
) -> None:
    assert factor(ratio, advantage, BAND) == (0.0 if removed else ratio, removed)


@pytest.mark.parametrize("clip", [BAND, PPOClip(epsilon_low=0.25, epsilon_high=0.5, delta=1.6)])
@pytest.mark.parametrize("advantage", [1.0, -1.0])
@pytest.mark.parametrize("side", ["low", "high"])
def test_on_a_bound_the_token_keeps_its_gradient(clip: Surrogate, advantage: float, side: str) -> None:
    bound = 1 - clip.epsilon_low if side == "low" else 1 + clip.epsilon_high
    assert factor(bound, advantage, clip) == (bound, False)
    outside = math.nextafter(bound, 0.0 if side == "low" else 9.0)
    assert factor(outside, advantage, clip)[1] == ((advantage > 0) == (side == "high"))


@pytest.mark.parametrize("advantage", [1.0, -1.0])
@pytest.mark.parametrize("ratio", [1 - 0.2, 1.0, 1 + 0.28])
def test_a_tie_is_broken_as_autograd_breaks_it(ratio: float, advantage: float) -> None:
    rho, A = (torch.tensor([x], dtype=torch.float64) for x in (ratio, advantage))
    log_ratio = rho.log().requires_grad_(True)
    exact = rho + (log_ratio - log_ratio.detach()) * rho
    surrogate = torch.min(exact * A, exact.clamp(1 - 0.2, 1 + 0.28) * A)
    (gradient,) = torch.autograd.grad(surrogate.sum(), log_ratio)
    assert factor(ratio, advantage, BAND)[0] * advantage == pytest.approx(gradient.item(), rel=1e-15)


def test_ratio_one_is_never_removed_even_with_an_empty_band() -> None:
    shut = PPOClip(epsilon_low=0.0, epsilon_high=0.0)
    for advantage in (1.0, -1.0):
        assert factor(1.0, advantage, shut) == (1.0, False)


def test_dual_clip_bounds_negative_advantages_only() -> None:
    dual = PPOClip(epsilon_low=0.2, epsilon_high=0.2, dual=3.0)
    assert factor(3.0, -1.0, dual) == (3.0, False)
    assert factor(3.01, -1.0, dual) == (0.0, True)
    assert factor(2.99, -1.0, dual) == (2.99, False)
    assert factor(0.5, 1.0, dual) == (0.5, False)


def test_delta_caps_the_ratio_for_both_signs() -> None:
    two_sided = PPOClip(epsilon_low=0.2, epsilon_high=0.2, delta=4.0)
    assert factor(3.9, -1.0, two_sided) == (3.9, False)
    assert factor(4.1, -1.0, two_sided) == (0.0, True)
    inside = PPOClip(epsilon_low=0.2, epsilon_high=0.5, delta=1.1)
    assert factor(1.2, 1.0, inside) == (0.0, True)
    assert factor(1.2, -1.0, inside) == (1.2, False)


def test_no_epsilon_is_no_bound() -> None:
    free = PPOClip()
    for ratio in (1e-9, 1.0, 1e9):
        for advantage in (1.0, -1.0):
            assert factor(ratio, advantage, free) == (ratio, False)


positive = st.floats(1e-6, 1e6)


@given(
    ratio=positive,
    advantage=st.floats(0.01, 9) | st.floats(-9, -0.01),
    low=st.sampled_from([None, 0.2, 0.9]),
    high=st.sampled_from([-0.8, 0.2, 4.0]),
)
@settings(deadline=None, max_examples=examples(150))
def test_cispo_never_removes_a_token(ratio: float, advantage: float, low: float | None, high: float) -> None:
    if low is not None and 1 - low > 1 + high:
        low = None
    c, zeroed = factor(ratio, advantage, CISPOClip(epsilon_low=low, epsilon_high=high))
    assert not zeroed
    assert 0 < c <= (1 + high) * (1 + 1e-12)
    assert c >= (1e-6 if low is None else 1 - low - 1e-12)


def test_gspo_gives_every_token_of_a_response_one_weight() -> None:
    def row(reward: float, logs: list[float]) -> Row:
        zeros = (0.0,) * len(logs)
        mask = tuple(i != 1 for i in range(len(logs)))
        return Row(reward, mask=mask, theta=tuple(logs), old=zeros, ref=zeros, sampler=zeros)

    rows = [row(1.0, [-0.5, 9.0, 0.1, 0.4]), row(0.0, [-0.3, 9.0, 0.3]), row(0.0, [0.9, 9.0, 0.4])]
    computed = effective_weights(tokens_of(rows), responses_of(rows), named("gspo"))
    pieces = computed.weight.split([4, 3, 3])
    A = [math.sqrt(2), -math.sqrt(0.5), -math.sqrt(0.5)]
    for weight, mask, a, length, s in zip(
        pieces, [r.mask for r in rows], A, [3, 2, 2], [1.0, 1.0, math.exp(0.65)], strict=True
    ):
        live = weight[torch.tensor(mask)]
        assert live.eq(live[0]).all()
        assert live[0].item() == pytest.approx(a * s / (3 * length), rel=1e-14)
        assert weight[1].item() == 0.0
    assert not computed.zeroed.any()


def test_gspo_removes_a_whole_response_or_nothing() -> None:
    zeros = (0.0, 0.0)
    shared = {"old": zeros, "ref": zeros, "sampler": zeros, "mask": (True, True)}
    rows = [
        Row(1.0, theta=(0.9, 0.9), **shared),
        Row(0.0, theta=(0.9, 0.9), **shared),
        Row(1.0, theta=(-0.9, -0.9), **shared),
        Row(0.0, theta=(-0.9, 0.2), **shared),
    ]
    computed = effective_weights(tokens_of(rows), responses_of(rows), named("gspo"))
    assert computed.zeroed.tolist() == [True, True, False, False, False, False, True, True]
    assert computed.weight.eq(0).equal(computed.zeroed)


def test_a_ratio_over_the_policy_itself_is_one_and_needs_no_log_probs() -> None:
    rows = [Row(1.0, mask=(True, False, True)), Row(0.0, mask=(True,))]
    tokens = tokens_of(rows)
    tokens = type(tokens)(tokens.layout, tokens.mask)
    computed = effective_weights(tokens, responses_of(rows), named("rloo"))
    assert computed.weight.tolist() == [0.5, 0.0, 0.5, -0.5]
    clipped = Objective(ratio=Ratio(denominator="theta"), clip=BAND)
    assert effective_weights(tokens, responses_of(rows), clipped).weight.tolist() == [0.25, 0.0, 0.25, 0.0]

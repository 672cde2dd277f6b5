"""The smallest batch on which a rule shows: filters, corrections, clamps, whitening, KL by token."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import combinations
from typing import Any

import pytest
import torch
from weight_cases import Row, responses_of, tokens_of

from audit.errors import BadObjective
from audit.objectives.corrections import Correction, bounded
from audit.objectives.objective import (
    KL,
    Aggregation,
    Baseline,
    Filter,
    LossKL,
    Objective,
    Ratio,
    RewardKL,
    Scale,
    Shaping,
    Whiten,
    from_dict,
)
from audit.objectives.surrogates import DPPO, GMPO, VESPO, ClipCov
from audit.objectives.weights import effective_weights, row_coefficients

SUM = Aggregation(kind="token-sum")
GAE = Baseline(kind="gae")
SPARED = {"action": "mask", "high": 1.5, "keep_nonnegative": True}


def row(reward: float, length: int = 1, **columns: Any) -> Row:
    zeros = dict.fromkeys(("theta", "old", "ref", "sampler", "value", "entropy"), (0.0,) * length)
    return Row(reward, mask=(True,) * length, **(zeros | columns))


def weights(rows: list[Row], **parts: Any) -> list[float]:
    objective = Objective(**({"aggregation": SUM} | parts))
    return effective_weights(tokens_of(rows), responses_of(rows), objective).weight.tolist()


def test_a_response_that_is_never_masked_keeps_its_weight() -> None:
    rows = [row(1.0, sampler=(-1.0,)), row(-1.0, sampler=(-1.0,))]
    ratio = Ratio(corrections=(Correction(**SPARED),))
    assert weights(rows, ratio=ratio) == pytest.approx([math.e, 0.0], rel=1e-15)


def test_a_response_that_is_never_masked_stays_in_the_denominator() -> None:
    rows = [row(1.0, sampler=(-1.0,)), row(1.0)]
    ratio = Ratio(corrections=(Correction(**SPARED, leaves_denominator=True),))
    made = weights(rows, ratio=ratio, aggregation=Aggregation(kind="token-mean"))
    assert made == pytest.approx([math.e / 2, 0.5], rel=1e-15)
    rows[0] = row(0.0, sampler=(-1.0,))
    assert weights(rows, ratio=ratio, aggregation=Aggregation(kind="token-mean")) == [0.0, 0.5]


def test_unscorable_responses_have_no_advantage_at_any_token() -> None:
    rows = [row(math.nan, 2, value=(0.5, 0.25), old=(-1.0, -2.0)), row(1.0)]
    to_go = KL(reward=RewardKL(coefficient=0.5, stage="after_scale", form="to_go"))
    for parts in (
        {"baseline": GAE},
        {"kl": to_go},
        {"kl": to_go, "scale": Scale(whiten=Whiten(epsilon=1.0))},
    ):
        assert weights(rows, **parts)[:2] == [0.0, 0.0]


def test_a_row_is_dropped_only_where_all_of_its_tokens_have_no_advantage() -> None:
    rows = [row(0.0, 2, value=(-1.0, 1.0)), row(0.0, 2)]
    made = weights(
        rows,
        baseline=Baseline(kind="gae", lam=0.0),
        filter=Filter(zero_advantage=True),
        aggregation=Aggregation(kind="token-mean"),
    )
    assert made == [1.0, -0.5, 0.0, 0.0]


def test_one_huge_kl_does_not_blur_that_of_another_response() -> None:
    rows = [row(0.0, old=(-40.0,)), row(0.0, old=(-1e-3,))]
    kl = KL(reward=RewardKL(coefficient=1.0, estimator="k3", stage="after_scale", form="to_go"))
    expected = -(math.expm1(1e-3) - 1e-3)
    assert weights(rows, kl=kl)[1] == pytest.approx(expected, rel=1e-12)


def test_whitening_keeps_its_digits_where_the_mean_is_large() -> None:
    rows = [row(1e6 + x) for x in (0.25, 0.5, 1.0)]
    made = weights(rows, scale=Scale(whiten=Whiten(level="sequence")))
    plain = weights([row(x) for x in (0.25, 0.5, 1.0)], scale=Scale(whiten=Whiten(level="sequence")))
    assert made == pytest.approx(plain, rel=1e-9)


@pytest.mark.parametrize("form", ["sum", "to_go"])
def test_whitening_sees_the_tokens_that_take_loss(form: str) -> None:
    rows = [row(1.0), row(3.0), row(9.0, truncated=True), row(5.0, group=1)]
    made = weights(
        rows,
        filter=Filter(mask_truncated=True, dynamic_sampling=True),
        scale=Scale(whiten=Whiten()),
        kl=KL(reward=RewardKL(coefficient=1.0, stage="after_scale", form=form)),
    )
    assert made == pytest.approx([-1.0, 1.0, 0.0, 0.0], rel=1e-14)


def test_logged_advantages_have_paid_their_kl_already() -> None:
    rows = [row(0.0, advantage=1.0, old=(1.0,))]
    kl = KL(reward=RewardKL(coefficient=0.5, stage="after_scale", form="to_go"))
    assert weights(rows, baseline=Baseline(kind="logged"), kl=kl) == [1.0]


@pytest.mark.parametrize(("level", "spread"), [("token", 0.5), ("sequence", 0.5), ("sequence_token", 0.5)])
def test_a_clamped_ratio_moves_no_kl(level: str, spread: float) -> None:
    rows = [row(0.0, theta=(0.9,), ref=(-0.1,))]
    ratio = Ratio(denominator="old", level=level, clamp=spread)
    kl = KL(loss=LossKL(coefficient=1.0, gradient="ratio"))
    made = weights(rows, ratio=ratio, kl=kl)
    assert made == pytest.approx([-math.exp(0.5) * -math.expm1(-1.0)], rel=1e-14)


def test_ratio_times_k3_keeps_its_digits_at_a_ratio_of_the_response() -> None:
    rows = [row(0.0, theta=(-30.0,), old=(-30.0,), ref=(-0.1,))]
    ratio = Ratio(denominator="old", level="sequence_token")
    (made,) = weights(rows, ratio=ratio, kl=KL(loss=LossKL(coefficient=1.0, gradient="ratio")))
    assert made == pytest.approx(29.9, rel=1e-14)


def test_the_probabilities_that_dppo_compares_are_not_clamped() -> None:
    rows = [row(1.0, theta=(-0.1,), old=(-1.0,))]
    ratio = Ratio(denominator="old", clamp=20.0)
    assert weights(rows, ratio=ratio, clip=DPPO(delta_high=0.5)) == [0.0]
    assert weights(rows, ratio=Ratio(denominator="old", clamp=1e-3), clip=DPPO()) == [0.0]
    tight = Ratio(denominator="old", clamp=0.1)
    zeroed = effective_weights(
        tokens_of(rows), responses_of(rows), Objective(ratio=tight, clip=DPPO(delta_high=0.5))
    ).zeroed
    assert zeroed.tolist() == [True]


def test_gmpo_shares_the_corrections_of_a_response_among_its_tokens() -> None:
    rows = [row(1.0, 2, sampler=(-1.0, 0.0))]
    ratio = Ratio(denominator="old", corrections=(Correction(),))
    made = weights(rows, ratio=ratio, clip=GMPO())
    assert made == pytest.approx([(math.e + 1) / 2] * 2, rel=1e-15)


def test_vespo_takes_the_correction_of_a_whole_response_once() -> None:
    rows = [row(1.0, 2, sampler=(-0.25, -0.25))]
    clip = VESPO(k_positive=1.0, lambda_positive=1.0)
    by_level = [
        weights(rows, ratio=Ratio(corrections=(Correction(level=level),)), clip=clip)
        for level in ("token", "product")
    ]
    expected = math.exp(1 + 0.5 - math.exp(0.5))
    for made in by_level:
        assert made == pytest.approx([expected] * 2, rel=1e-14)


def test_a_batch_without_signal_is_divided_by_no_share() -> None:
    rows = [row(2.0), row(2.0), row(3.0, group=1), row(3.0, group=1)]
    assert weights(rows, scale=Scale(kind="alive_share")) == [2.0, 2.0, 3.0, 3.0]
    assert weights([row(2.0), row(4.0), *rows[2:]], scale=Scale(kind="alive_share")) == [4.0, 8.0, 6.0, 6.0]


def test_a_lone_response_is_raw_only_against_its_group() -> None:
    rows = [row(3.0), row(1.0, group=1)]
    raw = {kind: Baseline(kind=kind, singleton="raw") for kind in ("group_mean", "batch_mean")}
    assert weights(rows, baseline=raw["group_mean"]) == [3.0, 1.0]
    assert weights(rows, baseline=raw["batch_mean"]) == [1.0, -1.0]


def test_the_longest_response_is_one_that_enters_the_loss() -> None:
    rows = [row(1.0, 2), replace(row(0.0, 9), greedy=True)]
    norm = Aggregation(kind="token-sum-norm", constant="longest")
    assert weights(rows, aggregation=norm)[:2] == [0.5, 0.5]


@pytest.mark.parametrize("k", [1, 2, 3, 4])
@pytest.mark.parametrize("right", range(5))
def test_pass_at_k_is_a_mean_over_subsets(k: int, right: int) -> None:
    rewards = [1.0] * right + [0.0] * (4 - right)
    rows = [row(reward) for reward in rewards]
    objective = Objective(baseline=Baseline(kind="pass_at_k", k=k))
    made = row_coefficients(responses_of(rows), objective).advantage.tolist()
    subsets = list(combinations(range(4), k))
    best = [max(rewards[i] for i in s) for s in subsets]
    for i, a in enumerate(made):
        own = [b for b, s in zip(best, subsets, strict=True) if i in s]
        assert a == pytest.approx(sum(own) / len(own) - sum(best) / len(best), abs=1e-15)


def test_clip_cov_is_the_mean_over_its_draw() -> None:
    logp = (-0.1, -0.4, -0.9, -1.6, -2.5, -3.6)
    rows = [row(1.0, 3, theta=logp[:3], old=logp[:3]), row(-1.0, 3, theta=logp[3:], old=logp[3:])]
    clip = ClipCov(fraction=0.34, low=0.5, high=5.0)
    made = weights(rows, ratio=Ratio(denominator="old"), clip=clip)
    advantage = torch.tensor([1.0] * 3 + [-1.0] * 3, dtype=torch.float64)
    p = torch.tensor(logp, dtype=torch.float64)
    cov = (advantage - advantage.mean()) * (p - p.mean())
    window = ((cov > 0.5) & (cov < 5.0)).nonzero().flatten()
    draws = list(combinations(window.tolist(), 2))
    mean = torch.stack([advantage.index_fill(0, torch.tensor(d), 0.0) for d in draws]).mean(0)
    assert len(window) > 2
    assert made == pytest.approx(mean.tolist(), rel=1e-14)


@pytest.mark.parametrize(
    "fields",
    [
        {"baseline": {"kind": "logged"}, "scale": {"whiten": {}}},
        {"baseline": {"kind": "group_mean"}, "scale": {"kind": "pass_at_k_std"}},
        {
            "baseline": {"kind": "gae"},
            "kl": {"reward": {"coefficient": 0.1, "stage": "after_scale", "form": "centred"}},
        },
        {"shaping": {"weights": {"a": 1.0}, "per_component": True, "clip": [0, 1]}},
        {"shaping": {"weights": {"a": 1.0}, "per_component": True}, "kl": {"reward": {"coefficient": 0.1}}},
    ],
)
def test_what_would_be_left_out_in_silence_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(BadObjective):
        from_dict(fields)


def test_components_are_normalised_alone() -> None:
    def scored(right: float, form: float) -> Row:
        return row(0.0, components={"right": right, "form": form})

    rows = [scored(1.0, 10.0), scored(0.0, 30.0), scored(0.0, math.nan)]
    made = weights(
        rows,
        shaping=Shaping(weights={"right": 1.0, "form": 2.0}, per_component=True),
        baseline=Baseline(kind="group_mean"),
        scale=Scale(kind="group_std"),
    )
    assert made == pytest.approx([2**0.5 - 2.0, -(0.5**0.5) + 2.0, -(0.5**0.5)], rel=1e-14)


@pytest.mark.parametrize(("weight", "kept"), [(0.97, False), (0.98, True), (1.02, True), (1.03, False)])
@pytest.mark.parametrize("action", ["mask", "gate"])
def test_a_window_ends_where_its_bounds_say(weight: float, kept: bool, action: str) -> None:
    window = Correction(action=action, low=0.98 - 1e-12, high=1.02 + 1e-12)
    inside = weight if action == "mask" else 1.0
    found = bounded(torch.tensor([weight], dtype=torch.float64).log(), window)
    assert found.item() == pytest.approx(inside if kept else 0.0)
    truncated = bounded(torch.tensor([weight], dtype=torch.float64).log(), Correction(low=0.98, high=1.02))
    assert truncated.item() == pytest.approx(min(max(weight, 0.98), 1.02))

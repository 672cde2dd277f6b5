"""verl's rollout correction: weights, rejection and bypass, by version."""

from __future__ import annotations

import math
from typing import Any

import pytest
from verl_cases import CORRECTION, corrected, declared

from audit.errors import BadObjective
from audit.objectives.objective import (
    KL,
    Correction,
    Ratio,
    RewardKL,
)
from audit.objectives.surrogates import (
    NoClip,
    PPOClip,
)


@pytest.mark.parametrize(
    ("cell", "version", "options", "correction"),
    [
        ("off (rollout_is null)", "0.9.1", {}, None),
        (
            "threshold 2.0",
            "0.9.1",
            {"rollout_is": "token"},
            Correction(action="truncate", level="token", high=2.0),
        ),
        (
            "sequence product",
            "0.6.1",
            {"rollout_is": "sequence", "rollout_is_threshold": 5.0},
            Correction(action="truncate", level="product", high=5.0),
        ),
        (
            '"lo_hi" = IcePop, since 0.8.0',
            "0.8.0",
            {"rollout_is": "token", "rollout_is_threshold": "0.5_5.0"},
            Correction(action="mask", level="token", low=0.5, high=5.0),
        ),
    ],
)
def test_rollout_is(cell: str, version: str, options: dict[str, Any], correction: Correction | None) -> None:
    expected = () if correction is None else (correction,)
    assert corrected(version, **options).ratio.corrections == expected, cell


@pytest.mark.parametrize(
    ("cell", "version", "options", "level", "low", "high"),
    [
        ('k1 "a_b" keeps [1/b, 1/a]', "0.9.1", ("token_k1", "0.5_4"), "token", 0.25, 2.0),
        ("one k1 bound is symmetric", "0.9.1", ("seq_sum_k1", 2.0), "product", 0.5, 2.0),
        ("seq_mean_k1: geometric", "0.9.1", ("seq_mean_k1", "0.5_2"), "sequence", 0.5, 2.0),
        ("token_k2", "0.9.1", ("token_k2", 0.02), "token", math.exp(-0.2), math.exp(0.2)),
        ("0.6.1: windows of the ratio itself", "0.6.1", ("geometric", 1.5), "sequence", 1 / 1.5, 1.5),
        ("0.7.0: null takes rollout_is_threshold", "0.7.0", ("sequence", None), "product", 0.5, 2.0),
    ],
)
def test_rollout_rs(
    cell: str, version: str, options: tuple[str, Any], level: str, low: float, high: float
) -> None:
    rule, threshold = options
    (gate,) = corrected(version, rollout_rs=rule, rollout_rs_threshold=threshold).ratio.corrections
    assert (gate.action, gate.level, gate.weighs_kl) == ("gate", level, True), cell
    assert (gate.low, gate.high) == pytest.approx((low, high), rel=1e-12), cell


def test_k3_of_a_token_is_a_window_of_its_ratio() -> None:
    (gate,) = corrected(rollout_rs="token_k3", rollout_rs_threshold=0.01).ratio.corrections
    for bound in (gate.low, gate.high):
        assert bound is not None
        assert bound - 1.0 - math.log(bound) == pytest.approx(0.01, rel=1e-9)
    assert gate.low is not None
    assert gate.high is not None
    assert gate.low < 1.0 < gate.high


def test_rejected_tokens_leave_the_normaliser_unless_it_was_counted_before() -> None:
    def leaves(version: str, **options: Any) -> bool:
        found = corrected(version, rollout_rs="token_k1", rollout_rs_threshold=2.0, **options)
        return found.ratio.corrections[-1].leaves_denominator

    assert leaves("0.7.1")
    assert leaves("0.8.0")
    assert not leaves("0.9.1")  # the v1 trainer does not rewrite loss_mask
    assert leaves("0.7.1", bypass_mode=True)
    assert not leaves("0.8.0", bypass_mode=True)


def test_rules_chain_with_one_or_all_thresholds() -> None:
    found = corrected(rollout_rs="token_k1,seq_mean_k1", rollout_rs_threshold="0.5_2,0.9_1.1")
    assert [gate.level for gate in found.ratio.corrections] == ["token", "sequence"]
    shared = corrected(rollout_rs="token_k1, seq_sum_k1", rollout_rs_threshold=2.0)
    assert len(shared.ratio.corrections) == 2


@pytest.mark.parametrize("rule", ["seq_sum_k2", "seq_mean_k3", "seq_max_k2", "seq_max_k3"])
def test_k2_and_k3_over_a_response_are_refused_by_name(rule: str) -> None:
    with pytest.raises(BadObjective, match=f"rollout_rs='{rule}' is not expressible"):
        corrected(rollout_rs=rule, rollout_rs_threshold=0.01)


@pytest.mark.parametrize(
    ("version", "options", "match"),
    [
        ("0.9.1", {"rollout_rs": "token_k4", "rollout_rs_threshold": 1}, "no rollout_rs 'token_k4'"),
        ("0.9.1", {"rollout_rs": "seq_max_k1", "rollout_rs_threshold": 1}, "no rollout_rs 'seq_max_k1'"),
        ("0.9.1", {"rollout_rs": "token_k1"}, r"needs \S*rollout_rs_threshold"),
        (
            "0.9.1",
            {"rollout_rs": "token_k1", "rollout_rs_threshold": "1,2"},
            r"2 \S*rollout_rs_threshold for 1",
        ),
        ("0.9.1", {"rollout_rs": "token_k1", "rollout_rs_threshold": "2_1"}, "low must not exceed high"),
        ("0.9.1", {"rollout_rs": "token_k3", "rollout_rs_threshold": "1_2"}, "cannot read"),
        ("0.9.1", {"rollout_is": "geometric"}, "no algorithm.rollout_correction.rollout_is 'geometric'"),
        ("0.9.1", {"rollout_is": "token", "rollout_is_threshold": "x"}, "rollout_is_threshold='x' must be"),
        ("0.9.1", {"rollout_is": "token", "rollout_is_threshold": "5_0.5"}, "='5_0.5': low must"),
        ("0.9.1", {"rollout_is": "token", "rollout_is_batch_normalize": True}, "rollout_is_batch_normalize"),
        ("0.7.0", {"rollout_rs": "token_k1"}, "no algorithm.rollout_correction.rollout_rs 'token_k1'"),
        ("0.7.0", {"rollout_token_veto_threshold": 1e-4}, "rollout_token_veto_threshold=0.0001"),
        ("0.9.1", {"bypass_mode": True, "loss_type": "dpo"}, "loss_type 'dpo'"),
    ],
)
def test_what_verl_or_an_objective_refuses_is_named(
    version: str, options: dict[str, Any], match: str
) -> None:
    with pytest.raises(BadObjective, match=match):
        corrected(version, **options)


def test_geo_mean_takes_weights_of_whole_responses_only() -> None:
    assert corrected(mode="geo_mean", rollout_is="sequence").ratio.corrections[0].level == "product"
    with pytest.raises(BadObjective, match="rollout_is='token' with geo_mean"):
        corrected(mode="geo_mean", rollout_is="token")
    with pytest.raises(BadObjective, match="with geo_mean"):
        corrected(mode="geo_mean", rollout_rs="token_k1", rollout_rs_threshold=2.0)


def test_0_6_0_had_another_section_with_a_veto() -> None:
    config = {"algorithm.rollout_is": True, "algorithm.rollout_is_threshold": 2.0}
    with pytest.raises(BadObjective, match=r"rollout_is_veto_threshold=0.0001"):
        declared(config, "0.6.0")
    config["algorithm.rollout_is_veto_threshold"] = None
    assert declared(config, "0.6.0").ratio.corrections == (Correction(action="truncate", high=2.0),)
    masked = {
        **config,
        "algorithm.rollout_is_mode": "mask",
        "algorithm.rollout_is_level": "geometric",
    }
    assert declared(masked, "0.6.0").ratio.corrections == (
        Correction(action="mask", level="sequence", low=0.5, high=2.0),
    )
    assert declared({"algorithm.rollout_is_threshold": 2.0}, "0.6.0").ratio.corrections == ()  # metrics only


def test_bypass_puts_the_sampler_in_the_place_of_the_old_policy() -> None:
    clipped = corrected(bypass_mode=True, rollout_is="token")
    assert clipped.ratio == Ratio(denominator="sampler", clamp=20.0)
    assert clipped.clip == PPOClip(epsilon_low=0.2, epsilon_high=0.2, dual=3.0)
    reinforce = corrected(bypass_mode=True, loss_type="reinforce", rollout_is="sequence")
    weight = Correction(action="truncate", level="product", numerator="theta", high=2.0)
    assert reinforce.ratio == Ratio(corrections=(weight,))
    assert reinforce.clip == NoClip()
    assert reinforce.name == "verl-grpo-reinforce"
    rejecting = corrected(bypass_mode=True, rollout_rs="token_k1", rollout_rs_threshold=2.0)
    (gate,) = rejecting.ratio.corrections
    assert (gate.numerator, gate.weighs_kl) == ("theta", False)
    replaced = corrected(mode="gspo", bypass_mode=True)  # bypass replaces every other loss
    assert replaced.clip == clipped.clip
    kl = {CORRECTION + "bypass_mode": True, "algorithm.use_kl_in_reward": True}
    assert declared(kl).kl == KL(reward=RewardKL(coefficient=0.001, policy="sampler"))


def test_bypass_of_0_6_1_keeps_the_loss() -> None:
    kept = corrected("0.6.1", mode="gspo", bypass_mode=True, rollout_is="token")
    assert kept.ratio == Ratio(denominator="sampler", level="sequence_token")
    gradient = corrected("0.6.1", bypass_mode=True, use_policy_gradient=True, rollout_is="token")
    assert gradient.ratio.denominator == "theta"
    assert gradient.ratio.corrections == (Correction(numerator="theta", high=2.0),)

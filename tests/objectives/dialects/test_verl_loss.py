"""verl's policy losses, their clips and how they are averaged, by version."""

from __future__ import annotations

from typing import Any

import pytest
from verl_cases import declared, loss

from audit.errors import BadObjective
from audit.objectives.dialects.verl import objective_from_config
from audit.objectives.objective import (
    Aggregation,
    LossKL,
    Ratio,
)
from audit.objectives.surrogates import (
    DPPO,
    GMPO,
    SAPO,
    CISPOClip,
    ClipCov,
    KLCov,
    NoClip,
    PPOClip,
    Regression,
)

ROW_MEAN = Aggregation(kind="seq-mean-token-mean")


@pytest.mark.parametrize(
    ("cell", "mode", "clip", "ratio", "aggregation"),
    [
        (
            "dual clip c = 3 always on; clamp ±20",
            "vanilla",
            PPOClip(epsilon_low=0.2, epsilon_high=0.2, dual=3.0),
            Ratio(denominator="old", clamp=20.0),
            Aggregation(kind="token-mean"),
        ),
        (
            "gspo: token form of the sequence ratio; token-mean in 0.9.1",
            "gspo",
            PPOClip(epsilon_low=0.2, epsilon_high=0.2),
            Ratio(denominator="old", level="sequence_token"),
            Aggregation(kind="token-mean"),
        ),
        (
            "sapo ignores loss_agg_mode (row mean)",
            "sapo",
            SAPO(tau_positive=1.0, tau_negative=1.05),
            Ratio(denominator="old", clamp=20.0),
            ROW_MEAN,
        ),
        ("gpg: -A log pi", "gpg", NoClip(), Ratio(), Aggregation(kind="token-mean")),
        (
            "clip_cov: 2e-4 of the tokens with cov in (1, 5)",
            "clip_cov",
            ClipCov(epsilon_low=0.2, epsilon_high=0.2, fraction=2e-4, low=1.0, high=5.0),
            Ratio(denominator="old"),
            Aggregation(kind="token-mean"),
        ),
        (
            "kl_cov: |log ratio| · 0.1 on the top 2e-4",
            "kl_cov",
            KLCov(fraction=2e-4, coefficient=0.1),
            Ratio(denominator="old"),
            Aggregation(kind="token-mean"),
        ),
        (
            "geo_mean: plain row mean of the micro-batch",
            "geo_mean",
            GMPO(epsilon_low=0.2, epsilon_high=0.2),
            Ratio(denominator="old"),
            Aggregation(kind="seq-mean-token-mean", scope="micro_batch"),
        ),
        (
            "CISPO [1−ε_l, 1+ε_h] = [0.8, 1.2]",
            "cispo",
            CISPOClip(epsilon_low=0.2, epsilon_high=0.2),
            Ratio(denominator="old", clamp=20.0),
            Aggregation(kind="token-mean"),
        ),
        (
            "DPPO-TV: sg(min(ratio, 3)) in 0.2 of probability",
            "dppo_tv",
            DPPO(divergence="tv", delta_low=0.2, delta_high=0.2, cap=3.0),
            Ratio(denominator="old"),
            Aggregation(kind="token-mean"),
        ),
        (
            "DPPO-KL: binary KL",
            "dppo_kl",
            DPPO(divergence="kl", delta_low=0.2, delta_high=0.2, cap=3.0),
            Ratio(denominator="old"),
            Aggregation(kind="token-mean"),
        ),
    ],
)
def test_a_policy_loss_is_a_surrogate_a_ratio_and_an_aggregation(
    cell: str, mode: str, clip: Any, ratio: Ratio, aggregation: Aggregation
) -> None:
    objective = loss(mode)
    assert objective.clip == clip, cell
    assert objective.ratio == ratio, cell
    assert objective.aggregation == aggregation, cell
    assert objective.name == f"verl-grpo-{mode}"


def test_dro_is_a_regression_and_needs_its_beta() -> None:
    assert loss("dro", policy_loss__dro_beta=0.1).clip == Regression(tau=0.1)
    with pytest.raises(BadObjective, match=r"positive actor.policy_loss.dro_beta"):
        loss("dro")


@pytest.mark.parametrize(
    ("mode", "before", "since"),
    [
        ("clip_cov", "0.4.0", "0.4.1"),
        ("kl_cov", "0.4.0", "0.4.1"),
        ("gpg", "0.4.1", "0.5.0"),
        ("gspo", "0.5.0", "0.6.0"),
        ("geo_mean", "0.5.0", "0.6.0"),
        ("sapo", "0.6.1", "0.7.0"),
        ("cispo", "0.6.1", "0.7.0"),
        ("bypass_mode", "0.6.1", "0.7.0"),
        ("dppo_tv", "0.7.0", "0.7.1"),
        ("dppo_kl", "0.7.0", "0.7.1"),
    ],
)
def test_a_policy_loss_came_with_a_version(mode: str, before: str, since: str) -> None:
    with pytest.raises(
        BadObjective, match=f"has no actor.policy_loss.loss_mode {mode!r}: it came with {since}"
    ):
        loss(mode, before)
    loss(mode, since)


@pytest.mark.parametrize(
    ("cell", "version", "actor", "low", "high", "dual", "clamp"),
    [
        ("0.1 to 0.3: clip_ratio, no dual clip", "0.3.0", {"clip_ratio": 0.3}, 0.3, 0.3, None, None),
        ("0.2 / 0.2 by default", "0.9.1", {}, 0.2, 0.2, 3.0, 20.0),
        ("clip_ratio alone has no effect", "0.9.1", {"clip_ratio": 0.3}, 0.2, 0.2, 3.0, 20.0),
        ("clip_ratio alone has no effect, 0.4.0", "0.4.0", {"clip_ratio": 0.3}, 0.2, 0.2, 3.0, None),
        ("clip higher 0.28", "0.9.1", {"clip_ratio_high": 0.28}, 0.2, 0.28, 3.0, 20.0),
        (
            "null sides take clip_ratio",
            "0.9.1",
            {"clip_ratio": 0.3, "clip_ratio_low": None},
            0.3,
            0.2,
            3.0,
            20.0,
        ),
        ("clip_ratio_c", "0.5.0", {"clip_ratio_c": 10.0}, 0.2, 0.2, 10.0, 20.0),
        ("log-ratio clamp ±20 since 0.4.1", "0.4.1", {}, 0.2, 0.2, 3.0, 20.0),
    ],
)
def test_the_clip_of_a_version(
    cell: str, version: str, actor: dict[str, Any], low: float, high: float, dual: float, clamp: float
) -> None:
    objective = declared({}, version, **actor)
    assert objective.clip == PPOClip(epsilon_low=low, epsilon_high=high, dual=dual), cell
    assert objective.ratio.clamp == clamp, cell


def test_clip_ratio_alone_is_said_to_do_nothing() -> None:
    def notes(version: str, **actor: float) -> str:
        config = {f"actor_rollout_ref.actor.{key}": value for key, value in actor.items()}
        config["actor_rollout_ref.actor.entropy_coeff"] = 0
        return " ".join(objective_from_config(config, version).notes)

    assert "actor.clip_ratio does not set" in notes("0.9.1", clip_ratio=0.3)
    assert "clip_ratio" not in notes("0.3.0", clip_ratio=0.3)
    assert "clip_ratio" not in notes("0.9.1", clip_ratio=0.3, clip_ratio_low=0.3, clip_ratio_high=0.3)
    with pytest.raises(BadObjective, match="must be greater than 1"):
        declared(clip_ratio_c=1.0)


@pytest.mark.parametrize(
    ("cell", "version", "mode", "more", "aggregation"),
    [
        ("≤ 0.3: masked_mean", "0.3.0", None, {}, ("token-mean", "micro_batch", None, "all")),
        ("≤ 0.6.1 micro-batch", "0.6.1", "token-mean", {}, ("token-mean", "micro_batch", None, "nonempty")),
        ("0.7 legacy worker", "0.7.1", "token-mean", {}, ("token-mean", "micro_batch", None, "nonempty")),
        (
            "0.7 on request: global tokens",
            "0.7.0",
            "token-mean",
            {"trainer.use_legacy_worker_impl": "disable"},
            ("token-mean", "update", None, "all"),
        ),
        (
            "global tokens over the mini-batch",
            "0.8.0",
            "token-mean",
            {},
            ("token-mean", "update", None, "all"),
        ),
        ("token-sum new in 0.9", "0.9.0", "token-sum", {}, ("token-sum", "update", None, "all")),
        (
            "rows counted through 0.6.0",
            "0.6.0",
            "seq-mean-token-mean",
            {},
            ("seq-mean-token-mean", "micro_batch", None, "all"),
        ),
        (
            "fully masked rows excluded in 0.6.1 to 0.7.1",
            "0.6.1",
            "seq-mean-token-mean",
            {},
            ("seq-mean-token-mean", "micro_batch", None, "nonempty"),
        ),
        (
            "rows counted (global_batch_size = mini-batch × n)",
            "0.9.1",
            "seq-mean-token-mean",
            {},
            ("seq-mean-token-mean", "update", None, "all"),
        ),
        ("1/B", "0.9.1", "seq-mean-token-sum", {}, ("seq-mean-token-sum", "update", None, "all")),
        (
            "not divided by the batch through 0.7.0",
            "0.7.0",
            "seq-mean-token-sum-norm",
            {"data.max_response_length": 2048},
            ("token-sum-norm", "micro_batch", 2048.0, "all"),
        ),
        (
            "divided by the batch since 0.7.1",
            "0.7.1",
            "seq-mean-token-sum-norm",
            {},
            ("seq-mean-token-sum-norm", "micro_batch", 512.0, "nonempty"),
        ),
        (
            "C = T: the padded response length",
            "0.8.0",
            "seq-mean-token-sum-norm",
            {},
            ("seq-mean-token-sum-norm", "update", 512.0, "all"),
        ),
        (
            "C = T: longest in the batch (varies!)",
            "0.9.1",
            "seq-mean-token-sum-norm",
            {},
            ("seq-mean-token-sum-norm", "update", "longest", "all"),
        ),
        (
            "C = loss_scale_factor",
            "0.9.1",
            "seq-mean-token-sum-norm",
            {"actor_rollout_ref.actor.loss_scale_factor": 4096},
            ("seq-mean-token-sum-norm", "update", 4096.0, "all"),
        ),
        (
            "loss_scale_factor does not reach the legacy worker",
            "0.7.1",
            "seq-mean-token-sum-norm",
            {"actor_rollout_ref.actor.loss_scale_factor": 4096},
            ("seq-mean-token-sum-norm", "micro_batch", 512.0, "nonempty"),
        ),
    ],
)
def test_loss_agg_mode_by_version(
    cell: str, version: str, mode: str | None, more: dict[str, Any], aggregation: tuple[Any, ...]
) -> None:
    actor = {} if mode is None else {"loss_agg_mode": mode}
    found = declared(more, version, **actor).aggregation
    rows = found.rows if found.kind.startswith("seq") else aggregation[3]
    assert (found.kind, found.scope, found.constant, rows) == aggregation, cell


@pytest.mark.parametrize("version", ["0.6.0", "0.8.0", "0.9.0"])
def test_gspo_was_a_row_mean_through_0_9_0(version: str) -> None:
    objective = loss("gspo", version, use_kl_loss=True)
    assert objective.aggregation.kind == "seq-mean-token-mean"
    assert objective.kl.loss is not None
    assert objective.kl.loss.aggregation is not None
    assert objective.kl.loss.aggregation.kind == "token-mean"  # the KL follows the mode
    assert loss("gspo", use_kl_loss=True).kl.loss == LossKL(
        coefficient=0.001, input_clamp=20.0, output_clamp=10.0
    )


def test_unknown_aggregations_are_refused() -> None:
    with pytest.raises(BadObjective, match=r"has no actor.loss_agg_mode 'token-sum'"):
        declared({}, "0.8.0", loss_agg_mode="token-sum")
    with pytest.raises(BadObjective, match=r"has no actor.loss_agg_mode 'mean'"):
        declared(loss_agg_mode="mean")


@pytest.mark.parametrize(
    ("cell", "version", "config", "denominator"),
    [
        ("recomputed old", "0.9.1", {"data.train_batch_size": 256}, "old"),
        ("0.6–0.7 legacy actor: θ.detach()", "0.6.0", {"data.train_batch_size": 256}, "theta"),
        ("if one mini-batch and one epoch", "0.7.1", {"data.train_batch_size": 256}, "theta"),
        (
            "not with two epochs",
            "0.7.1",
            {"data.train_batch_size": 256, "actor_rollout_ref.actor.ppo_epochs": 2},
            "old",
        ),
        ("1024 over 256: four mini-batches", "0.7.1", {}, "old"),
        ("not before 0.6", "0.5.0", {"data.train_batch_size": 256}, "old"),
        (
            "not in the new worker",
            "0.7.1",
            {"data.train_batch_size": 256, "trainer.use_legacy_worker_impl": "disable"},
            "old",
        ),
    ],
)
def test_the_denominator_of_the_ratio(
    cell: str, version: str, config: dict[str, Any], denominator: str
) -> None:
    assert declared(config, version).ratio.denominator == denominator, cell

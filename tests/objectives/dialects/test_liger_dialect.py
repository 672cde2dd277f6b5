"""The Liger dialect: the arguments of its fused GRPO loss."""

from __future__ import annotations

from typing import Any

import pytest

from audit.errors import BadObjective
from audit.objectives.dialects import from_framework
from audit.objectives.objective import KL, Aggregation, Baseline, LossKL, Objective, Ratio, from_dict
from audit.objectives.surrogates import SAPO, VESPO, CISPOClip, PPOClip


def declared(config: dict[str, Any], version: str = "0.8.5") -> Objective:
    return from_framework("liger", version, config).objective


def test_the_defaults_are_dapo_with_a_kl_on_given_advantages() -> None:
    assert declared({}) == Objective(
        name="liger-dapo",
        baseline=Baseline(kind="logged"),
        ratio=Ratio(denominator="old"),
        clip=PPOClip(epsilon_low=0.2, epsilon_high=0.2),
        aggregation=Aggregation(kind="token-mean", scope="micro_batch"),
        kl=KL(loss=LossKL(coefficient=0.04)),
    )


@pytest.mark.parametrize(
    ("cell", "config", "kind", "clip"),
    [
        (
            "grpo: row mean",
            {"loss_type": "grpo"},
            "seq-mean-token-mean",
            PPOClip(epsilon_low=0.2, epsilon_high=0.2),
        ),
        (
            "bnpo",
            {"loss_type": "bnpo", "delta": 4.0},
            "token-mean",
            PPOClip(epsilon_low=0.2, epsilon_high=0.2, delta=4.0),
        ),
        (
            "absolute cap for cispo",
            {"loss_type": "cispo", "epsilon_high": 5.0},
            "token-mean",
            CISPOClip(epsilon_high=4.0),
        ),
        (
            "sapo: row mean",
            {"loss_type": "sapo"},
            "seq-mean-token-mean",
            SAPO(tau_positive=1.0, tau_negative=1.05),
        ),
        ("vespo", {"loss_type": "vespo", "vespo_k_neg": 2.0}, "token-mean", VESPO(k_negative=2.0)),
        (
            "dr_grpo over a budget",
            {"loss_type": "dr_grpo", "max_completion_length": 64},
            "seq-mean-token-sum-norm",
            PPOClip(epsilon_low=0.2, epsilon_high=0.2),
        ),
        (
            "luspo: row sum",
            {"loss_type": "luspo", "importance_sampling_level": "sequence", "beta": 0.0},
            "seq-mean-token-sum",
            PPOClip(epsilon_low=0.2, epsilon_high=0.2),
        ),
    ],
)
def test_a_loss_type_is_an_aggregation_and_a_surrogate(
    cell: str, config: dict[str, Any], kind: str, clip: Any
) -> None:
    objective = declared(config)
    assert (objective.aggregation.kind, objective.aggregation.scope) == (kind, "micro_batch"), cell
    assert objective.clip == clip, cell
    assert from_dict(objective.to_dict()) == objective


def test_gspo_and_the_bias_corrected_kl() -> None:
    config = {"loss_type": "grpo", "importance_sampling_level": "sequence", "use_bias_correction_kl": True}
    objective = declared(config)
    assert objective.ratio.level == "sequence"
    assert objective.kl.loss == LossKL(coefficient=0.04, gradient="ratio")


@pytest.mark.parametrize(
    ("config", "match"),
    [
        ({"loss_type": "dr_grpo"}, "needs max_completion_length"),
        ({"loss_type": "cispo", "importance_sampling_level": "sequence"}, "Liger refuses loss_type='cispo'"),
        ({"loss_type": "luspo", "importance_sampling_level": "sequence"}, "padded width"),
        ({"loss_type": "luspo", "beta": 0.0}, "padded width"),
        ({"loss_type": "gppo"}, "Did you mean 'grpo'"),
    ],
)
def test_what_liger_or_an_objective_refuses(config: dict[str, Any], match: str) -> None:
    with pytest.raises(BadObjective, match=match):
        declared(config)


def test_notes_and_unknown_arguments() -> None:
    found = from_framework("liger", "0.9.0", {"epsilon": 0.2, "chunk_size": 4})
    assert found.unknown == ("epsilon",)
    assert "was read at 0.8.5" in found.notes[0]
    assert "num_items_in_batch" in found.notes[1]

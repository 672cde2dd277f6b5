"""The AReaL dialect: every cell of its row in the tables of methods, and weights from the formulas."""

from __future__ import annotations

import math
import statistics
from typing import Any

import pytest
from tiny_batch import assert_weights, batch, cell, check_cell, clipped, on_policy
from tiny_batch import objective as declared

from audit.errors import BadObjective
from audit.objectives.dialects import from_framework

V = "1.0.4"
GROUP = {"mean_level": "group", "std_level": "group", "group_size": 4}
LOO = GROUP | {"mean_leave1out": True}
BATCH = {"mean_level": "batch", "std_level": "batch"}
OFFPOLICY = {"actor.use_decoupled_loss": True}


def rejecting(**how: Any) -> dict[str, Any]:
    return OFFPOLICY | {"actor.rejection_sampling": how}


@pytest.mark.parametrize(
    ("config", "field", "value", "version"),
    [
        cell("2.1 none", "baseline.kind", "none"),
        cell("2.1 none", "scale.kind", "none"),
        cell("2.1 group/group", "baseline.kind", "group_mean", {"actor.reward_norm": GROUP}),
        cell("2.1 group/group", "scale.kind", "group_std", {"actor.reward_norm": GROUP}),
        cell("2.1 ddof 1", "scale.ddof", 1, {"actor.reward_norm": GROUP}),
        cell("2.1 biased", "scale.ddof", 0, {"actor.reward_norm": GROUP | {"std_unbiased": False}}),
        cell("2.1 +1e-5", "scale.epsilon", 1e-5, {"actor.reward_norm": GROUP}),
        cell("2.1 batch", "baseline.kind", "batch_mean", {"actor.reward_norm": BATCH}),
        cell("2.1 batch", "scale.kind", "batch_std", {"actor.reward_norm": BATCH}),
        cell("2.1 LOO std about own LOO mean", "baseline.kind", "group_mean", {"actor.reward_norm": LOO}),
        cell("2.1 LOO std about own LOO mean", "scale.epsilon", 0.75e-5, {"actor.reward_norm": LOO}),
        cell("2.1 LOO", "baseline.kind", "leave_one_out", {"actor.reward_norm": LOO | {"std_level": None}}),
        cell("2.1 G = 1 -> 0", "baseline.singleton", "zero", {"actor.reward_norm": GROUP}),
        cell("2.1 adv_norm", "scale.whiten.level", "token", {"actor.adv_norm": BATCH}),
        cell("2.1 adv_norm", "scale.whiten.epsilon", 1e-5, {"actor.adv_norm": BATCH}),
        cell("2.1 kl_ctl 0.1", "kl.reward.coefficient", 0.1),
        cell("2.1 k1", "kl.reward.estimator", "k1"),
        cell("2.1 of the sampler", "kl.reward.policy", "sampler"),
        cell("2.1 of what was recomputed", "kl.reward.policy", "old", {"actor.recompute_logprob": True}),
        cell("2.1 KL to go", "kl.reward.form", "to_go"),
        cell("2.1 reward_clip 20", "shaping.clip", (-20.0, 20.0)),
        cell(
            "2.1 after bias/scale",
            "shaping.clip",
            (-1.5, 2.5),
            {"actor.reward_scaling": 10.0, "actor.reward_bias": -0.5},
        ),
        cell(
            "2.1 bias/scale",
            "shaping.offset",
            -5.0,
            {"actor.reward_scaling": 10.0, "actor.reward_bias": -0.5},
        ),
        cell("2.2 token mean", "aggregation.kind", "token-mean"),
        cell("2.2 mini-batch", "aggregation.scope", "update"),
        cell("2.2 KL in the reward", "kl.loss", None),
        cell("2.3 sampler by default", "ratio.denominator", "sampler"),
        cell("2.3 recomputed", "ratio.denominator", "old", {"actor.recompute_logprob": True}),
        cell("2.3 decoupled", "ratio.denominator", "old", OFFPOLICY),
        cell("2.3 low", "clip.epsilon_low", 0.2),
        cell("2.3 high = low", "clip.epsilon_high", 0.3, {"actor.eps_clip": 0.3}),
        cell("2.3 high", "clip.epsilon_high", 0.28, {"actor.eps_clip_higher": 0.28}),
        cell("2.3 c_clip None", "clip.dual", None),
        cell("2.3 c_clip", "clip.dual", 3.0, {"actor.c_clip": 3.0}),
        cell("2.3 GSPO", "ratio.level", "sequence", {"actor.importance_sampling_level": "sequence"}),
        cell("2.3 SAPO", "clip.kind", "sapo", {"actor.use_sapo_loss": True}),
        cell("2.3 SAPO", "clip.tau_negative", 1.05, {"actor.use_sapo_loss": True}),
        cell("2.3 no log-ratio clamp", "ratio.clamp", None),
        cell("2.4 no correction", "ratio.corrections", (), OFFPOLICY),
        cell("2.4 mask, upper 5", "ratio.corrections.0.high", 5.0, rejecting()),
        cell("2.4 mask", "ratio.corrections.0.action", "mask", rejecting()),
        cell("2.4 original count", "ratio.corrections.0.leaves_denominator", False, rejecting()),
        cell("2.4 clamp", "ratio.corrections.0.action", "truncate", rejecting(action="clamp")),
        cell("2.4 sequence", "ratio.corrections.0.level", "sequence", rejecting(level="sequence")),
        cell(
            "2.4 sequence sum", "ratio.corrections.0.level", "product", rejecting(level="sequence", agg="sum")
        ),
        cell(
            "2.4 overlong",
            "shaping.overlong.capped",
            False,
            {
                "actor.overlong_reward_penalty": True,
                "actor.overlong_tokens": 32,
                "actor.overlong_penalty_factor": 1.0,
            },
        ),
        cell("2.4 critic", "baseline.kind", "gae", {"critic": {"path": "x"}}),
    ],
)
def test_cells_of_the_tables(config: Any, field: str, value: Any, version: str | None) -> None:
    check_cell("areal", version or V, config, field, value)


def test_the_default_advantage_is_the_raw_reward_less_a_tenth_of_the_kl_to_go() -> None:
    rows = batch()
    tokens = sum(len(row.mask) for row in rows)
    expected = []
    for row in rows:
        k1 = [s - f for s, f in zip(row.sampler, row.ref, strict=True)]
        made = []
        for t, (theta, sampler) in enumerate(zip(row.theta, row.sampler, strict=True)):
            advantage = row.reward - 0.1 * math.fsum(k1[t:])
            made.append(advantage * clipped(math.exp(theta - sampler), advantage, 0.2, 0.2) / tokens)
        expected.append(made)
    assert_weights(declared("areal", V), rows, expected)


def test_a_leave_one_out_mean_makes_the_std_one_about_it() -> None:
    objective = declared("areal", V, actor__reward_norm=LOO | {"eps": 0.1}, actor__kl_ctl=0.0)
    rows = on_policy(batch())
    tokens = sum(len(row.mask) for row in rows)
    expected = []
    for row in rows:
        group = [r for r in rows if r.group == row.group]
        centred = {id(r): r.reward - statistics.fmean([o.reward for o in group if o is not r]) for r in group}
        std = math.sqrt(math.fsum(x * x for x in centred.values()) / 3)
        expected.append([centred[id(row)] / (std + 0.1) / tokens] * len(row.mask))
    assert_weights(objective, rows, expected)


def test_decoupled_weights_carry_the_policy_over_the_sampler_and_the_count_stays() -> None:
    config = {"actor__use_decoupled_loss": True, "actor__kl_ctl": 0.0}
    objective = declared("areal", V, actor__rejection_sampling={"upper": 1.2, "lower": 0.9}, **config)
    rows = batch()
    tokens = sum(len(row.mask) for row in rows)
    expected = []
    for row in rows:
        made = []
        for theta, old, sampler in zip(row.theta, row.old, row.sampler, strict=True):
            behaved = math.exp(old - sampler)
            kept = behaved if 0.9 <= behaved <= 1.2 else 0.0
            made.append(kept * row.reward * clipped(math.exp(theta - old), row.reward, 0.2, 0.2) / tokens)
        expected.append(made)
    assert_weights(objective, rows, expected)


@pytest.mark.parametrize(
    ("config", "named"),
    [
        ({"actor.m2_threshold": 0.04}, "m2_threshold=0.04"),
        ({"actor.mask_no_eos_with_zero": True}, "mask_no_eos_with_zero=True"),
        ({"actor.reward_scaling": 0.0}, "reward_scaling=0.0"),
        ({"actor.discount": 0.9}, "discount=0.9"),
        ({"actor.gae_lambda": 0.9}, "gae_lambda=0.9"),
        ({"actor.reward_norm": {"mean_level": "group"}}, "group_size=1"),
        ({"actor.reward_norm": GROUP | {"std_level": "batch"}}, "not about its own mean"),
        ({"actor.reward_norm": BATCH | {"mean_leave1out": True}}, "leave-one-out mean over the batch"),
        ({"actor.adv_norm": GROUP}, "adv_norm="),
        ({"critic": {"path": "x"}, "actor.reward_norm": BATCH}, "before a critic"),
        (OFFPOLICY | {"actor.prox_logp_method": "loglinear"}, "prox_logp_method='loglinear'"),
        (rejecting(metric="kl_k2"), "rejection_sampling="),
        (rejecting(level="sequence", agg="max"), "rejection_sampling="),
        (rejecting(level="sequence", agg="sum", action="clamp"), "rejection_sampling="),
        (OFFPOLICY | {"actor.use_sapo_loss": True}, "use_decoupled_loss=false"),
    ],
)
def test_what_an_objective_cannot_express_is_refused_by_name(config: dict[str, Any], named: str) -> None:
    with pytest.raises(BadObjective) as error:
        from_framework("areal", V, config)
    assert named in str(error.value)


def test_notes_say_what_was_assumed() -> None:
    assert "count as 0" in from_framework("areal", V, {}).notes[0]
    assert from_framework("areal", V, {"actor": {"kl_ctl": 0.0}}).notes == ()
    ignored = from_framework("areal", V, {"actor": {"kl_ctl": 0.0, "rejection_sampling": {"upper": 2.0}}})
    assert "does nothing without use_decoupled_loss" in ignored.notes[0]

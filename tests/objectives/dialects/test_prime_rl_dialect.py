"""The prime-rl dialect: every cell of its row in the tables of methods, and weights from the formulas."""

from __future__ import annotations

import math
import statistics
from typing import Any

import pytest
from tiny_batch import assert_weights, batch, cell, check_cell
from tiny_batch import objective as declared

from audit.errors import BadObjective
from audit.objectives.dialects import from_framework

V = "0.8.0"
IPO = {"trainer.loss.type": "ipo"}
MAX_RL = {"orchestrator.algo.type": "max_rl"}


@pytest.mark.parametrize(
    ("config", "field", "value", "version"),
    [
        cell("2.1 mean", "baseline.kind", "group_mean"),
        cell("2.1 no std", "scale.kind", "none"),
        cell("2.1 max_rl (r-mu)/mu", "scale.kind", "group_mean", MAX_RL),
        cell("2.1 max_rl no epsilon", "scale.epsilon", 0.0, MAX_RL),
        cell("2.1 G = 1 -> 0", "baseline.singleton", "zero"),
        cell("2.1 no KL in reward", "kl.reward", None),
        cell("2.2 tokens", "aggregation.kind", "token-mean"),
        cell("2.2 step", "aggregation.scope", "update"),
        cell("2.2 KL same", "kl.loss.aggregation", None),
        cell("2.3 sampler", "ratio.denominator", "sampler"),
        cell("2.3 DPPO-TV", "clip.kind", "dppo"),
        cell("2.3 DPPO-TV", "clip.divergence", "tv"),
        cell("2.3 0.2", "clip.delta_low", 0.2),
        cell("2.3 0.2", "clip.delta_high", 0.2),
        cell("2.3 gradient through the ratio", "clip.cap", None),
        cell("2.3 ipo", "clip.kind", "probability_mask", IPO),
        cell("2.3 ipo 0.1", "clip.delta", 0.1, IPO),
        cell("2.3 no log-ratio clamp", "ratio.clamp", None),
        cell("2.4 1e-3 squared log-ratio", "kl.loss.coefficient", 2e-3),
        cell("2.4 squared log-ratio", "kl.loss.estimator", "k2"),
        cell("2.4 to the sampler", "kl.loss.against", "sampler"),
        cell("2.4 correction in the ratio", "ratio.corrections", ()),
        cell("2.4 zero-advantage rows dropped", "filter.zero_advantage", True),
        cell(
            "2.4 kept", "filter.zero_advantage", False, {"orchestrator.train.filter_zero_advantages": False}
        ),
        cell("2.4 no overlong", "shaping.overlong", None),
    ],
)
def test_cells_of_the_tables(config: Any, field: str, value: Any, version: str | None) -> None:
    check_cell("prime-rl", version or V, config, field, value)


def dropped(theta: float, sampler: float, advantage: float) -> bool:
    moved = math.exp(theta) - math.exp(sampler)
    return (advantage > 0 and moved > 0.05) or (advantage < 0 and moved < -0.05)


def test_weights_are_ratios_to_the_sampler_inside_the_region_and_a_quadratic_everywhere() -> None:
    loss = {"dppo_mask_low": 0.05, "dppo_mask_high": 0.05, "adv_tau": 0.5, "kl_tau": 0.01}
    objective = from_framework("prime-rl", V, {"trainer": {"loss": loss}}).objective
    rows = batch(((1.0, 0.0, 0.0, 0.0), (0.5, 0.5, 0.5, 0.5)))
    tokens = sum(len(row.mask) for row in rows[:4])
    expected = []
    for row in rows:
        advantage = row.reward - 0.25 if row.group == 0 else 0.0
        made = []
        for theta, sampler in zip(row.theta, row.sampler, strict=True):
            d = theta - sampler
            policy = 0.0 if dropped(theta, sampler, advantage) else 0.5 * advantage * math.exp(d)
            made.append((policy - 0.01 * 2 * d) / tokens if row.group == 0 else 0.0)
        expected.append(made)
    assert_weights(objective, rows, expected)


def test_max_rl_divides_by_the_mean_of_the_group() -> None:
    objective = declared("prime-rl", V, algo__type="max_rl", loss__kl_tau=0.0)
    rows = batch(drift=0.0)
    tokens = sum(len(row.mask) for row in rows)
    expected = []
    for row in rows:
        mean = statistics.fmean([r.reward for r in rows if r.group == row.group])
        expected.append([(row.reward - mean) / mean / tokens] * len(row.mask))
    assert_weights(objective, rows, expected)


@pytest.mark.parametrize(
    ("config", "named"),
    [
        ({"algo": {"type": "rae"}}, "algo.type='rae'"),
        ({"algo": {"type": "opd"}}, "algo.type='opd'"),
        ({"algo": {"type": "ppo"}}, "no algo.type 'ppo'"),
        ({"algo": {"length_penalty": {"type": "linear"}}}, "length_penalty"),
        ({"loss": {"type": "custom", "import_path": "mine.loss"}}, "loss.type='custom'"),
        ({"loss": {"adv_tau": 0.0}}, "adv_tau=0.0"),
        ({"orchestrator": {"train": {"source": [{"algo": {"type": "max_rl"}}]}}}, "algorithm of its own"),
    ],
)
def test_what_an_objective_cannot_express_is_refused_by_name(config: dict[str, Any], named: str) -> None:
    with pytest.raises(BadObjective) as error:
        from_framework("prime-rl", V, config)
    assert named in str(error.value)


def test_environments_that_inherit_the_algorithm_are_read() -> None:
    config = {
        "orchestrator": {"algo": {"type": "max_rl"}, "train": {"source": [{"algo": {"type": "max_rl"}}]}}
    }
    assert from_framework("prime-rl", V, config).objective.scale.kind == "group_mean"

"""The tokens of one response and their factors, against the weights of the whole step and a slow loop."""

from __future__ import annotations

import math

import numpy as np
import pytest
from synthetic import rollouts, write

from audit.analyses.fitted import fitted
from audit.analyses.group_view import group_view
from audit.analyses.token_view import token_view
from audit.facts.rows import RunRows
from audit.facts.step_rows import step_rows
from audit.facts.weigh import weigh
from audit.objectives.catalogue import CATALOGUE, named
from audit.objectives.objective import from_dict


@pytest.fixture(scope="module")
def step(tmp_path_factory):
    rows = rollouts(steps=2, groups=3, size=4, longest=7)
    for place, row in enumerate(rows):
        row["entropy"] = [0.1 * t for t in range(row["length"])]
        row["logp_sampler"] = [x - 0.01 for x in row["logp_old"]]
        row["value"] = [0.3] * row["length"]
        row["advantage"] = row["reward"] - 0.4
        row["reward_components"] = {"accuracy": row["reward"], "format": float(place % 2)}
        row["loss_mask"] = [t != 2 or place % 3 > 0 for t in range(row["length"])]
    return step_rows(RunRows.read(write(tmp_path_factory.mktemp("logs") / "run", rows)), 4)


@pytest.mark.parametrize("name", [name for name in CATALOGUE if name != "remax"])
def test_it_agrees_with_the_weights_of_the_step(step, name) -> None:
    objective, _ = fitted(step.rows, named(name))
    whole = list(weigh(step.rows, objective))
    weight = np.concatenate([batch.weights.weight.numpy() for batch in whole])
    gone = np.concatenate([batch.weights.zeroed.numpy() for batch in whole])
    starts = np.concatenate([[0], np.cumsum(step.rows.length).astype(int)])
    for row in (0, 5, 11):
        view = token_view(step, row, objective)
        here = slice(starts[row], starts[row + 1])
        np.testing.assert_allclose(view.weight, weight[here], rtol=1e-9, atol=1e-15)
        np.testing.assert_array_equal(view.zeroed, gone[here])
        # w = Z · A · c + k, as it is shown.
        told = np.nan_to_num(view.nu * view.advantage * view.factor) + view.kl
        if objective.clip.proportional:
            np.testing.assert_allclose(told, view.weight, rtol=1e-9, atol=1e-15)
        assert all(
            (branch == "removed") == bool(z) for branch, z in zip(view.branch, view.zeroed, strict=True)
        )


def test_every_number_is_what_a_slow_loop_gives(step) -> None:
    objective = from_dict(
        {
            "baseline": {"kind": "group_mean"},
            "ratio": {"denominator": "old"},
            "clip": {"kind": "ppo", "epsilon_low": 0.1, "epsilon_high": 0.1},
            "aggregation": {"kind": "seq-mean-token-sum"},
            "kl": {"loss": {"coefficient": 0.1, "estimator": "k2"}},
        }
    )
    table = step.table.to_pylist()
    seen = set()
    for at, row in enumerate(table):
        group = [other["reward"] for other in table if other["group_id"] == row["group_id"]]
        advantage = row["reward"] - math.fsum(group) / len(group)
        view = token_view(step, at, objective)
        assert view.nu == pytest.approx(1 / len(table))
        for t in range(row["length"]):
            ratio = math.exp(row["logp_theta"][t] - row["logp_old"][t])
            kl = row["logp_theta"][t] - row["logp_ref"][t]
            if not row["loss_mask"][t]:
                assert (view.branch[t], view.weight[t]) == ("masked", 0.0)
                assert math.isnan(view.measures["gap"][t])
                continue
            if advantage == 0:
                wanted, c = "no advantage", math.nan
            elif (advantage > 0 and ratio > 1.1) or (advantage < 0 and ratio < 0.9):
                wanted, c = "removed", 0.0
            else:
                wanted, c = ("inside" if 0.9 <= ratio <= 1.1 else "kept outside"), ratio
            seen.add(wanted)
            assert view.branch[t] == wanted
            assert view.factor[t] == pytest.approx(c, nan_ok=True)
            assert view.ratio[t] == pytest.approx(ratio)
            assert view.kl[t] == pytest.approx(-0.1 * kl / len(table))
            pull = 0.0 if math.isnan(c) else advantage * c
            assert view.weight[t] == pytest.approx(pull / len(table) - 0.1 * kl / len(table))
            assert view.measures["kl"][t] == pytest.approx(kl * kl / 2)
            assert view.measures["ratio"][t] == pytest.approx(math.log(ratio), abs=1e-9)
            assert view.measures["sampler_gap"][t] == pytest.approx(0.01, rel=1e-3)
    assert {"inside", "removed", "kept outside"} <= seen


def test_a_bounded_weight_is_told_from_a_removed_one(step) -> None:
    objective = named("cispo").replace(clip=from_dict({"clip": {"kind": "cispo", "epsilon_high": 0.01}}).clip)
    view = [token_view(step, row, objective) for row in range(step.rows.num_rows)]
    branches = [(b, c, r) for v in view for b, c, r in zip(v.branch, v.factor, v.ratio, strict=True)]
    bounded = [c for b, c, _ in branches if b == "bounded"]
    assert bounded
    assert bounded == pytest.approx([1.01] * len(bounded))
    assert all(r <= 1.01 for b, _, r in branches if b == "inside")


def test_a_group_side_by_side(step) -> None:
    group = step.groups[1]
    objectives = {"grpo": named("grpo"), "rloo": named("rloo"), "remax": named("remax")}
    view = group_view(step, group, objectives)
    rows = [row for row in step.table.to_pylist() if row["group_id"] == group]
    assert [r.reward for r in view.responses] == [row["reward"] for row in rows]
    assert [r.label for r in view.responses] == [str(row["sample_index"]) for row in rows]
    assert view.prompt == rows[0]["prompt"]
    total = sum(row["reward"] for row in rows)
    for response, row in zip(view.responses, rows, strict=True):
        others = (total - row["reward"]) / (len(rows) - 1)
        assert response.advantages["rloo"] == pytest.approx(row["reward"] - others)
        assert response.advantages["remax"] is None
        assert response.text == row["response"]
    assert any(text.startswith("remax: ") for text in view.skipped)


def test_an_unknown_group_has_no_responses(step) -> None:
    assert group_view(step, "nothing", {}).responses == []

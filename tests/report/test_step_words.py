"""Words and charts of one step: the numbers of the result, and its marks."""

from __future__ import annotations

import math

import numpy as np
import pytest
from synthetic import rollouts, write

from audit.analyses.one_step import one_step
from audit.analyses.token_view import TokenView, token_view
from audit.errors import AuditError
from audit.facts.rows import RunRows
from audit.facts.step_rows import step_rows
from audit.objectives.catalogue import named
from audit.objectives.objective import from_dict
from audit.report.step_charts import OTHER, OWN, betas_chart, direction, parts_chart
from audit.report.step_words import headline, rows_of
from audit.report.token_words import BRANCHES, factors_of_token, formula
from audit.stats import Estimate


@pytest.fixture(scope="module")
def step(tmp_path_factory):
    run = write(tmp_path_factory.mktemp("logs") / "run", rollouts(steps=2, groups=6))
    return step_rows(RunRows.read(run), 2)


@pytest.fixture(scope="module")
def result(step):
    return one_step(step, named("grpo"), named("cispo"))


def test_a_row_holds_both_values_and_marks_a_change_that_is_told_apart(result) -> None:
    rows = {row[""]: row for row in rows_of(result)}
    first = rows["clip-zeroed loss tokens"]
    assert first[OTHER] == "0 [0, 0] %"
    assert first["change"].startswith("▼ -")
    assert first["change"].endswith(" pp")
    assert rows["effective beta at p = 0.5"][OTHER] == "no KL"
    assert set(rows["push on length, tokens"]) == {"", OWN, OTHER, "change", "n"}


@pytest.mark.parametrize(
    ("low", "high", "said"), [(0.1, 0.3, "more"), (-0.3, -0.1, "less"), (-0.1, 0.1, ""), (None, None, "")]
)
def test_a_direction_needs_an_interval_without_0(low, high, said) -> None:
    value = 0.0 if low is None else (low + high) / 2
    assert direction(Estimate(value, low, high, 8)) == said


def test_the_headline_tells_same_weights_from_same_direction(step, result) -> None:
    grpo = named("grpo")
    assert headline(one_step(step, grpo, grpo)) == "The same weights on every token of this step."
    twice = from_dict(grpo.to_dict() | {"kl": {}})
    fields = twice.to_dict()
    fields["aggregation"]["factor"] = 0.5
    half = from_dict(fields)
    assert headline(one_step(step, twice, half)) == (
        "The same direction on this step; weights 0.5 times as large."
    )
    assert headline(result).startswith("Another direction on this step: 1 - cosine = ")


def test_charts_hold_the_shares_of_both(result) -> None:
    for kind, parts in result.parts.items():
        chart = parts_chart(result, kind, "share", "#123456").to_dict()
        (rows,) = chart["datasets"].values()
        assert [row["value"] for row in rows] == [e.value for p in parts for e in (p.a, p.b)]
        assert {row["objective"] for row in rows} == {OWN, OTHER}
        assert chart["layer"][0]["encoding"]["color"]["scale"]["range"][1] == "#123456"
        per_token = parts_chart(result, kind, "per_token", "#123456").to_dict()
        (rows,) = per_token["datasets"].values()
        assert [row["value"] for row in rows] == [
            e.value for p in parts for e in (p.per_token_a, p.per_token_b)
        ]
    (rows,) = betas_chart(result, "#123456").to_dict()["datasets"].values()
    assert {row["objective"] for row in rows} == {OWN}
    with pytest.raises(AuditError, match="no gradient by nothing"):
        parts_chart(result, "nothing", "share", "#123456")


def test_the_formula_multiplies_out(step) -> None:
    objective = named("grpo")
    for row in range(8):
        view = token_view(step, row, objective)
        for at in range(len(view.mask)):
            text = formula(view, at)
            if "0 · c" in text:
                continue
            terms, _, total = text.removeprefix("w = Z · A · c + k = ").rpartition(" = ")
            product, _, k = terms.rpartition(" + ")
            z, a, c = map(float, product.split(" · "))
            assert z * a * c + float(k) == pytest.approx(float(total), rel=1e-3, abs=1e-9)


def test_every_branch_says_which_end(step) -> None:
    objective = named("grpo").replace(
        clip=from_dict({"clip": {"kind": "ppo", "epsilon_low": 0.2, "epsilon_high": 0.2, "dual": 3.0}}).clip
    )
    base = token_view(step, 0, objective)

    def said(advantage: float, ratio: float) -> str:
        arrays = {
            name: np.array([value])
            for name, value in (
                ("weight", 0.0),
                ("policy", 0.0),
                ("kl", 0.0),
                ("factor", 0.0),
                ("correction", 1.0),
            )
        }
        view = TokenView(
            ids=None,
            mask=np.array([True]),
            zeroed=np.array([True]),
            nu=base.nu,
            advantage=np.array([advantage]),
            ratio=np.array([ratio]),
            branch=["removed"],
            **arrays,
        )
        return next(factor.what for factor in factors_of_token(view, 0, objective) if factor.symbol == "c")

    assert "above the band and A > 0" in said(1.0, 1.3)
    assert "below the band and A < 0" in said(-1.0, 0.7)
    assert "above the cap" in said(-1.0, 3.5)
    factors = {factor.symbol: factor for factor in factors_of_token(base, 0, objective)}
    assert "band [0.8, 1.2], dual clip at 3" in factors["ρ"].what
    assert math.isclose(float(factors["Z"].value), base.nu, rel_tol=1e-4)
    assert set(base.branch) <= set(BRANCHES)

"""Tables and charts of exact numbers."""

from __future__ import annotations

import json

import polars as pl
import pytest

from audit.analyses.prompt_tables import calculate
from audit.errors import AuditError
from audit.objectives.catalogue import named
from audit.report import charts
from audit.report.prompt_charts import chart_of, frame_of, save_chart_of
from audit.report.prompt_numbers import show_table

KINDS = ("factor", "zero-signal", "effective-batch", "effective-beta")


def table(kind: str, *names: str, sizes=(8,), rates=None, rewards=()):
    return calculate(kind, [named(name) for name in names], sizes, rates, rewards)


def cells(said: str) -> dict[str, list[str]]:
    """Label of a row → what stands behind it."""
    rows = (line.split("  ") for line in said.splitlines() if line.startswith("  p "))
    parts = ([part.strip() for part in row if part.strip()] for row in rows)
    return {first: rest for first, *rest in parts}


def test_factors_side_by_side(shown) -> None:
    said = shown(show_table, table("factor", "grpo", "rloo"), width=80)
    rows = cells(said)
    assert rows["p = 0.5"] == ["1.86", "1.00"]
    assert rows["p → 0"] == ["2.65", "1.00"]
    assert "at G = 8" in said
    assert "grpo: a prompt near p = 0 weighs 43 % more than one at p = 0.5" in said
    assert "rloo: every prompt has its own weight" in said


def test_factors_say_how_unequal_prompts_are(shown) -> None:
    said = " ".join(shown(show_table, table("factor", "dr_grpo", "maxrl", "pass_at_k_best")).split())
    assert "dr_grpo: every prompt has the same weight, 0.875" in said
    assert "maxrl: a prompt near p = 0 weighs 7.0 times as much as one near p = 1" in said
    assert "pass_at_k_best: a prompt near p = 1 has next to no weight beside one near p = 0" in said


def test_refilled_groups_have_a_column_of_their_own(shown) -> None:
    rows = cells(shown(show_table, table("factor", "dapo", "grpo")))
    assert rows["p = 0.02"] == ["2.57", "2.57", "17.24"]
    assert rows["p → 0"] == ["2.65", "2.65", "–"]


def test_several_group_sizes_are_columns(shown) -> None:
    said = shown(show_table, table("factor", "grpo", sizes=(4, 16)))
    assert said.splitlines()[2].split("  ")[1:] == ["G = 4", "G = 16"]
    both = shown(show_table, table("factor", "grpo", "rloo", sizes=(4, 16)))
    assert "rloo, G = 16" in both


def test_a_distribution_gives_one_number(shown) -> None:
    rewards = [(0.0, 0.5), (0.5, 0.2), (1.0, 0.3)]
    said = shown(show_table, table("factor", "grpo", "rloo", rewards=rewards))
    assert "Rewards: 0 (50 %), 0.5 (20 %), 1 (30 %)" in said
    assert "Exact: every group was listed." in said
    assert "1.000" in said
    many = [(float(value), 0.1) for value in range(10)]
    drawn = shown(show_table, table("factor", "grpo", sizes=(16,), rewards=many))
    assert "±" in drawn
    assert "drawn groups" in drawn


def test_shares_without_signal(shown) -> None:
    rows = cells(shown(show_table, table("zero-signal", sizes=(8,), rates=(0.02, 0.71, 0.44))))
    assert rows == {"p = 0.02": ["85.1 %"], "p = 0.71": ["6.5 %"], "p = 0.44": ["1.1 %"]}
    assert "no advantage" in shown(show_table, table("zero-signal", "pass_at_k_best"))
    assert "no advantage" not in shown(show_table, table("zero-signal", "grpo"))
    usual = shown(show_table, calculate("zero-signal", []))
    assert all(f"G = {size}" in usual for size in (4, 8, 16, 32, 64))


def test_effective_batch_and_beta(shown) -> None:
    said = " ".join(shown(show_table, table("effective-batch", "grpo", rates=(0.02, 0.44, 0.71))).split())
    assert "2.1 of 3 groups and 16.6 of 24 responses carry an advantage" in said
    assert "worth 13.0 responses of equal weight" in said
    rows = cells(shown(show_table, table("effective-beta", "grpo")))
    assert rows["p = 0.5"] == ["0.0216"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("names", [("grpo",), ("grpo", "grpo_dual_clip", "grpo_tis")])
def test_tables_fit_the_terminal(shown, kind, names) -> None:
    assert max(map(len, shown(show_table, table(kind, *names), width=80).splitlines())) <= 80


@pytest.mark.parametrize("kind", KINDS)
def test_a_chart_draws_the_frame(kind) -> None:
    made = table(kind, "grpo", sizes=(4, 8))
    frame = frame_of(made)
    assert frame.columns == ["curve", "rate", "value"]
    assert set(frame["curve"]) == {"G = 4", "G = 8"}
    spec = chart_of(made).to_dict()
    drawn = [point for points in spec["datasets"].values() for point in points if "curve" in point]
    assert drawn == frame.to_dicts()
    layer = spec["layer"][-1] if "layer" in spec else spec
    assert layer["encoding"]["y"]["field"] == "value"
    assert layer["encoding"]["color"]["field"] == "curve"
    assert layer["mark"]["type"] == ("bar" if kind == "effective-batch" else "line")


def test_the_unbiased_weight_is_a_rule() -> None:
    frame = pl.DataFrame({"curve": ["a", "a"], "rate": [0.0, 1.0], "value": [2.0, 3.0]})
    rule, curves = charts.factor_chart(frame).to_dict()["layer"]
    assert rule["mark"]["type"] == "rule"
    assert curves["encoding"]["x"]["scale"] == {"domain": [0, 1]}


def test_a_chart_is_written(tmp_path, monkeypatch) -> None:
    made = table("zero-signal", "grpo")
    save_chart_of(made, tmp_path / "c.json")
    assert json.loads((tmp_path / "c.json").read_text())["mark"]["type"] == "line"
    monkeypatch.setattr(charts, "find_spec", lambda name: None)
    with pytest.raises(AuditError, match=r"c\.svg: .*needs the package vl-convert-python"):
        save_chart_of(made, tmp_path / "c.svg")
    assert not (tmp_path / "c.svg").exists()


@pytest.mark.parametrize("ending", [".svg", ".html"])
def test_pictures_need_no_network(tmp_path, ending) -> None:
    pytest.importorskip("vl_convert")
    out = tmp_path / f"c{ending}"
    save_chart_of(table("factor", "grpo"), out)
    assert 'src="http' not in out.read_text()


def test_one_number_is_no_chart() -> None:
    with pytest.raises(AuditError, match="nothing to draw"):
        chart_of(table("factor", "grpo", rewards=[(0.0, 0.5), (1.0, 0.5)]))


def test_numbers_need_an_objective() -> None:
    with pytest.raises(AuditError, match="--factor needs an objective"):
        table("factor")

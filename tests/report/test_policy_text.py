"""Terminal output, JSON and charts of clipping, kl and mismatch."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest
from hostile_text import HOSTILE
from synthetic import rollouts, standardised, with_advantages, write

from audit.analyses.clipping import Clipping, clipping
from audit.analyses.kl_estimates import KLReport, kl_report
from audit.analyses.mismatch import Mismatch, mismatch
from audit.facts.chosen import chosen_objective
from audit.facts.rows import RunRows
from audit.report.as_json import as_json
from audit.report.policy_charts import bucket_frame, stacked
from audit.report.schemas import schema_of
from audit.report.text.clipping import TITLES, show_clipping
from audit.report.text.kl import show_kl
from audit.report.text.mismatch import show_mismatch

KEYS = ("step", "prompt_id", "group_id", "sample_index", "reward")
Results = tuple[Clipping, KLReport, Mismatch]


@pytest.fixture(scope="module")
def log() -> list[dict[str, Any]]:
    rng = random.Random(4)
    rows = with_advantages(rollouts(steps=8), standardised(0, 0.0))
    for row in rows:
        row["logp_sampler"] = [min(x + rng.gauss(0.0, 0.1), 0.0) for x in row["logp_old"]]
    return rows


def results(path: Path, rows: list[dict[str, Any]], objective: Any = "grpo", **manifest: Any) -> Results:
    of = RunRows.read(write(path, rows, objective, **manifest))
    chosen = chosen_objective(of, None)
    return clipping(of, *chosen), kl_report(of, *chosen), mismatch(of, *chosen)


@pytest.fixture(scope="module")
def full(log: list[dict[str, Any]], tmp_path_factory: pytest.TempPathFactory) -> Results:
    return results(tmp_path_factory.mktemp("policies") / "run", log, group_size=8)


@pytest.fixture(scope="module")
def poor(log: list[dict[str, Any]], tmp_path_factory: pytest.TempPathFactory) -> Results:
    bare = [{key: row[key] for key in KEYS} for row in log]
    return results(tmp_path_factory.mktemp("policies") / "bare", bare)


SHOW = (show_clipping, show_kl, show_mismatch)


def test_output_follows_the_schemas(full: Results, poor: Results) -> None:
    for verb, result in zip(("clipping", "kl", "mismatch") * 2, (*full, *poor), strict=True):
        jsonschema.Draft202012Validator(schema_of(verb)).validate(json.loads(as_json(result)))


@pytest.mark.parametrize("width", [72, 80, 120])
def test_text_is_plain_and_within_its_width(full: Results, poor: Results, shown, width: int) -> None:
    for show, result in zip(SHOW * 2, (*full, *poor), strict=True):
        said = shown(show, result, width=width)
        assert "\x1b" not in said
        assert max(map(len, said.splitlines())) <= width
        assert "nan" not in said.lower().split()


def test_every_number_has_its_n_and_every_share_its_interval(full: Results, shown) -> None:
    said = shown(show_clipping, full[0], width=120)
    for name, title in TITLES.items():
        assert (title in said) == (len(full[0].by[name]) > 1)
    for line in said.splitlines():
        if line.strip().startswith(("A > 0", "inner epoch", "above the band", "p <", "ppo", "cispo")):
            assert "[" in line, line
            assert line.split()[-1].replace(",", "").isdigit(), line
    assert "n = " in said
    estimated = shown(show_kl, full[1], width=120)
    for row in ("theta ‖ ref", "theta ‖ ref, corrected", "old ‖ ref"):
        (line,) = [x for x in estimated.splitlines() if x.strip().startswith(f"{row}  ") and " k1 " in x][:1]
        assert "[" in line
    assert "KL of this objective" in estimated
    assert "Pareto k" in shown(show_mismatch, full[2], width=120)


def test_a_log_without_tokens_names_what_it_lacks(poor: Results, shown) -> None:
    for show, result in zip(SHOW, poor, strict=True):
        said = shown(show, result, width=100)
        assert "cannot say" in said
        assert "logp_" in said.split("Skipped")[1] or "token_ids" in said.split("Skipped")[1]


@pytest.mark.parametrize("terminal", [True, False])
def test_what_a_log_says_is_shown_and_never_acts(
    tmp_path: Path, log: list[dict[str, Any]], full: Results, shown, terminal: bool
) -> None:
    made = results(tmp_path / "run", log[:64], run_id=HOSTILE)
    first = made[0].ids[0]
    hostile = msgspec.structs.replace(made[0], ids=[msgspec.structs.replace(first, text=HOSTILE)])
    for show, result in zip(SHOW, (hostile, *made[1:]), strict=True):
        said = shown(show, result, width=250, terminal=terminal)
        assert "[red]x[/] \\x1b[2J" in said
        assert "\x1b[2J" not in said
        assert "\u202e" not in said
    assert "\x1b" not in as_json(hostile)


def test_charts_hold_what_the_buckets_hold(full: Results) -> None:
    result = full[0]
    frame = bucket_frame(result.by["logp"])
    assert frame["name"].to_list() == [bucket.name for bucket in result.by["logp"]]
    assert frame["value"].to_list() == [bucket.value.value for bucket in result.by["logp"]]
    chart = stacked({"clip-zeroed": result.steps}, {"sign": result.by["sign"]}, "share", percent=True)
    drawn = json.loads(chart.to_json())
    assert len(drawn["vconcat"]) == 2
    assert bucket_frame([]).height == 0

"""Logs with holes and odd values: clipping, kl and mismatch give a result or name what is missing."""

from __future__ import annotations

import io
import math
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from rich.console import Console
from synthetic import rollouts, standardised, with_advantages, write

from audit.analyses.clipping import Clipping, clipping
from audit.analyses.kl_estimates import KLReport, kl_report
from audit.analyses.mismatch import Mismatch, mismatch
from audit.facts.chosen import chosen_objective
from audit.facts.rows import RunRows
from audit.importers import open_run
from audit.report.as_json import as_json
from audit.report.text.clipping import show_clipping
from audit.report.text.kl import show_kl
from audit.report.text.mismatch import show_mismatch

Row = dict[str, Any]
Results = tuple[Clipping, KLReport, Mismatch]
REQUIRED = {"step", "prompt_id", "group_id", "sample_index", "reward"}
LISTS = ("token_ids", "loss_mask", "logp_theta", "logp_old", "logp_ref", "logp_sampler")


def log() -> list[Row]:
    rng = random.Random(4)
    rows = with_advantages(rollouts(steps=1), standardised(0, 0.0))
    for row in rows:
        row["logp_sampler"] = [x + rng.gauss(0.0, 0.1) for x in row["logp_old"]]
    return rows


def every(change: Callable[[Row], dict[str, Any]]) -> list[Row]:
    return [row | change(row) for row in log()]


CASES: dict[str, tuple[list[Row], str]] = {
    "empty responses": (every(lambda row: {key: [] for key in LISTS} | {"length": 0}), "grpo"),
    "all tokens masked": (every(lambda row: {"loss_mask": [False] * row["length"]}), "grpo"),
    "half without tokens": (
        every(lambda row: dict.fromkeys(LISTS) if row["sample_index"] % 2 else {}),
        "grpo",
    ),
    "no reward": (every(lambda row: {"reward": None}), "grpo"),
    "advantages not a number": (every(lambda row: {"advantage": math.nan}), "grpo"),
    "theta not a number": (every(lambda row: {"logp_theta": [math.nan] * row["length"]}), "grpo"),
    "theta infinite for half": (
        every(lambda row: {"logp_theta": [math.inf] * row["length"]} if row["sample_index"] % 2 else {}),
        "grpo",
    ),
    "ratios beyond float": (every(lambda row: {"logp_theta": [x + 800 for x in row["logp_old"]]}), "grpo"),
    "greedy alone": (every(lambda row: {"is_greedy": True}), "remax"),
    "one response": (log()[:1], "grpo"),
    "one prompt": (every(lambda row: {"prompt_id": "p"}), "dapo"),
    "ids beyond any vocabulary": (every(lambda row: {"token_ids": [2**31 - 1] * row["length"]}), "grpo"),
    "no text": (every(lambda row: {"response": ""}), "gspo"),
    "a critic": (every(lambda row: {"value": [0.1] * row["length"]}), "ppo_gae"),
    "ranks its batch": (log(), "clip_cov"),
    "masked sampler": (log(), "grpo_mis"),
}


def check(run: Path) -> Results:
    rows = RunRows.read(open_run(run))
    chosen = chosen_objective(rows, None)
    found: list[Any] = []
    for measure, show in ((clipping, show_clipping), (kl_report, show_kl), (mismatch, show_mismatch)):
        result = measure(rows, *chosen)
        found.append(result)
        assert result.verdict
        as_json(result)
        said = io.StringIO()
        show(result, Console(file=said, width=90))
        assert "nan" not in said.getvalue().split()
    return found[0], found[1], found[2]


@pytest.mark.parametrize("case", CASES)
def test_odd_logs_are_answered(tmp_path: Path, case: str) -> None:
    rows, objective = CASES[case]
    check(write(tmp_path / "run", rows, objective).path)


def test_a_run_without_rows_is_answered(tmp_path: Path) -> None:
    run = write(tmp_path / "run", log(), "grpo")
    [file] = run.files
    pq.write_table(pq.read_table(file.path).slice(0, 0), file.path)
    check(run.path)


KINDS = {("theta", False), ("theta", True), ("old", False)}
LOST = {
    "logp_ref": KINDS,
    "logp_theta": {("theta", False), ("theta", True)},
    "logp_old": {("theta", True), ("old", False)},
}


@pytest.mark.parametrize("column", sorted(set(log()[0]) - REQUIRED))
def test_any_column_may_be_missing(tmp_path: Path, column: str) -> None:
    rows = [{name: held for name, held in row.items() if name != column} for row in log()]
    clipped, kl, engine = check(write(tmp_path / "run", rows, "dr_grpo").path)
    needs = [{skip.needs for skip in result.skipped} for result in (clipped, kl, engine)]
    assert (clipped.share is None) == (column in {"logp_theta", "logp_old"})
    assert (engine.gap is None) == (column in {"logp_sampler", "logp_old"})
    assert {(e.of, e.corrected) for e in kl.estimates} == KINDS - LOST.get(column, set())
    assert (column in needs[0]) >= (clipped.share is None)
    assert (column in needs[1]) >= (column in LOST)
    assert (column in needs[2]) >= (engine.gap is None)

"""Logs that the testbed writes: valid, as declared, and with the weights that trained."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
import torch
from testbed_small import SMALL

from audit.analyses.check import check
from audit.analyses.explain import explain
from audit.cli import main
from audit.errors import AuditError
from audit.facts.chosen import chosen_objective
from audit.facts.declared import declared_objective
from audit.facts.rows import RunRows
from audit.facts.weigh import weigh
from audit.importers import open_run
from audit.objectives.catalogue import named
from audit.objectives.objective import KL, RewardKL
from audit.testbed import exact
from audit.testbed.language import Language
from audit.testbed.recording import check_new_directory, write_runs
from audit.testbed.training import Setup, Trainer

LANGUAGE = Language(rates=(0.28, 0.44, 0.58, 0.71), budget=5)
BATCHES = 2
WITH_KL = named("rloo").replace(kl=KL(reward=RewardKL(coefficient=0.1)))
OBJECTIVES = [
    WITH_KL,
    *map(named, ("grpo", "remax", "ppo", "ppo_gae", "bnpo", "grpo_mis", "gdpo", "reinforce_pp")),
    named("kl_cov"),
]


def setup_of(objective, noise: float = 0.1) -> Setup:
    return Setup(objective=objective, rate=5.0, sampler_noise=noise, epochs=3)


@pytest.mark.parametrize("objective", OBJECTIVES, ids=lambda objective: objective.name)
def test_a_log_gives_back_the_weights_that_trained(tmp_path, objective) -> None:
    setup, seeds = setup_of(objective), [3, 4]
    folders = write_runs(tmp_path / "runs", LANGUAGE, setup, seeds, BATCHES)
    trainer = Trainer(LANGUAGE, setup, seeds)
    used: list[list[np.ndarray]] = [[], []]
    for _ in range(BATCHES):
        for update in trainer.batch():
            per_run = update.draw.layout.spread(update.draw.run)
            for k in range(2):
                used[k].append(update.weights.weight[per_run == k].numpy())
    for k, folder in enumerate(folders):
        run = open_run(folder)
        if k == 0:
            assert not [problem for problem in check(run).problems if problem.severity == "error"]
        rows = RunRows.read(run)
        declared = declared_objective(run)
        assert declared is not None
        assert declared.objective == trainer.objective
        expected = np.concatenate(used[k])
        again = np.concatenate([batch.weights.weight.numpy() for batch in weigh(rows, declared.objective)])
        np.testing.assert_allclose(again, expected, rtol=1e-9, atol=1e-15)
        # The run's own: on the advantages as they were logged, in float32 where tokens differ.
        own, _ = chosen_objective(rows, None)
        applied = np.concatenate([batch.weights.weight.numpy() for batch in weigh(rows, own)])
        np.testing.assert_allclose(applied, expected, rtol=1e-5, atol=1e-9)
        assert run.tier == 6


def test_two_runs_open_everywhere(tmp_path, call) -> None:
    made = [
        write_runs(tmp_path, LANGUAGE, setup_of(named(name), 0.0), [0], 4)[0] for name in ("grpo", "dr_grpo")
    ]
    a, b = map(open_run, made)
    causes = {cause.id for cause in explain(a, b).verdict.causes}
    assert causes >= {"objective.aggregation", "objective.scale"}
    for verb in ("check", "length", "summary"):
        code, said = call(verb, made[0], "--json")
        assert code == 0
        assert json.loads(said)
    pressure = json.loads(call("length", made[0], "--json")[1])["pressure"]
    assert pressure["correct"]["value"] < 0.0 < pressure["wrong"]["value"]


def test_what_the_rows_say(tmp_path) -> None:
    (folder,) = write_runs(tmp_path, SMALL, replace(setup_of(named("remax")), micro_batches=2), [9], 2)
    rows = pl.read_parquet(folder / "rollouts" / "*.parquet")
    assert rows.height == 2 * 3 * 2 * (8 + 1)
    assert rows["update"].unique().sort().to_list() == [1, 2, 3, 4, 5, 6]
    assert rows["epoch"].unique().sort().to_list() == [0, 1, 2]
    greedy = rows.filter(pl.col("is_greedy"))
    assert greedy["sample_index"].unique().to_list() == [8]
    assert greedy["advantage"].null_count() == greedy.height
    assert rows.filter(~pl.col("is_greedy"))["advantage"].null_count() == 0
    for row in rows.iter_rows(named=True):
        text, ids = row["response"], row["token_ids"]
        assert [*map("ab.".index, text)] == ids
        assert (row["finish_reason"] == "stop") == text.endswith(".")
        wanted = row["prompt"].split()[2]
        assert row["correct"] == (text.rstrip(".")[-1] == wanted) == bool(row["reward"])
        assert row["length"] == len(ids) == len(row["logp_theta"])
    ratio = rows.explode("logp_theta", "logp_old").with_columns(gap=pl.col("logp_theta") - pl.col("logp_old"))
    assert ratio.filter(pl.col("epoch") == 0)["gap"].abs().max() == 0.0
    assert ratio.filter(pl.col("epoch") == 2)["gap"].abs().max() > 1e-3


def test_exact_values_stand_among_the_metrics(tmp_path) -> None:
    setup = setup_of(named("grpo"))
    (folder,) = write_runs(tmp_path, SMALL, setup, [1], 2)
    trainer = Trainer(SMALL, setup, [1])
    for _ in range(2):
        list(trainer.batch())
    metrics = pl.read_parquet(folder / "metrics" / "*.parquet").filter(pl.col("step") == 6)
    values = dict(zip(metrics["name"], metrics["value"], strict=True))
    assert values["exact/success"] == float(exact.success(SMALL, trainer.policy).mean())
    assert values["exact/kl_ref"] == pytest.approx(
        float(exact.kl(SMALL, trainer.policy, SMALL.reference).mean())
    )


@pytest.fixture
def call(capsys):
    def run(*arguments: object) -> tuple[int, str]:
        code, threads = 0, torch.get_num_threads()
        try:
            main([str(argument) for argument in arguments])
        except SystemExit as end:
            code = int(end.code or 0)
        finally:
            torch.set_num_threads(threads)
        said = capsys.readouterr()
        return code, said.out + said.err

    return run


def test_the_verb(tmp_path, call) -> None:
    code, out = call(
        *("testbed", "--objective", "grpo", "--set", "scale.kind=none", "--seeds", 2, "--steps", 2),
        *("--answer", "first", "-o", tmp_path / "new" / "runs"),
    )
    assert code == 0
    assert out.count("4 optimiser steps") == 2
    manifest = json.loads((tmp_path / "new" / "runs" / "grpo-seed1" / "run.json").read_text())
    assert manifest["objective"]["scale"]["kind"] == "none"
    assert manifest["seed"] == 1
    assert manifest["data"]["answer"] == "first"


def test_nothing_is_written_into_a_log_or_over_one(tmp_path, call) -> None:
    assert call("testbed", "--steps", 1, "-o", tmp_path)[0] == 0
    held = sorted(path.name for path in (tmp_path / "grpo-seed0").rglob("*"))
    for place, reason in (
        (tmp_path, "is already there"),
        (tmp_path / "grpo-seed0", "inside the log"),
        (tmp_path / "grpo-seed0" / "new" / "deeper", "inside the log"),
    ):
        code, said = call("testbed", "--steps", 1, "-o", place)
        assert code == 2
        assert reason in said
    assert sorted(path.name for path in (tmp_path / "grpo-seed0").rglob("*")) == held
    (tmp_path / "file").write_text("")
    with pytest.raises(AuditError):
        check_new_directory(tmp_path / "file" / "below")


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (("--seeds", 0), "--seeds must be from 1 to 100"),
        (("--group-size", 10**9), "--group-size must be from 1 to 4096"),
        (("--set", "name=../elsewhere"), "cannot be the name of a directory"),
        (("--set", "name="), "cannot be the name of a directory"),
        (("--steps", 0), "--steps must be at least 1"),
        (("--lr", "nan"), "--lr must be"),
        (("--objective", "gpro"), "Did you mean"),
        (("--objective", "pass_at_k", "--group-size", 2), "cannot train pass_at_k"),
    ],
)
def test_bad_input_is_one_line(tmp_path, call, options, reason) -> None:
    code, said = call("testbed", *options, "-o", tmp_path / "runs")
    assert code == 2
    assert reason in said
    assert said.count("\n") == 1
    assert not (tmp_path / "runs").exists()

"""Ratios, KL and the engine: P24 to P38 of the public reports."""

from __future__ import annotations

import math
import random
import statistics

import pytest
from builder import checked, first_pass, healthy, ids, named, recentred, write, write_metrics

from audit.analyses.check import check

LISTS = ("token_ids", "loss_mask", "logp_old", "logp_ref", "logp_sampler", "logp_theta", "entropy")


def test_one_update_per_batch_is_no_defect(tmp_path) -> None:
    run = write(tmp_path / "run", healthy(updates=1))
    write_metrics(run.path, [(s, "train/loss", 1e-9) for s in range(1, 13)])
    found = named(check(run), "ratio.always-one")
    assert found.severity == "info"
    assert found.rows == 384
    assert "1 update per batch. Every policy ratio is 1: clipping is inactive" in found.summary
    assert "Logged train/loss: 1e-09 on average." in found.summary


def test_scoring_noise_before_any_update(tmp_path) -> None:
    rng = random.Random(4)
    rows = healthy()
    gaps = []
    for row in rows:
        if row["epoch"] == 0:
            noise = [rng.gauss(0, 0.05) for _ in row["logp_old"]]
            row["logp_theta"] = [min(x + e, -1e-4) for x, e in zip(row["logp_old"], noise, strict=True)]
            gaps += [a - b for a, b in zip(row["logp_theta"], row["logp_old"], strict=True)]
    found = named(checked(tmp_path / "run", rows), "ratio.not-one-at-start")
    out = sum(not 0.9 <= math.exp(g) <= 1.1 for g in gaps) / len(gaps)
    mean = statistics.fmean(math.exp(g) for g in gaps)
    assert f"{out:.1%} of {len(gaps)} tokens outside 0.9..1.1, mean {mean:.3f}" in found.summary
    assert found.summary.endswith("no drift: numeric noise.")


@pytest.mark.parametrize("column", ["logp_theta", "logp_sampler", "logp_ref"])
def test_two_tokens_whose_ratio_blows_up_one_of_them_masked(tmp_path, column) -> None:
    rows = healthy(updates=1)
    for k, masked in ((10, False), (300, True)):
        rows[k][column] = [-45.0, *rows[k][column][1:]]
        rows[k]["logp_old"] = [-1.0, *rows[k]["logp_old"][1:]]
        if masked:
            rows[k]["loss_mask"] = [False, *rows[k]["loss_mask"][1:]]
    result = checked(tmp_path / "run", rows)
    found = [p for p in result.problems if p.id == "logp.ratio-huge"]
    assert any(p.rows == 2 and p.severity == "error" for p in found)
    assert any("2 tokens have" in p.summary and "1 of them masked" in p.summary for p in found)


def test_an_infinite_log_prob_behind_the_mask(tmp_path) -> None:
    rows = healthy(updates=1)
    rows[5] |= {"logp_old": [-math.inf, *rows[5]["logp_old"][1:]], "logp_theta": rows[5]["logp_theta"]}
    rows[5]["loss_mask"] = [False, *rows[5]["loss_mask"][1:]]
    found = named(checked(tmp_path / "run", rows), "logp.non-finite-masked")
    assert (found.column, found.rows) == ("logp_old", 1)


def test_old_log_probs_that_are_the_engines(tmp_path) -> None:
    rows = healthy()
    for row in rows:
        row["logp_old"] = row["logp_sampler"]
    found = named(checked(tmp_path / "run", rows), "logp.old-is-sampler")
    tokens = sum(row["length"] for row in rows)
    assert found.severity == "info"
    assert f"logp_old = logp_sampler on 100% of {tokens} tokens" in found.summary


@pytest.mark.parametrize("temperature", [0.6, 1.5])
def test_one_side_at_another_temperature(tmp_path, temperature) -> None:
    rows = healthy()
    for row in rows:
        row["logp_sampler"] = [x / temperature for x in row["logp_sampler"]]
    found = named(checked(tmp_path / "run", rows), "logp.temperature", "logp_old")
    assert found.rows == 384
    assert f"moves {temperature:.2g} times as far" in found.summary


@pytest.mark.parametrize(("column", "every"), [("logp_sampler", 9), ("logp_old", 40)])
def test_log_probs_filled_with_zero(tmp_path, column, every) -> None:
    rows = healthy()
    filled, hit = 0, set()
    other = "logp_theta"
    for k, row in enumerate(rows):
        if k % every == 0:
            row[column] = [0.0, 0.0, *row[column][2:]]
            here = sum(x < -1 for x in row[other][:2])
            filled += here
            hit |= {k} if here else set()
    found = named(checked(tmp_path / "run", rows), "logp.filled")
    assert found.severity == "error"
    assert (found.column, found.rows) == (column, len(hit))
    assert f"{filled} tokens have {column} exactly 0.0 where" in found.summary


@pytest.mark.parametrize("value", [-9999.0, -1e4])
def test_log_probs_filled_with_a_large_number(tmp_path, value) -> None:
    rows = healthy()
    for row in rows[::30]:
        row["logp_sampler"] = [value, *row["logp_sampler"][1:]]
    found = named(checked(tmp_path / "run", rows), "logp.far")
    assert found.rows == len(rows[::30])


def noisy(rows, spread) -> None:
    rng = random.Random(8)
    for row in rows:
        s = spread(row)
        row["logp_sampler"] = [min(x + rng.gauss(0, s), -1e-4) for x in row["logp_old"]]


@pytest.mark.parametrize("constant", [True, False])
def test_a_mismatch_that_grows_though_nothing_is_learned(tmp_path, constant) -> None:
    rows = healthy()
    noisy(rows, lambda row: 0.01 + 0.005 * row["step"])
    run = write(tmp_path / "run", rows)
    if constant:
        write_metrics(run.path, [(s, "train/learning_rate", 0.0) for s in range(1, 13)])
    found = named(check(run), "mismatch.grows")
    mean = {
        step: statistics.fmean(
            abs(a - b)
            for row in rows
            if row["step"] == step and row["epoch"] == 0
            for a, b in zip(row["logp_old"], row["logp_sampler"], strict=True)
        )
        for step in range(1, 13)
    }
    slope = statistics.linear_regression(list(mean), list(mean.values())).slope
    assert f"grows by {slope:.2g} nats a token per step" in found.summary
    assert ("train/learning_rate is 0 throughout: this is no policy lag" in found.summary) == constant


@pytest.mark.parametrize("bad", [3, 7])
def test_the_same_prompts_hold_the_mismatch_in_every_step(tmp_path, bad) -> None:
    rows = healthy()
    noisy(rows, lambda row: 0.8 if int(row["prompt_id"][1:]) < bad else 0.005)
    found = named(checked(tmp_path / "run", rows), "mismatch.few-rows")
    first = first_pass(rows)
    heavy = [row for row in first if int(row["prompt_id"][1:]) < bad]
    total = {
        id(row): sum(abs(a - b) for a, b in zip(row["logp_old"], row["logp_sampler"], strict=True))
        for row in first
    }
    held = sum(total[id(row)] for row in heavy) / sum(total.values())
    prompts = len({row["prompt_id"] for row in heavy})
    assert found.rows == len(heavy)
    assert f"{len(heavy) / len(first):.0%} of rows hold {held:.0%} of the mismatch" in found.summary
    assert f"{prompts} of their {prompts} prompts are extreme in every step" in found.summary


def test_a_product_of_ratios_that_shrinks_with_length(tmp_path) -> None:
    rng = random.Random(9)
    rows = healthy(shortest=50, longest=400, groups=4)
    for row in rows:
        row["logp_sampler"] = [min(x + rng.gauss(0.01, 0.05), -1e-4) for x in row["logp_old"]]
    found = named(checked(tmp_path / "run", rows), "mismatch.product-shrinks")
    product = statistics.median(
        math.exp(sum(a - b for a, b in zip(row["logp_old"], row["logp_sampler"], strict=True)))
        for row in first_pass(rows)
    )
    assert found.severity == "info"
    assert f"is {product:.2g} at the median" in found.summary
    assert "it is the sum over tokens, not the policy" in found.summary


def test_without_versions_the_lag_cannot_be_audited(tmp_path) -> None:
    rows = healthy()
    for row in rows:
        del row["policy_version"], row["sampler_version"]
    skipped = {skip.check: skip.needs for skip in checked(tmp_path / "run", rows).skipped}
    assert skipped["version lag (staleness)"] == "policy_version, sampler_version"


@pytest.mark.parametrize("limit", [25, 32])
def test_long_rollouts_that_were_thrown_away(tmp_path, limit) -> None:
    rows = healthy(updates=1)
    for row in rows:
        if row["length"] > limit and row["finish_reason"] == "stop":
            row["advantage"] = None
    found = named(checked(tmp_path / "run", rows), "rollout.kept-shorter")
    kept = statistics.fmean(row["length"] for row in rows if row["advantage"] is not None)
    whole = statistics.fmean(row["length"] for row in rows)
    out = sum(row["advantage"] is None for row in rows)
    assert f"Kept rows are {1 - kept / whole:.0%} shorter than generated ones" in found.summary
    assert found.rows == out


def test_rows_that_are_shorter_than_the_trainer_says(tmp_path) -> None:
    rows = healthy()
    run = write(tmp_path / "run", rows)
    mean = [
        (s, statistics.fmean(row["length"] for row in rows if row["step"] == s and row["epoch"] == 0))
        for s in range(1, 13)
    ]
    write_metrics(run.path, [(s, "completions/mean_length", 1.4 * m) for s, m in mean])
    found = named(check(run), "rollout.kept-shorter")
    assert "29% shorter than completions/mean_length says" in found.summary


@pytest.mark.parametrize("name", ["actor/lr", "learning_rate", "train/learning_rate"])
def test_a_learning_rate_that_stays_zero(tmp_path, name) -> None:
    run = write(tmp_path / "run", healthy())
    write_metrics(run.path, [(s, name, 0.0) for s in range(1, 13)])
    found = named(check(run), "optimiser.rate-zero")
    assert found.severity == "error"
    assert f"{name} is 0 at 12 of 12 logged steps" in found.summary


def test_a_learning_rate_of_zero_in_the_config(tmp_path) -> None:
    run = write(tmp_path / "run", healthy(), config={"learning_rate": 0.0})
    assert "optimiser.rate-zero" in ids(check(run))


def test_a_warm_up_from_zero_is_no_defect(tmp_path) -> None:
    run = write(tmp_path / "run", healthy())
    write_metrics(run.path, [(s, "lr", 1e-7 * (s - 1)) for s in range(1, 13)])
    assert "optimiser.rate-zero" not in ids(check(run))


@pytest.mark.parametrize("form", ["k1", "k2", "k3"])
def test_which_kl_was_reported(tmp_path, form) -> None:
    rng = random.Random(10)
    rows = healthy(updates=1)
    for row in rows:
        row["logp_ref"] = [min(x + rng.gauss(0.0, 0.4), -1e-4) for x in row["logp_old"]]
    run = write(tmp_path / "run", rows)
    of = {
        "k1": lambda d: -d,
        "k2": lambda d: d * d / 2,
        "k3": lambda d: math.exp(d) - 1 - d,
    }
    means = {}
    for s in range(1, 13):
        gaps = [
            r - t
            for row in rows
            if row["step"] == s
            for r, t in zip(row["logp_ref"], row["logp_theta"], strict=True)
        ]
        means[s] = {name: statistics.fmean(map(f, gaps)) for name, f in of.items()}
    write_metrics(run.path, [(s, "kl", m[form]) for s, m in means.items()])
    result = check(run)
    if form == "k3":
        assert "kl.reported-estimator" not in ids(result)
        return
    found = named(result, "kl.reported-estimator")
    assert f"Reported kl = {form}" in found.summary
    negative = sum(m["k1"] < 0 for m in means.values())
    assert ("can be negative" in found.summary) == (form == "k1")
    assert (f"it is in {negative} of 12 steps" in found.summary) == (form == "k1")
    assert f"k3 = {statistics.fmean(m['k3'] for m in means.values()):.3g}" in found.summary


def test_a_declared_kl_whose_reference_was_not_logged(tmp_path) -> None:
    rows = healthy()
    for row in rows:
        del row["logp_ref"]
    declared = {"name": "grpo", "scale": {"ddof": 1, "epsilon": 1e-4}}
    found = named(checked(tmp_path / "run", rows, objective=declared), "kl.reference-absent")
    assert "coefficient 0.04" in found.summary


def test_log_probs_that_become_nan(tmp_path) -> None:
    rows = healthy()
    for row in rows:
        if row["step"] == 9 and row["sample_index"] == 0 and row["group_id"] in ("9-0", "9-1", "9-2"):
            row["logp_old"] = [math.nan] * row["length"]
    found = named(checked(tmp_path / "run", recentred(rows, lambda row: None)), "logp.non-finite", "logp_old")
    assert found.steps == (9,)
    assert found.rows == 6


def test_a_token_far_off_at_the_start_is_no_rounding(tmp_path) -> None:
    rows = healthy(seed=33)
    rows[3]["logp_theta"][2] = rows[3]["logp_old"][2] - 30.0
    result = checked(tmp_path / "run", rows)
    assert "numeric noise" not in named(result, "ratio.not-one-at-start").summary
    huge = [p for p in result.problems if p.id == "logp.ratio-huge"]
    assert huge
    assert all(p.summary.startswith("1 token has ") for p in huge)

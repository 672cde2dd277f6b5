"""Defects that users met, each put into one of two runs: explain names it, mirrored when swapped."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
from synthetic import rollouts, write

from audit.analyses.explain import Explanation, explain


def by_text(prompt: str, text: str, _: random.Random) -> float:
    return float(sum(map(ord, prompt + text)) % 3 == 0)


def made(seed: int, **settings):
    """A run with a sampler whose log-probs differ from the trainer's by symmetric noise."""
    rng = random.Random(1000 + seed)
    rows = rollouts(seed=seed, reward=by_text, longest=12, epochs=2, steps=12, **settings)
    gaps: dict[int, list[float]] = {}
    for row in rows:
        noise = gaps.setdefault(id(row["token_ids"]), [rng.gauss(0, 0.02) for _ in row["token_ids"]])
        row["logp_sampler"] = [min(x - e, 0.0) for x, e in zip(row["logp_old"], noise, strict=True)]
        row["policy_version"] = row["update"]
        row["sampler_version"] = row["update"] - row["epoch"]
        row["correct"] = bool(row["reward"])
    return rows


def compared(tmp_path, rows_a, rows_b) -> tuple[Explanation, Explanation]:
    a, b = write(tmp_path / "a", rows_a, "grpo"), write(tmp_path / "b", rows_b, "grpo")
    return explain(a, b), explain(b, a)


def only_cause(tmp_path, spoil, *, side: int = 1):
    """The one cause of a pair of which one run is spoiled; A against B and B against A."""
    rows = [made(1), made(2)]
    rows[side] = spoil(rows[side])
    one, other = compared(tmp_path, *rows)
    (cause,), (mirrored,) = one.verdict.causes, other.verdict.causes
    assert cause.id == mirrored.id
    assert cause.confidence == mirrored.confidence
    difference = cause.evidence.get("difference")
    if difference is not None:
        assert difference == pytest.approx(-mirrored.evidence["difference"], abs=1e-12)
    assert 0 < cause.confidence <= 1
    assert cause.summary in one.verdict.text
    return cause


def each_row(change):
    return lambda rows: [row | change(row) for row in rows]


def test_two_seeds_with_every_column_have_no_cause(tmp_path) -> None:
    for seed in range(3):
        one, other = compared(tmp_path / str(seed), made(10 + 2 * seed), made(11 + 2 * seed))
        assert [cause.id for cause in one.verdict.causes] == []
        assert [cause.id for cause in other.verdict.causes] == []
        assert one.timeline.parted == []
        assert {unseen.cause for unseen in one.verdict.not_identifiable} <= {"model.init", "optimiser"}
        assert len(one.measured) > 8


def test_a_run_against_its_copy_is_exactly_zero(tmp_path) -> None:
    found, _ = compared(tmp_path, made(1), made(1))
    assert found.verdict.causes == []
    assert found.effects == []
    for effect in [*found.outcomes, *found.measured]:
        assert effect.difference == 0.0
    assert found.timeline.parted == []


# P29
def test_old_log_probs_of_the_engine_are_named(tmp_path) -> None:
    def spoil(rows):
        return each_row(lambda row: {"logp_old": row["logp_sampler"]})(rows)

    rows_b = spoil(made(2))
    one, _ = compared(tmp_path, made(1), rows_b)
    (cause,) = one.verdict.causes
    assert cause.id == "numerics.mismatch"
    assert "B's logp_old is the sampler's own" in cause.summary
    assert cause.evidence["b"] == 0.0


# P32
def test_log_probs_that_were_filled_in_are_counted(tmp_path) -> None:
    filled = []

    def spoil(rows):
        for row in rows[::7]:
            at = int(np.argmin(row["logp_old"]))
            row["logp_sampler"] = [0.0 if t == at else x for t, x in enumerate(row["logp_sampler"])]
            filled.append(row["epoch"] == 0 and row["logp_old"][at] < -1)
        return rows

    cause = only_cause(tmp_path, spoil)
    assert cause.id == "numerics.mismatch"
    assert cause.evidence["difference"] == sum(filled)
    assert cause.evidence["rows"][0].startswith("b: step ")


# P34, P35
def test_a_larger_gap_between_engines_is_named_with_its_size(tmp_path) -> None:
    def spoil(rows):
        rng = random.Random(5)
        return each_row(
            lambda r: {"logp_sampler": [min(x + rng.gauss(0, 0.1), 0.0) for x in r["logp_sampler"]]}
        )(rows)

    cause = only_cause(tmp_path, spoil)
    assert cause.id == "numerics.mismatch"
    # E|N(0, s)| = s sqrt(2 / pi)
    assert cause.evidence["a"] == pytest.approx(0.02 * math.sqrt(2 / math.pi), rel=0.1)
    assert cause.evidence["b"] == pytest.approx(math.hypot(0.02, 0.1) * math.sqrt(2 / math.pi), rel=0.1)
    assert cause.evidence["low"] > 0


# P07, #4438
def test_log_probs_rounded_to_bfloat16_in_one_run_are_named(tmp_path) -> None:
    def short(values):
        bits = np.asarray(values, dtype=np.float32).view(np.uint32)
        return ((bits + 0x8000) & 0xFFFF0000).astype(np.uint32).view(np.float32).tolist()

    cause = only_cause(tmp_path, each_row(lambda r: {"logp_old": short(r["logp_old"])}), side=0)
    assert cause.id == "numerics.precision"
    assert cause.evidence["a"] == pytest.approx(1.0)
    assert "rounded to bfloat16 in A and not rounded in B" in cause.summary


# P25
def test_a_first_ratio_that_is_not_one_is_named(tmp_path) -> None:
    def spoil(rows):
        rng = random.Random(5)
        return each_row(
            lambda r: {"logp_theta": [min(x + rng.gauss(0, 0.02), 0.0) for x in r["logp_theta"]]}
        )(rows)

    cause = only_cause(tmp_path, spoil)
    assert cause.id == "numerics.precision"
    assert cause.evidence["a"] == 0.0
    assert cause.evidence["b"] == pytest.approx(0.02, rel=0.15)


# P38
def test_staler_responses_are_named(tmp_path) -> None:
    cause = only_cause(tmp_path, each_row(lambda r: {"sampler_version": r["sampler_version"] - 3}))
    assert cause.id == "staleness"
    assert (cause.evidence["a"], cause.evidence["b"]) == (0.5, 3.5)


def test_a_sampler_that_cuts_its_support_is_named(tmp_path) -> None:
    def spoil(rows):
        rng = random.Random(5)
        return each_row(
            lambda r: {"logp_sampler": [min(x + 0.1 * rng.random() ** 2, 0.0) for x in r["logp_old"]]}
        )(rows)

    assert only_cause(tmp_path, spoil).id == "sampling.support"


# P31
def test_a_temperature_in_one_of_two_log_probs_is_named(tmp_path) -> None:
    def spoil(rows):
        return each_row(
            lambda r: {"logp_sampler": [1.4 * x + 0.5 - 0.5 * (x > -0.5) for x in r["logp_old"]]}
        )(rows)

    assert only_cause(tmp_path, spoil).id == "sampling.temperature"


# P42, P43
def test_a_mask_that_leaves_tokens_out_is_named(tmp_path) -> None:
    cause = only_cause(
        tmp_path, each_row(lambda r: {"loss_mask": [True] * (r["length"] - 1) + [r["length"] % 2 == 0]})
    )
    assert cause.id == "tokens.mask"
    assert cause.evidence["a"] == 0.0


def test_text_cut_into_other_tokens_is_named(tmp_path) -> None:
    rows = [rollouts(seed=s, reward=by_text, longest=3) for s in (1, 2)]
    rows[1] = [row | {"token_ids": [t + 10 for t in row["token_ids"]]} for row in rows[1]]
    one, other = compared(tmp_path, *rows)
    for found in (one, other):
        assert "tokens.retokenised" in [cause.id for cause in found.verdict.causes]
        cause = next(c for c in found.verdict.causes if c.id == "tokens.retokenised")
        assert cause.evidence["other_ids"] == cause.evidence["texts"]


# P08
def test_a_group_key_that_is_new_for_every_response_is_named(tmp_path) -> None:
    def spoil(rows):
        return each_row(lambda r: {"group_id": f"{r['group_id']}-{r['sample_index']}"})(rows)

    found, _ = compared(tmp_path, made(1), spoil(made(2)))
    cause = next(c for c in found.verdict.causes if c.id == "data.grouping")
    assert "384 of 384 groups of B have one response" in cause.summary
    assert "data.group_size" not in [c.id for c in found.verdict.causes]


# P48
def test_missing_steps_are_named(tmp_path) -> None:
    rows = [rollouts(seed=s, reward=by_text, steps=40, epochs=1) for s in (1, 2)]
    rows[1] = [row for row in rows[1] if row["step"] % 5 or row["step"] == 40]
    found, _ = compared(tmp_path, *rows)
    (cause,) = found.verdict.causes
    assert cause.id == "logging"
    assert cause.evidence["b"] == pytest.approx(7 / 40)


# F5
def test_a_batch_that_was_written_twice_is_named(tmp_path) -> None:
    def spoil(rows):
        again = [
            r | {"step": r["step"] + 2, "update": r["update"] + 2} for r in rows if r["step"] in (1, 2, 9, 10)
        ]
        named = [r | {"group_id": f"again-{r['group_id']}"} for r in again]
        gone = {r["step"] for r in named}
        return [r for r in rows if r["step"] not in gone] + named

    cause = only_cause(tmp_path, spoil)
    assert cause.id == "logging"
    assert cause.evidence["kind"] == "copies"


# P19
def test_permuted_columns_are_named(tmp_path) -> None:
    def spoil(rows):
        flags = [r["correct"] for r in rows]
        return [r | {"correct": flag} for r, flag in zip(rows, flags[-5:] + flags[:-5], strict=True)]

    cause = only_cause(tmp_path, spoil)
    assert cause.id == "logging"
    assert "correct contradicts the reward in 0 % of A's" in cause.summary.replace("0%", "0 %")


# P44
def test_another_reward_for_truncated_responses_is_named(tmp_path) -> None:
    def pays(value):
        return each_row(
            lambda r: {"reward": value if r["finish_reason"] == "length" else r["reward"], "correct": None}
        )

    found, _ = compared(tmp_path, pays(0.0)(made(1)), pays(-1.0)(made(2)))
    cause = next(c for c in found.verdict.causes if c.id == "data.truncation")
    assert (cause.evidence["a"], cause.evidence["b"]) == (0.0, -1.0)


def test_what_a_log_cannot_show_is_named_with_its_column(tmp_path) -> None:
    rows = [[{k: v for k, v in r.items() if not k.startswith("logp_s")} for r in made(s)] for s in (1, 2)]
    found, _ = compared(tmp_path, *rows)
    needs = {unseen.cause: unseen.needs for unseen in found.verdict.not_identifiable}
    assert set(needs) - {"model.init"} == {"numerics.mismatch", "sampling.support", "optimiser"}
    assert needs["sampling.support"] == "logp_sampler in both runs; or entropy in both runs"
    assert "Not identifiable from these logs: numerics.mismatch, sampling.support" in found.verdict.text


def test_shapley_parts_sum_and_mirror(tmp_path) -> None:
    a = write(tmp_path / "a", made(1), "grpo")
    b = write(tmp_path / "b", made(2), "dr_grpo")
    one, other = explain(a, b), explain(b, a)
    for effect, mirrored in zip(one.effects, [*other.effects[1::-1], other.effects[2]], strict=True):
        assert sum(part.distance.value for part in effect.parts) == pytest.approx(
            effect.distance.value, abs=1e-9
        )
        assert effect.distance.value == pytest.approx(mirrored.distance.value, abs=1e-9)
        assert effect.log_scale.value == pytest.approx(-mirrored.log_scale.value, abs=1e-9)
    assert sorted(c.id for c in one.verdict.causes) == sorted(c.id for c in other.verdict.causes)

"""Edits inject what they say, judgements count rightly, and a subset of the benchmark is told rightly."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
import torch

from audit.analyses.findings import CAUSES
from audit.testbed import exact
from audit.testbed.language import Language
from bench.calibration_truth import HIGH, LOW, length_moments, truth
from bench.explain import edits, tables, toy_cases
from bench.explain.case import Case
from bench.explain.judge import Judgement, judge, says_unseen
from bench.explain.log import Log
from bench.explain.toy import Recipe


@pytest.fixture(scope="module")
def log() -> Log:
    return replace(Recipe(), steps=3)([1])[0]


def rng() -> np.random.Generator:
    return np.random.default_rng(3)


def test_blind_says_nothing(log: Log) -> None:
    assert set(log.blind().manifest) == {"schema", "run_id"}


def test_other_rewards_and_their_advantages(log: Log) -> None:
    made = edits.other_rewards(0.2)(log, rng())
    flipped = made.column("reward") != log.column("reward")
    assert 0.1 < flipped.mean() < 0.3
    texts: dict[tuple[str, str], set[bool]] = {}
    keys = zip(log.rows["prompt_id"].to_pylist(), log.rows["response"].to_pylist(), strict=True)
    for key, changed in zip(keys, flipped.tolist(), strict=True):
        texts.setdefault(key, set()).add(changed)
    assert all(len(seen) == 1 for seen in texts.values())
    groups: dict[tuple[int, str], list[int]] = {}
    for row, key in enumerate(zip(made.column("step"), made.rows["group_id"].to_pylist(), strict=True)):
        groups.setdefault(key, []).append(row)
    for rows in groups.values():
        reward = made.column("reward")[rows]
        expected = (reward - reward.mean()) / (reward.std() or 1.0)
        np.testing.assert_allclose(made.column("advantage")[rows], expected, atol=1e-9)


def test_without_changes_advantages_are_the_trainers(log: Log) -> None:
    made = edits.other_rewards(0.0)(log, rng())
    np.testing.assert_allclose(made.column("advantage"), log.column("advantage"), atol=1e-9)


def test_shuffled_advantages_keep_their_sum_but_not_their_groups(log: Log) -> None:
    made = edits.shuffled_advantages(log, rng())
    assert abs(made.column("advantage").sum()) < 1e-6
    sums: dict[tuple[int, str], float] = {}
    for key, value in zip(
        zip(log.column("step"), log.rows["group_id"].to_pylist(), strict=True),
        made.column("advantage"),
        strict=True,
    ):
        sums[key] = sums.get(key, 0.0) + value
    assert np.mean(np.abs(list(sums.values())) > 1e-6) > 0.9


def test_merged_tokens_say_the_same(log: Log) -> None:
    made = edits.merged_tokens(0, 1, 5)(log, rng())
    assert made.rows["response"].equals(log.rows["response"])
    for before, after in zip(
        log.rows["token_ids"].to_pylist(), made.rows["token_ids"].to_pylist(), strict=True
    ):
        assert [part for token in after for part in ([0, 1] if token == 5 else [token])] == before
    for name in ("logp_theta", "logp_sampler"):
        sums = [[sum(row) for row in one.rows[name].to_pylist()] for one in (log, made)]
        np.testing.assert_allclose(*sums, rtol=1e-5)
    assert [len(row) for row in made.rows["token_ids"].to_pylist()] == made.column("length").tolist()


def test_rows_missing_and_twice(log: Log) -> None:
    gone = edits.missing_steps(3)(log, rng())
    assert sorted(set(gone.column("step"))) == [1, 2, 3, 4]
    twice = edits.duplicated(0.1)(log, rng())
    keys = list(
        zip(
            twice.column("step"),
            twice.rows["group_id"].to_pylist(),
            twice.column("sample_index"),
            strict=True,
        )
    )
    assert len(set(keys)) == log.rows.num_rows
    assert 1.05 < len(keys) / log.rows.num_rows < 1.15


def test_masks_grid_and_ids(log: Log) -> None:
    masked = edits.masked("last")(log, rng()).rows["loss_mask"].to_pylist()
    assert all(row[-1] == (len(row) < 2) and all(row[:-1]) for row in masked)
    values = edits.rounded(log, rng()).rows["logp_old"].combine_chunks().flatten().to_numpy()
    assert not (values.view(np.uint32) & 0xFFFF).any()
    shifted = edits.shifted_ids(log, rng())
    prompts: dict[str, set[str]] = {}
    for group, prompt in zip(
        shifted.rows["group_id"].to_pylist(), shifted.rows["prompt_id"].to_pylist(), strict=True
    ):
        prompts.setdefault(group, set()).add(prompt)
    assert {len(held) for held in prompts.values()} == {2}


def test_sampler_noise_has_its_size(log: Log) -> None:
    made = edits.sampler_noise(0.3)(log.without("logp_sampler"), rng())
    old, sampler = (pa.array(made.rows[n].combine_chunks().flatten()) for n in ("logp_old", "logp_sampler"))
    off = np.asarray(sampler) - np.asarray(old)
    assert 0.2 < off[np.asarray(sampler) < 0].std() < 0.35


def judged(**changes: object) -> Judgement:
    fields: dict[str, object] = {
        "source": "toy",
        "cause": "objective.scale",
        "variant": "v",
        "blind": False,
        "seed": 0,
        "seen": True,
        "right": ("objective.scale",),
        "named": ["objective.scale"],
        "confidence": 0.9,
        "told": False,
        **changes,
    }
    return Judgement(**fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "outcome"),
    [
        ({}, "right"),
        ({"named": ["objective.clip", "objective.scale"]}, "wrong"),
        ({"named": []}, "none"),
        ({"named": [], "cause": None, "right": ()}, "right"),
        ({"cause": None, "right": ()}, "wrong"),
        ({"named": [], "error": "broken"}, "failed"),
    ],
)
def test_outcomes(changes: dict[str, object], outcome: str) -> None:
    assert judged(**changes).outcome == outcome
    assert judged(**changes).hit == (outcome == "right" and changes.get("cause", "") is not None)


def test_tables_count() -> None:
    found = [judged(), judged(named=[]), judged(named=["optimiser"], confidence=0.6)]
    found += [judged(cause=None, right=(), named=["logging"]), judged(cause=None, right=(), named=[])]
    short = {row[0]: row[2] for row in tables.summary(found).rows if row[1] == "both"}
    assert short["declared: top cause right"].endswith("1 of 3)")
    assert short["null: a cause named (false alarm)"].endswith("1 of 2)")
    (row,) = tables.by_cause(found, "toy").rows
    assert row[2] == "1 of 3"
    assert row[4] == "nothing (1), `optimiser` (1)"
    # Wilson 1927, by hand for 1 of 3: (p + z²/2n ± z sqrt(p(1-p)/n + z²/4n²)) / (1 + z²/n).
    assert "(6.1% to 79.2%" in tables.rate(1, 3)


def test_what_a_log_does_not_hold_is_recognised() -> None:
    answer = {"skipped": [{"check": "objective.clip", "needs": "clip_ratio in metrics/"}]}
    told = {"text": "clip: not identifiable from this log; needs clip_ratio."}
    assert says_unseen(told, "objective.clip")
    assert not says_unseen(told, "objective.kl")
    assert not says_unseen({"text": "The clip differs."}, "objective.clip")
    assert says_unseen(answer, "objective.clip")
    assert not says_unseen(answer, "staleness")


def test_every_case_has_a_cause_of_the_list() -> None:
    cases = [*toy_cases.objective_cases(), *toy_cases.other_cases()]
    assert {case.cause for case in cases} == set(CAUSES)
    assert all(case.shown_by for case in cases)


def chosen() -> list[Case]:
    every = {(c.cause, c.variant): c for c in (*toy_cases.objective_cases(), *toy_cases.other_cases())}
    return [
        every["objective.scale", "group std → none"],
        every["data.group_size", "8 → 4"],
        every["data.truncation", "budget 5 → 3 tokens"],
        toy_cases.null_cases()[0],
    ]


@pytest.mark.parametrize("blind", [False, True])
@pytest.mark.parametrize("case", chosen(), ids=lambda case: case.cause or "null")
def test_subset_is_told_rightly(case: Case, blind: bool, tmp_path) -> None:
    torch.set_num_threads(1)
    (found,) = judge(case, [0], tmp_path, blind=blind)
    assert found.outcome == "right", found


def test_truths_by_sampling() -> None:
    """Monte Carlo over groups, with loops of its own, against the exact sums."""
    language, size, groups = Language(rates=(0.5,), letters=3, budget=6), 8, 15_000
    random = np.random.default_rng(5)
    chance = exact.response_probability(language, language.reference)[0].numpy()
    length = language.response_length.numpy()[random.choice(len(chance), (groups, size), p=chance)]
    rates = random.uniform(LOW, HIGH, groups)
    reward = (random.random((groups, size)) < rates[:, None]).astype(float)
    off, std = reward - reward.mean(1, keepdims=True), reward.std(1, keepdims=True)
    advantage = np.divide(off, std, out=np.zeros_like(off), where=std > 0)
    weight = advantage / length
    made = truth(language, size)
    assert made.zero_signal == pytest.approx((std == 0).mean(), abs=0.01)
    assert made.length == pytest.approx(length.mean(), rel=0.01)
    assert length_moments(language)[1] == pytest.approx((1 / length).mean(), rel=0.01)
    product, freedom = 0.0, 0
    for w, n, r in zip(weight, length, reward, strict=True):
        right = r == 1.0
        if right.sum() > 1:
            product += float(((w[right] - w[right].mean()) * (n[right] - n[right].mean())).sum())
            freedom += int(right.sum()) - 1
    unit = np.abs(weight[weight != 0]).mean()
    assert made.pressure_correct == pytest.approx(product / freedom / unit, rel=0.03)
    cosine = (length * weight * off).sum() / np.sqrt((length * weight**2).sum() * (length * off**2).sum())
    assert made.distance == pytest.approx(1 - cosine, rel=0.03)

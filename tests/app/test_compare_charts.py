"""The charts of the page Compare carry what the raw rows say."""

from __future__ import annotations

import math
from itertools import permutations
from statistics import fmean

import pytest
from by_hand import (
    SAMPLES,
    advantages,
    first_pass,
    in_bins,
    kl_weights,
    logged,
    middle,
    policy_weights,
    split,
    step_bins,
)
from shown import Drawn, chart, drawn, opened

A, B = "testbed/grpo-seed0", "testbed/dr_grpo-seed0"
CONSTANT = 7.0
"""The generation budget, by which Dr. GRPO divides."""
PARTS = ("aggregation", "scale", "kl")


@pytest.fixture(scope="module")
def runs() -> dict[str, list[dict]]:
    return {run: logged(run) for run in (A, B)}


def weights(rows: list[dict], taken: frozenset[str]) -> list[list[float]]:
    """Token weights of every row under GRPO with some parts taken from Dr. GRPO."""
    advantage = advantages(rows, "scale" not in taken)
    responses = {update: len(held) for update, held in split(rows, lambda row: row["update"]).items()}
    per_token = "aggregation" not in taken
    made = []
    for row in rows:
        held = policy_weights(row, advantage[id(row)], responses[row["update"]], per_token, CONSTANT)
        if "kl" not in taken:
            added = kl_weights(row, responses[row["update"]], per_token, CONSTANT)
            held = [w + k for w, k in zip(held, added, strict=True)]
        made.append(held)
    return made


def distance(first: list[float], second: list[float]) -> float:
    dot = sum(a * b for a, b in zip(first, second, strict=True))
    return 1 - dot / math.sqrt(sum(a * a for a in first) * sum(b * b for b in second))


@pytest.fixture(scope="module")
def swaps(runs) -> dict[frozenset[str], float]:
    """1 - cosine from GRPO once some parts are those of Dr. GRPO, over the tokens of both runs."""

    def flat(taken: frozenset[str]) -> list[float]:
        return [w for rows in runs.values() for held in weights(rows, taken) for w in held]

    own = flat(frozenset())
    subsets = [frozenset(p for at, p in enumerate(PARTS) if mask >> at & 1) for mask in range(8)]
    return {taken: distance(own, flat(taken)) for taken in subsets}


def test_the_waterfall_is_shapley_values_that_sum_to_the_whole(swaps, monkeypatch) -> None:
    drawn = chart(opened(monkeypatch, SAMPLES, "compare", A, B), "Parts of 1 - cosine between the weights")
    *bars, whole = drawn.frame.to_dicts()
    expected = dict.fromkeys(PARTS, 0.0)
    for order in permutations(PARTS):
        for at, part in enumerate(order):
            gained = swaps[frozenset(order[: at + 1])] - swaps[frozenset(order[:at])]
            expected[part] += gained / math.factorial(len(PARTS))
    found = {bar["part"]: bar["end"] - bar["start"] for bar in bars}
    assert found == {part: pytest.approx(value, rel=1e-5) for part, value in expected.items()}
    assert (whole["start"], whole["end"]) == (0.0, pytest.approx(swaps[frozenset(PARTS)], rel=1e-5))
    # Each bar begins where the one before ends, the last ends at the whole.
    assert [bar["start"] for bar in bars] == pytest.approx([0.0, *(bar["end"] for bar in bars[:-1])])
    assert bars[-1]["end"] == pytest.approx(whole["end"])


def metric(drawn: Drawn, run: str) -> tuple[list, list]:
    line = drawn.frame.filter(drawn.frame["run"] == run)
    return line["step"].to_list(), line["value"].to_list()


def mean_log_ratio(row: dict) -> float:
    gaps = [a - b for a, b in zip(row["logp_theta"], row["logp_old"], strict=True)]
    return math.sqrt(fmean(gap * gap for gap in gaps))


def over_tokens(value):
    return lambda rows: fmean(x for row in rows for x in value(row))


CURVES = {
    "reward": (lambda row: row["epoch"] == 0, lambda rows: fmean(row["reward"] for row in rows)),
    "length": (lambda row: row["epoch"] == 0, lambda rows: fmean(len(row["token_ids"]) for row in rows)),
    "length of correct": (
        lambda row: row["epoch"] == 0 and row["correct"],
        lambda rows: fmean(len(row["token_ids"]) for row in rows),
    ),
    "zero-signal share": (
        lambda row: row["epoch"] == 0,
        lambda rows: fmean(
            len({row["reward"] for row in group}) == 1
            for group in split(rows, lambda row: row["group_id"]).values()
        ),
    ),
    "entropy": (lambda row: row["epoch"] == 0, over_tokens(lambda row: row["entropy"])),
    "log-prob of the samples": (lambda row: row["epoch"] == 0, over_tokens(lambda row: row["logp_old"])),
    "rms log ratio": (lambda row: True, lambda rows: fmean(map(mean_log_ratio, rows))),
}


def test_metrics_over_steps_are_means_at_the_middle_of_their_bins(runs, monkeypatch) -> None:
    at = opened(monkeypatch, SAMPLES, "compare", A, B, view="Over steps")
    for name, (counts, value) in CURVES.items():
        drawn = chart(at, f"{name} over steps")
        for run, rows in runs.items():
            place = in_bins([row for row in rows if counts(row)], 24, of=rows)
            # A bin is named by every step in it, also those whose rows do not count.
            whole = in_bins(rows, 24)
            held = [(middle(w), inside) for w, inside in zip(whole, place, strict=True) if inside]
            steps, values = metric(drawn, run)
            assert steps == [step for step, _ in held]
            assert values == pytest.approx([value(inside) for _, inside in held], rel=1e-5), (name, run)


def test_gaps_that_parted_are_differences_since_the_first_bin(runs, monkeypatch) -> None:
    at = opened(monkeypatch, SAMPLES, "compare", A, B, view="Over steps")
    gaps = [each for each in drawn(at) if each.alt.startswith("Gap in ")]
    bars = chart(at, "Steps from which each metric is apart").frame
    parted = bars.filter(bars["parted"].is_not_null())["metric"].to_list()
    assert parted
    assert sorted(each.alt for each in gaps) == sorted(f"Gap in {name} since the start" for name in parted)
    bins = step_bins(sorted({row["step"] for rows in runs.values() for row in rows}), 10)
    held = [each for each in gaps if each.alt[7:-16] in CURVES]
    assert held
    for each in held:
        counts, value = CURVES[each.alt[7:-16]]
        apart = []
        for place in range(10):
            a, b = (
                value([row for row in rows if counts(row) and bins[row["step"]] == place])
                for rows in (runs[A], runs[B])
            )
            apart.append(b - a)
        inside = [[step for step in bins if bins[step] == place] for place in range(10)]
        expected = {
            (min(i) + max(i)) / 2: pytest.approx(gap - apart[0], rel=1e-4, abs=1e-9)
            for i, gap in zip(inside, apart, strict=True)
        }
        points = each.layer("line").frame.select("step", "moved").rows()
        assert len(points) >= 8
        assert all(moved == expected[step] for step, moved in points)


def test_shares_of_the_weight_by_length_and_sign(runs, monkeypatch) -> None:
    at = opened(monkeypatch, SAMPLES, "compare", A, B, view="Weights")
    for run, taken in ((A, frozenset()), (B, frozenset(PARTS))):
        mass, lengths = [], []
        for rows in runs.values():
            # The policy's part alone: what the KL in the loss adds is left out.
            held = weights(rows, taken | {"kl"})
            mass += [sum(w) for row, w in zip(rows, held, strict=True) if row["epoch"] == 0]
            lengths += [len(row["token_ids"]) for row in first_pass(rows)]
        whole = sum(map(abs, mass))
        frame = chart(at, "Share of the weight, by sign of the push").frame
        signs = dict(frame.filter(frame["run"] == run).select("part", "value").rows())
        assert signs == {
            "pushed up": pytest.approx(sum(m for m in mass if m > 0) / whole, rel=1e-5),
            "pushed down": pytest.approx(-sum(m for m in mass if m < 0) / whole, rel=1e-5),
        }
        frame = chart(at, "Share of the weight, by length of the response").frame
        shares = dict(frame.filter(frame["run"] == run).select("part", "value").rows())
        for part, share in shares.items():
            low, _, high = part.partition("–")
            inside = [abs(m) for m, n in zip(mass, lengths, strict=True) if int(low) <= n <= int(high or low)]
            assert share == pytest.approx(sum(inside) / whole, rel=1e-5)
        assert sum(shares.values()) == pytest.approx(1)


def test_the_matrix_holds_the_distance_of_every_pair(runs, swaps, monkeypatch) -> None:
    third = "testbed/grpo-seed1"
    frame = chart(opened(monkeypatch, SAMPLES, "compare", A, B, third), "Distances of the objectives").frame
    found = {(a, b): value for a, b, value in frame.select("a", "b", "value").rows()}
    assert len(found) == 9
    assert all(found[a, b] == found[b, a] for a, b in found)
    assert found[A, third] == 0
    assert found[A, A] == 0
    rows = [*runs.values(), logged(third)]
    flat = [
        [w for held in rows for line in weights(held, taken) for w in line]
        for taken in (frozenset(), frozenset(PARTS))
    ]
    assert found[A, B] == pytest.approx(distance(*flat), rel=1e-4)

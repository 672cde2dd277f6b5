"""The charts of the page Length carry what the raw rows say."""

from __future__ import annotations

import shutil
from statistics import fmean

import numpy as np
import pytest
from by_hand import SAMPLES, advantages, first_pass, in_bins, logged, ratios, side, split
from shown import chart, drawn, opened

RUN = "testbed/grpo-seed0"
SIDES = ("correct", "wrong")


@pytest.fixture(scope="module")
def rows() -> list[dict]:
    return first_pass(logged(RUN))


def by_side(drawn, field: str) -> dict[str, list]:
    frame = drawn.frame
    return {name: frame.filter(frame["side"] == name)[field].to_list() for name in SIDES}


def covariance(rows, weight) -> tuple[float, float]:
    """Pooled within groups: Σ (w - mean)(L - mean), and degrees of freedom Σ (n - 1)."""
    product, freedom = 0.0, 0
    for group in split(rows, lambda row: row["group_id"]).values():
        if len(group) > 1:
            w, n = [weight[id(row)] for row in group], [len(row["token_ids"]) for row in group]
            product += sum((a - fmean(w)) * (b - fmean(n)) for a, b in zip(w, n, strict=True))
            freedom += len(group) - 1
    return product, freedom


def mean_weights(rows, *, scaled: bool, per_token: bool) -> dict[int, float]:
    """Mean weight over the tokens of each response, in units of the mean size of those that have one."""
    advantage = advantages(rows, scaled)
    made = {}
    for row in rows:
        size = len(row["token_ids"]) if per_token else 1.0
        # On the first pass no ratio is beyond the clip.
        made[id(row)] = advantage[id(row)] / size * fmean(ratios(row))
    unit = fmean(abs(w) for w in made.values() if w)
    return {key: w / unit for key, w in made.items()}


def test_the_cumulative_push_sums_covariances_of_weight_and_length(rows, monkeypatch) -> None:
    drawn = chart(opened(monkeypatch, SAMPLES, "length", RUN), "Cumulative push of the weights")
    weight = mean_weights(rows, scaled=True, per_token=True)
    for name in SIDES:
        bins = in_bins([row for row in rows if side(row) == name], 20)
        reached, expected = 0.0, []
        for inside in bins:
            product, freedom = covariance(inside, weight)
            pushed = product / freedom * len({row["step"] for row in inside}) if freedom else 0.0
            expected.append(reached + pushed / 2)
            reached += pushed
        assert by_side(drawn, "step")[name] == pytest.approx([fmean(r["step"] for r in b) for b in bins])
        assert by_side(drawn, "value")[name] == pytest.approx([x - expected[0] for x in expected], rel=1e-5)


def test_observed_length_is_a_fit_of_prompts_and_bins(rows, monkeypatch) -> None:
    drawn = chart(opened(monkeypatch, SAMPLES, "length", RUN), "Observed length")
    for name in SIDES:
        bins = in_bins([row for row in rows if side(row) == name], 20)
        prompts = sorted({row["prompt_id"] for inside in bins for row in inside})
        design, length = [], []
        for at, inside in enumerate(bins):
            for row in inside:
                line = [0.0] * (len(prompts) + len(bins))
                line[prompts.index(row["prompt_id"])] = 1.0
                line[len(prompts) + at] = 1.0
                design.append(line)
                length.append(len(row["token_ids"]))
        fit = np.linalg.lstsq(np.array(design), np.array(length), rcond=None)[0][len(prompts) :]
        assert by_side(drawn, "value")[name] == pytest.approx(list(fit - fit[0]), abs=1e-7)


def test_distributions_count_the_responses_of_each_third(rows, monkeypatch) -> None:
    at = opened(monkeypatch, SAMPLES, "length", RUN, view="Distributions")
    steps = sorted({row["step"] for row in rows})
    third = len(steps) // 3
    cuts = {"early": steps[:third], "middle": steps[third : 2 * third], "late": steps[2 * third :]}
    for name in SIDES:
        drawn = chart(at, f"Length of {name} responses").frame
        for third, inside in cuts.items():
            held = [len(r["token_ids"]) for r in rows if side(r) == name and r["step"] in inside]
            line = drawn.filter(drawn["third"] == third)
            points = line.select("length", "level").rows()
            # It begins at 0, right below the least length, and ends at 1.
            assert points[0] == (min(held), 0.0)
            assert points[-1] == (max(held), 1.0)
            for value, level in points[1:]:
                assert level == pytest.approx(sum(n <= value for n in held) / len(held))
            often = {n for n in held if held.count(n) > 0.02 * len(held)}
            assert often <= {value for value, _ in points}
            assert set(line["n"]) == {len(held)}


@pytest.mark.parametrize(
    ("first", "scaled", "per_token"), [("grpo + ", True, True), ("reinforce + ", False, False)]
)
def test_pushes_are_covariances_over_the_whole_run(rows, monkeypatch, first, scaled, per_token) -> None:
    at = opened(monkeypatch, SAMPLES, "length", RUN, view="Objectives")
    frame = chart(at, "Push of every objective on the same rollouts").frame
    weight = mean_weights(rows, scaled=scaled, per_token=per_token)
    (name,) = [each for each in set(frame["objective"]) if each.startswith(first)]
    for which in SIDES:
        product, freedom = covariance([row for row in rows if side(row) == which], weight)
        (line,) = frame.filter((frame["objective"] == name) & (frame["side"] == which)).to_dicts()
        assert line["value"] == pytest.approx(product / freedom, rel=1e-5, abs=1e-9)
        assert line["low"] <= line["value"] <= line["high"]


def test_lengths_of_a_run_without_objective_are_drawn(rows, monkeypatch, tmp_path) -> None:
    shutil.copytree(SAMPLES / RUN, tmp_path / "bare")
    (tmp_path / "bare" / "run.json").unlink()
    at = opened(monkeypatch, tmp_path, "length", "bare")
    (bare,) = [each for each in drawn(at) if each.alt == "Observed length"]
    declared = chart(opened(monkeypatch, SAMPLES, "length", RUN), "Observed length")
    for name in SIDES:
        assert by_side(bare, "value")[name] == pytest.approx(by_side(declared, "value")[name])
        assert set(bare.frame.filter(bare.frame["side"] == name)["n"]) == {
            sum(side(row) == name for row in rows)
        }
    assert "no push to draw: it needs an objective: declare one in run.json" in at.info[0].value

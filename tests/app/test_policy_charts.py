"""The charts of the pages Clipping, KL and Mismatch carry what the raw rows say."""

from __future__ import annotations

import math
import re
from statistics import fmean

import pytest
from by_hand import BETA, SAMPLES, binomial, first_pass, in_bins, logged, middle, ratios, removed, split
from shown import chart, opened

RUN, CLIPS = "testbed/grpo-seed0", "team/grpo-seed1"
"""The latter has ratios beyond its clip, the former log-probs of the sampler."""


@pytest.fixture(scope="module")
def rows() -> list[dict]:
    return logged(RUN)


@pytest.fixture(scope="module")
def clipping() -> list[dict]:
    rows = logged(CLIPS)
    assert all(all(row["loss_mask"]) for row in rows)
    return rows


def tokens(rows) -> int:
    return sum(len(row["token_ids"]) for row in rows)


def clipped(rows, low: float = 0.2, high: float = 0.2) -> float:
    gone = sum(removed(ratio, row["advantage"], low, high) for row in rows for ratio in ratios(row))
    return gone / tokens(rows)


def per_token(rows, first: str, second: str, of) -> float:
    gaps = [a - b for row in rows for a, b in zip(row[first], row[second], strict=True)]
    return fmean(map(of, gaps))


def over_steps(drawn, rows, value) -> None:
    """The chart has ``value`` of the rows of each of 20 bins of steps, at the middle of the bin."""
    bins = in_bins(rows, 20)
    assert drawn.frame["step"].to_list() == [middle(inside) for inside in bins]
    assert drawn.frame["value"].to_list() == pytest.approx([value(inside) for inside in bins], rel=1e-5)
    assert drawn.frame["n"].to_list() == [len(inside) for inside in bins]


def by_name(drawn) -> dict[str, float]:
    points = drawn.layer("point").frame
    return dict(points.select("name", "value").rows())


def test_the_clipped_share_over_steps(clipping, monkeypatch) -> None:
    over_steps(chart(opened(monkeypatch, SAMPLES, "clipping", CLIPS), "Over steps"), clipping, clipped)


def test_the_clipped_share_by_side_sign_epoch_and_length(clipping, monkeypatch) -> None:
    at = opened(monkeypatch, SAMPLES, "clipping", CLIPS)
    side = by_name(chart(at, "By side"))
    # Of all tokens: the two sides sum to the whole.
    assert sum(side.values()) == pytest.approx(clipped(clipping))
    assert all(side.values())
    assert side["above the band, A > 0"] == pytest.approx(clipped(clipping, low=9.0))
    sign = by_name(chart(at, "By sign of A"))
    for name, inside in {
        "A > 0": [row for row in clipping if row["advantage"] > 0],
        "A < 0": [row for row in clipping if row["advantage"] < 0],
        "A = 0": [row for row in clipping if row["advantage"] == 0],
    }.items():
        assert sign[name] == pytest.approx(clipped(inside))
    epoch = by_name(chart(at, "By inner epoch"))
    assert epoch == {
        f"inner epoch {e}": pytest.approx(clipped(split(clipping, lambda r: r["epoch"])[e])) for e in (0, 1)
    }
    length = by_name(chart(at, "By length, tenths of responses"))
    held = 0
    for name, share in length.items():
        low, _, high = name.removesuffix(" tokens").partition("–")
        inside = [row for row in clipping if int(low) <= len(row["token_ids"]) <= int(high or low)]
        held += len(inside)
        assert share == pytest.approx(clipped(inside))
    assert held == len(clipping)


def test_the_clipped_share_at_other_widths(clipping, monkeypatch) -> None:
    drawn = chart(
        opened(monkeypatch, SAMPLES, "clipping", CLIPS, view="Other bounds"), "Clip-zeroed share over epsilon"
    )
    line = dict(drawn.layer("line").frame.select("epsilon", "value").rows())
    assert len(line) == 8
    for epsilon, share in line.items():
        assert share == pytest.approx(clipped(clipping, epsilon, epsilon)), epsilon
    assert set(drawn.layer("rule").frame["epsilon"]) == {0.2}


def test_kl_to_the_reference_over_steps(rows, monkeypatch) -> None:
    drawn = chart(opened(monkeypatch, SAMPLES, "kl", RUN), "KL(theta ‖ ref) over steps")
    bins = in_bins(rows, 20)
    for series, form in {"k1": lambda d: d, "k3": lambda d: math.expm1(-d) + d}.items():
        line = drawn.frame.filter(drawn.frame["series"] == series)
        assert line["step"].to_list() == [middle(inside) for inside in bins]
        assert line["value"].to_list() == pytest.approx(
            [per_token(inside, "logp_theta", "logp_ref", form) for inside in bins], rel=1e-4, abs=1e-7
        )


def drift(rows) -> float:
    """KL(old ‖ theta) by k3 on samples of old: rho - 1 - log rho."""
    return per_token(rows, "logp_theta", "logp_old", lambda gap: math.expm1(gap) - gap)


def test_the_drift_over_steps(rows, monkeypatch) -> None:
    drawn = chart(opened(monkeypatch, SAMPLES, "kl", RUN), "KL(old ‖ theta) over steps")
    expected = [drift(inside) for inside in in_bins(rows, 20)]
    assert drawn.frame["value"].to_list() == pytest.approx(expected, rel=1e-4, abs=1e-8)


def test_the_drift_by_inner_update(monkeypatch) -> None:
    run = "team/grpo-seed1"
    drawn = chart(opened(monkeypatch, SAMPLES, "kl", run), "Drift by inner update")
    passes = split(logged(run), lambda row: row["epoch"])
    assert all(all(row["loss_mask"]) for held in passes.values() for row in held)
    assert by_name(drawn) == {
        f"inner update {epoch + 1}": pytest.approx(drift(passes[epoch]), rel=1e-4, abs=1e-9)
        for epoch in (0, 1)
    }


def test_every_estimator_of_the_kl_is_a_mean_over_tokens(rows, monkeypatch) -> None:
    at = opened(monkeypatch, SAMPLES, "kl", RUN)
    shown = "".join(element.proto.body for element in at.get("html"))
    found = [re.sub(r"<[^>]*>", "|", line) for line in re.findall(r"<tr>.*?</tr>", shown)]
    forms = {"k1": lambda d: d, "k2": lambda d: d * d / 2, "k3": lambda d: math.expm1(-d) + d}
    for of, inside in (("theta", rows), ("old", first_pass(rows))):
        for name, form in forms.items():
            (line,) = [each for each in found if re.match(rf"\|+{of} ‖ ref\|+{name}\|", each)]
            said = re.search(r"\|([+-][\d.]+) \[", line).group(1)
            decimals = len(said.partition(".")[2])
            value = per_token(inside, f"logp_{of}", "logp_ref", form)
            assert float(said) == pytest.approx(value, abs=0.51 * 10**-decimals), (of, name)


def test_the_weight_of_the_kl_is_its_coefficient_over_the_factor_of_the_prompt(monkeypatch) -> None:
    drawn = chart(opened(monkeypatch, SAMPLES, "kl", RUN), "Weight of the KL next to the reward")
    assert len(drawn.layer("line").frame) == 7
    for p, beta in drawn.layer("line").frame.select("rate", "value").rows():
        spread = sum(q * math.sqrt(k / 8 * (1 - k / 8)) for k, q in enumerate(binomial(p, 8)))
        assert beta == pytest.approx(BETA * p * (1 - p) / spread)
    assert drawn.layer("rule").frame["value"].to_list() == [BETA]


def test_the_mismatch_over_steps_and_along_the_response(rows, monkeypatch) -> None:
    at = opened(monkeypatch, SAMPLES, "mismatch", RUN)
    held = first_pass(rows)
    over_steps(
        chart(at, "Over steps"), held, lambda inside: per_token(inside, "logp_old", "logp_sampler", abs)
    )
    drawn = chart(at, "By place in the response")
    gaps: dict[int, list[float]] = {}
    for row in held:
        for place, (a, b) in enumerate(zip(row["logp_old"], row["logp_sampler"], strict=True)):
            gaps.setdefault(place, []).append(abs(a - b))
    for name, value in by_name(drawn).items():
        first, *last = (int(each) for each in re.findall(r"\d+", name))
        end = max(gaps) if name.startswith("from ") else (last or [first])[0]
        inside = [gap for place in range(first, end + 1) for gap in gaps[place]]
        assert value == pytest.approx(fmean(inside), rel=1e-5)
    rule = [layer for layer in drawn.layers if "whole" in layer.frame.columns]
    assert rule[0].frame["whole"].item() == pytest.approx(
        per_token(held, "logp_old", "logp_sampler", abs), rel=1e-5
    )

"""Charts of comparisons draw the numbers of their results: waterfall, curves, timeline, shares, matrix."""

from __future__ import annotations

import json

import pytest
from synthetic import centred, rollouts, standardised, with_advantages, write

from audit.analyses.distances import DistanceMatrix
from audit.analyses.effect import ObjectiveEffect, PartEffect
from audit.analyses.explain import explain_known, known
from audit.analyses.metric_curves import Curve, CurvePoint, metric_curves
from audit.analyses.timeline import Course, Moment, Timeline
from audit.analyses.weight_shifts import Shift, shifts_between
from audit.errors import AuditError
from audit.report.curves_chart import curve_chart
from audit.report.matrix_chart import NUMBERS, matrix_chart
from audit.report.shift_chart import shift_chart
from audit.report.timeline_chart import course_curves, moved_chart, parting_chart
from audit.report.waterfall_chart import WHOLE, waterfall_chart, waterfall_frame
from audit.stats import Estimate

HOSTILE = "<b>a</b>\x1b"
COLOURS = {"a": "#0072B2", "b": "#D55E00", HOSTILE: "#009E73"}


@pytest.fixture(scope="module")
def sides(tmp_path_factory):
    root = tmp_path_factory.mktemp("runs")
    a = write(root / "a", with_advantages(rollouts(steps=6), standardised(0, 0.0)), "grpo")
    b = write(root / "b", with_advantages(rollouts(steps=6, seed=1), centred), "dr_grpo")
    return known(a), known(b)


def drawn(chart) -> list[dict]:
    rows = [row for held in json.loads(chart.to_json())["datasets"].values() for row in held]
    assert len(rows) <= 5000
    return rows


def part(name: str, value: float, low: float, high: float) -> PartEffect:
    nothing = Estimate(None, None, None, 9)
    return PartEffect(name, "x", Estimate(value, low, high, 9), Estimate(value / 0.3, None, None, 9), nothing)


def test_each_bar_begins_where_the_one_before_ends(sides) -> None:
    effect = explain_known(*sides).effects[-1]
    rows = waterfall_frame(effect).to_dicts()
    ends = [0.0, *(row["end"] for row in rows[:-1])]
    assert [row["start"] for row in rows] == [*ends[:-1], 0.0]
    assert rows[-1]["part"] == WHOLE
    assert rows[-2]["end"] == pytest.approx(rows[-1]["end"]) == pytest.approx(effect.distance.value)
    assert rows[0]["low"] == pytest.approx(effect.parts[0].distance.low)
    assert drawn(waterfall_chart(effect))


def test_a_part_that_turns_back_is_drawn_back() -> None:
    parts = [part("clip", 0.4, 0.35, 0.45), part("kl", -0.1, -0.2, 0.0)]
    effect = ObjectiveEffect(["a"], Estimate(0.3, 0.2, 0.4, 9), Estimate(0, 0, 0, 9), parts, [], 10)
    rows = waterfall_frame(effect).to_dicts()
    assert [row["kind"] for row in rows] == ["part", "back", "whole"]
    assert [(row["start"], row["end"]) for row in rows[:2]] == [(0.0, 0.4), (0.4, pytest.approx(0.3))]
    assert rows[1]["reach"] == pytest.approx(0.4)
    assert rows[1]["label"] == "-33 %"
    nothing = ObjectiveEffect(["a"], Estimate(None, None, None, 0), Estimate(None, None, None, 0), [], [], 0)
    with pytest.raises(AuditError, match="nothing to draw"):
        waterfall_chart(nothing)


def test_curves_have_the_colour_of_their_run_and_say_n(sides) -> None:
    curves = [(name, metric_curves(side.rows).curves[0]) for name, side in zip("ab", sides, strict=True)]
    chart = curve_chart(curves, COLOURS, parted=(5, 6))
    points = [row for row in drawn(chart) if "run" in row]
    assert [(row["run"], row["value"], row["n"]) for row in points] == [
        (name, point.value.value, point.value.n) for name, curve in curves for point in curve.points
    ]
    spec = json.loads(chart.to_json())
    assert spec["layer"][1]["encoding"]["color"]["scale"]["range"] == [COLOURS["a"], COLOURS["b"]]
    assert {"from": 5.0, "to": 11.0} in drawn(chart)


def test_a_wide_band_does_not_flatten_the_values() -> None:
    points = [
        CurvePoint(s, s, Estimate(float(s), s - 0.1, s + (99.0 if s == 2 else 0.1), 3)) for s in (1, 2, 3)
    ]
    spec = json.loads(curve_chart([(HOSTILE, Curve("reward", "", points))], COLOURS).to_json())
    low, high = spec["layer"][1]["encoding"]["y"]["scale"]["domain"]
    assert low == pytest.approx(0.9)
    assert 3.0 < high < 5.0
    (rows,) = spec["datasets"].values()
    assert {row["run"] for row in rows} == {"<b>a</b>\\x1b"}


def test_no_curve_is_said() -> None:
    with pytest.raises(AuditError, match="nothing to draw"):
        curve_chart([("a", Curve("reward", "", []))], COLOURS)


def moments() -> list[Moment]:
    gaps = [(0.1, 0.0, 0.2), (0.2, -0.1, 0.5), (0.9, 0.6, 1.2)]
    return [
        Moment(10 * i, 10 * i + 9, 0.0, gap, gap, low, high, 0.001, [8, 9])
        for i, (gap, low, high) in enumerate(gaps)
    ]


def test_a_timeline_colours_a_metric_from_where_it_parts() -> None:
    timeline = Timeline([Course("reward", "", "parted", 2, moments())], [])
    timeline.courses.append(Course("entropy", "nats", "together", None, moments()))
    rows = drawn(parting_chart(timeline))
    assert [(row["metric"], row["first"], row["last"], row["parted"]) for row in rows] == [
        ("reward", 0.0, 30.0, 20.0),
        ("entropy", 0.0, 30.0, None),
    ]
    assert rows[0]["moved"] == "+0.90 [+0.60, +1.20]"
    with pytest.raises(AuditError, match="nothing to draw"):
        parting_chart(Timeline([], []))


def test_a_course_is_two_curves_without_bands() -> None:
    a, b = course_curves(Course("clip-zeroed share", "of loss tokens", "parted", 2, moments()))
    assert [point.value.value for point in a.points] == [0.0, 0.0, 0.0]
    assert [(point.value.value, point.value.low, point.value.n) for point in b.points] == [
        (0.1, None, 9),
        (0.2, None, 9),
        (0.9, None, 9),
    ]
    assert drawn(curve_chart([("a", a), ("b", b)], COLOURS))


def test_how_far_a_gap_moved_leaves_the_first_bin_out() -> None:
    rows = [row for row in drawn(moved_chart(Course("reward", "", "parted", 2, moments()))) if "low" in row]
    assert [(row["moved"], row["low"], row["high"], row["n"]) for row in rows] == [
        (0.2, -0.1, 0.5, "8 / 9"),
        (0.9, 0.6, 1.2, "8 / 9"),
    ]


def test_shares_stand_beside_each_other(sides) -> None:
    shifts = shifts_between(*sides).by_length
    rows = drawn(shift_chart(shifts, ("a", "b"), COLOURS, "tokens"))
    assert [row["value"] for row in rows if row["run"] == "a"] == [shift.a.value for shift in shifts]
    assert [row["value"] for row in rows if row["run"] == "b"] == [shift.b.value for shift in shifts]
    with pytest.raises(AuditError, match="no tokens"):
        shift_chart([], ("a", "b"), COLOURS, "tokens")


def test_names_of_parts_that_do_not_fit_are_turned() -> None:
    e = Estimate(0.1, 0.0, 0.2, 5)
    shifts = [Shift(f"{1000 * i:,}–{1000 * i + 999:,}", 0.1, e, e, e) for i in range(10)]
    spec = json.loads(shift_chart(shifts, ("a", "b"), COLOURS, "tokens").to_json())
    assert spec["layer"][0]["encoding"]["x"]["axis"]["labelAngle"] == -40


def test_a_matrix_has_a_cell_a_pair_in_the_order_that_is_asked_for() -> None:
    zero, far = Estimate(0.0, 0.0, 0.0, 7), Estimate(0.5, 0.4, 0.6, 7)
    matrix = DistanceMatrix("1 - cosine", "", ["a", "b"], [[zero, far], [far, None]], ["a"], 7)
    rows = drawn(matrix_chart(matrix, ["b", "gone", "a"], {"b": HOSTILE}))
    assert [(row["a"], row["b"], row["text"]) for row in rows] == [
        ("<b>a</b>\\x1b", "<b>a</b>\\x1b", "×"),
        ("<b>a</b>\\x1b", "a", "0.50"),
        ("a", "<b>a</b>\\x1b", "0.50"),
        ("a", "a", "0.00"),
    ]
    with pytest.raises(AuditError, match="nothing to draw"):
        matrix_chart(matrix, [])


def test_numbers_leave_a_matrix_that_is_too_large_for_them() -> None:
    names = [f"r{i}" for i in range(NUMBERS + 1)]
    zero = Estimate(0.0, 0.0, 0.0, 1)
    matrix = DistanceMatrix("d", "", names, [[zero] * len(names)] * len(names), names, 1)
    assert len(json.loads(matrix_chart(matrix, names).to_json())["layer"]) == 1

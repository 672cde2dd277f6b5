"""Verdicts on runs whose objective is known; a hundred seeds of each: python -m bench.length_calibration."""

from __future__ import annotations

import pytest

from bench.length_calibration import BIASED, UNBIASED, Count, judged


@pytest.mark.parametrize("name", ["grpo", "gspo"])
def test_a_mean_per_response_is_called_biased(tmp_path, name: str) -> None:
    assert name in BIASED
    for found in judged(name, range(2), tmp_path, steps=6):
        assert (found.biased, found.law) == (True, "1/length")
        assert found.pressure.correct.high < 0 < found.pressure.wrong.low
        assert found.remedy.pressure.correct.value == 0.0


@pytest.mark.parametrize("name", ["dr_grpo", "rloo", "dapo"])
def test_a_shared_divisor_is_not(tmp_path, name: str) -> None:
    assert name in UNBIASED
    for found in judged(name, range(2), tmp_path, steps=6):
        assert (found.biased, found.law, found.remedy) == (False, "none", None)


@pytest.mark.parametrize(("name", "biased"), [("grpo", True), ("dr_grpo", False)])
def test_ratios_that_are_not_1_leave_the_verdict_alone(tmp_path, name: str, biased: bool) -> None:
    counted = Count()
    for found in judged(name, range(1), tmp_path, steps=20, epoch=False):
        counted.add(found)
        assert found.slope.all.low < found.slope.all.high
        assert found.biased is biased
    assert (counted.runs, counted.cannot_tell) == (1, 0)

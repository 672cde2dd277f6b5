"""The numbers of the table of runs are those of the raw rows."""

from __future__ import annotations

import re
import shutil
from statistics import fmean

import pytest
from by_hand import SAMPLES, first_pass, in_bins, logged
from shown import opened

RUNS = ("testbed/grpo-seed0", "team/dapo-seed1")


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    root = tmp_path_factory.mktemp("logs")
    for run in RUNS:
        shutil.copytree(SAMPLES / run, root / run)
    with pytest.MonkeyPatch.context() as patch:
        return opened(patch, root, "runs").dataframe[0].value


def value_of(text: str) -> tuple[float, float]:
    """The number before an interval, and half of its last decimal."""
    said = re.match(r"[+-]?[\d,]+(\.\d+)?", text).group().replace(",", "")
    return float(said), 0.51 * 10 ** -len(said.partition(".")[2])


@pytest.mark.parametrize("run", RUNS)
def test_a_row_counts_and_averages_the_raw_rows(table, run) -> None:
    rows = logged(run)
    held = first_pass(rows)
    (line,) = table[table["run"] == run].to_dict("records")
    assert line["responses"] == len(rows)
    assert line["steps"] == len({row["step"] for row in rows})
    assert line["tokens"] == sum(len(row["token_ids"]) for row in rows)
    for column, of in (
        ("mean reward", lambda row: row["reward"]),
        ("mean length", lambda row: len(row["token_ids"])),
    ):
        value, rounding = value_of(line[column])
        assert value == pytest.approx(fmean(map(of, held)), abs=rounding)


@pytest.mark.parametrize("run", RUNS)
def test_curves_are_means_over_32_bins_of_steps(table, run) -> None:
    (line,) = table[table["run"] == run].to_dict("records")
    bins = in_bins(first_pass(logged(run)), 32)
    assert list(line["reward"]) == pytest.approx([fmean(row["reward"] for row in b) for b in bins])
    assert list(line["lengths"]) == pytest.approx([fmean(len(row["token_ids"]) for row in b) for b in bins])

"""Which rows a logged value speaks of."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from padded_losses import micro_loss
from synthetic import rollouts, standardised, with_advantages, write

from audit.analyses.infer_clip import Bound, roundest
from audit.analyses.infer_metrics import infer_metrics
from audit.analyses.logged_scalars import series
from audit.facts.rows import RunRows
from audit.logs.metrics import Metrics, read_metrics


def metrics(**columns) -> Metrics:
    count = len(columns["value"])
    held = {name: np.full(count, np.nan) for name in ("step", "update", "micro_batch")}
    held |= {name: np.array(values, dtype=float) for name, values in columns.items() if name != "name"}
    return Metrics(name=np.array([columns["name"]] * count, dtype=object), **held)


@pytest.fixture
def rows(tmp_path) -> RunRows:
    """Steps and updates 1 to 8, of which the rows of update 5 are missing."""
    made = rollouts(steps=4, groups=2, size=2)
    return RunRows.read(write(tmp_path / "a", [row for row in made if row["update"] != 5]))


def test_a_value_speaks_of_the_updates_since_the_one_before(rows: RunRows) -> None:
    found = series(rows, metrics(name="loss", step=[2, 4, 6, 8], value=[0.1234567, 2, 3, 4]), "loss")
    assert found is not None
    # Half of the third window is missing, so that its mean cannot be formed.
    assert found.value.tolist() == [0.1234567, 2, 4]
    window = {2 * number - back: at for at, number in enumerate((1, 2, 4)) for back in (0, 1)}
    assert found.window.tolist() == [window.get(update, -1) for update in rows.numpy("update")]


def test_the_last_value_of_a_step_counts_and_nothing_after_it(rows: RunRows) -> None:
    found = series(rows, metrics(name="loss", step=[1, 2, 2, 3], value=[1, 2, 7, 3]), "loss")
    assert found is not None
    assert found.value.tolist() == [1, 7, 3]
    assert set(found.window[rows.numpy("step") > 3].tolist()) == {-1}


@pytest.mark.parametrize(
    ("values", "rounding"),
    [([0.1234, -0.5, 2.25], 5e-5), ([0.125, 0.5], 5e-4), ([1 / 3, 0.5], 0.0), ([0.0, 0.0], 0.0)],
)
def test_rounded_values_are_recognised(rows: RunRows, values: list[float], rounding: float) -> None:
    found = series(rows, metrics(name="loss", step=range(1, len(values) + 1), value=values), "loss")
    assert found is not None
    assert found.rounding == pytest.approx(rounding)


def test_what_was_not_logged_is_none(rows: RunRows) -> None:
    assert series(rows, metrics(name="other", step=[1], value=[1]), "loss") is None
    assert series(rows, metrics(name="loss", step=[np.nan], value=[1]), "loss") is None
    assert series(rows, metrics(name="loss", step=[1], value=[np.inf]), "loss") is None
    assert series(rows, metrics(name="loss", step=[99], value=[1]), "loss") is None


def test_values_of_micro_batches_are_held_against_their_own_rows(tmp_path) -> None:
    made = with_advantages(rollouts(seed=3, steps=4), standardised(1, 1e-4))
    run = write(tmp_path / "a", made)
    table: dict[str, list] = {name: [] for name in ("step", "update", "micro_batch", "name", "value")}
    for update in range(1, 9):
        for part in (0, 1):
            own = [row for row in made if (row["update"], row["micro_batch"]) == (update, part)]
            items = sum(len(row["token_ids"]) for row in made if row["update"] == update)
            loss = micro_loss(own, items, 2, loss_type="bnpo")["loss"]
            for name, value in zip(table, (update, update, part, "loss", loss), strict=True):
                table[name].append(value)
    (run.path / "metrics").mkdir()
    pq.write_table(pa.table(table), run.path / "metrics" / "part-0.parquet")
    found = infer_metrics(RunRows.read(run), read_metrics(run), None)
    assert (found.status, found.n) == ("fits", 16)
    assert {fit.describe("aggregation") for fit in found.options("aggregation")} == {
        "token-mean per micro-batch"
    }
    assert {fit.describe("kl") for fit in found.options("kl")} == {"k3, beta 0.04"}


@given(st.floats(1e-9, 1e3), st.floats(1e-12, 10.0))
def test_the_roundest_number_lies_inside_and_is_no_longer_than_any(low: float, width: float) -> None:
    high = low + width
    made = roundest(low, high)
    assert low <= made <= high
    digits = len(f"{made:.12e}".partition("e")[0].replace(".", "").rstrip("0"))
    for fewer in range(1, min(digits, 6)):
        # No number with fewer digits next to the middle is inside.
        assert not low <= float(f"{(low + high) / 2:.{fewer}g}") <= high


def test_bounds() -> None:
    wide, narrow, open_ = Bound(0.1, 0.3), Bound(0.25, 0.29), Bound(0.2, None)
    assert wide.meets(narrow)
    assert narrow.meets(wide)
    assert not Bound(0.1, 0.15).meets(open_)
    assert open_.holds(None)
    assert not wide.holds(None)
    assert wide.nominal == 0.2
    assert narrow.nominal == 0.28
    assert Bound(0.0171, 0.0182).nominal == 0.018
    assert not Bound.at(None).holds(0.2)
    assert Bound.at(0.2).holds(0.2)

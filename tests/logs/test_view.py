"""The DuckDB view says what batches() says, whatever the files look like (D02-D11, D14, D24, D25)."""

import datetime

import numpy as np
import pyarrow as pa
import pytest
from log_samples import assert_same_rows, columns, stream_table, view_table, write

from audit.errors import BadLog
from audit.logs import open_run
from audit.logs.view import escape_glob, quote_name, quote_text

HALF = pa.list_(pa.float16())
LOGPS = [[-10.0, -0.5], [-0.25]]


def rewards(run):
    assert_same_rows(view_table(run), stream_table(run))
    return run.responses(["reward"])["reward"].to_pylist()


@pytest.mark.parametrize("first", ["int", "bool"])
def test_integer_first_file_does_not_round_the_later_ones(tmp_path, first):
    whole = {"int": pa.array([0, 1]), "bool": pa.array([False, True])}[first]
    write(tmp_path / "a.parquet", pa.table(columns(reward=whole)))
    write(tmp_path / "b.parquet", columns(rewards=(0.5, 1.5)))
    assert rewards(open_run(tmp_path)) == [0.0, 1.0, 0.5, 1.5]


def test_integer_first_log_probs_are_not_rounded(tmp_path):
    write(tmp_path / "a.parquet", columns(logp_old=[[0], [-1]]))
    write(tmp_path / "b.parquet", columns(logp_old=[[-0.5], [-1.5]]))
    run = open_run(tmp_path)
    assert stream_table(run)["logp_old"].to_pylist() == [[0.0], [-1.0], [-0.5], [-1.5]]
    assert_same_rows(view_table(run), stream_table(run))


@pytest.mark.parametrize("order", [("a", "b"), ("b", "a")])
@pytest.mark.parametrize("empty", [pa.nulls(2), pa.array([[], None], pa.list_(pa.null()))])
def test_a_file_where_nothing_was_logged_in_a_list_column(tmp_path, order, empty):
    write(tmp_path / f"{order[0]}.parquet", pa.table(columns(logp_old=empty)))
    write(tmp_path / f"{order[1]}.parquet", columns(logp_old=[[-0.5], []]))
    run = open_run(tmp_path)
    values = stream_table(run)["logp_old"].to_pylist()
    assert sorted(map(str, values)) == sorted(map(str, [*empty.to_pylist(), [-0.5], []]))
    assert_same_rows(view_table(run), stream_table(run))


def test_columns_and_types_that_change_between_files(tmp_path):
    write(tmp_path / "1.parquet", columns(prompt_id=[7, 8]))
    write(tmp_path / "2.parquet", columns(prompt_id=["7", "x"], correct=[True, False], advantage=[1.0, -1.0]))
    write(tmp_path / "3.parquet", columns(epoch=[1, None], reward=None))
    run = open_run(tmp_path)
    table = stream_table(run)
    assert table["prompt_id"].to_pylist() == ["7", "8", "7", "x", "p", "p"]
    assert table["correct"].to_pylist() == [None, None, True, False, None, None]
    assert table["epoch"].to_pylist() == [0, 0, 0, 0, 1, 0]
    assert table["reward"].to_pylist()[4:] == [None, None]
    assert_same_rows(view_table(run), table)


@pytest.mark.parametrize("encoding", ["PLAIN", "BYTE_STREAM_SPLIT"])
def test_half_precision_is_read_in_any_encoding(tmp_path, encoding):
    names = ["logp_old.list.element", "reward"]
    table = pa.table(columns(reward=pa.array([0.5, 1.0], pa.float16()), logp_old=pa.array(LOGPS, HALF)))
    write(tmp_path / "a.parquet", table, use_dictionary=False, column_encoding=dict.fromkeys(names, encoding))
    write(tmp_path / "b.parquet", columns(logp_old=LOGPS))
    run = open_run(tmp_path)
    assert rewards(run) == [0.5, 1.0, 0.0, 0.5]
    assert stream_table(run)["logp_old"].to_pylist() == LOGPS * 2


def test_list_and_string_types_of_equal_meaning(tmp_path):
    ids = pa.array(["p", "q"])
    for number, (kind, text) in enumerate(
        [
            (pa.list_(pa.float32()), ids),
            (pa.large_list(pa.float64()), ids.cast(pa.large_string())),
            (pa.list_(pa.float32(), 2), ids.dictionary_encode()),
        ]
    ):
        values = pa.array([[-0.5, -1.0], [-2.0, -3.0]], kind)
        write(tmp_path / f"{number}.parquet", pa.table(columns(logp_old=values, prompt_id=text)))
    run = open_run(tmp_path)
    table = stream_table(run)
    assert table["logp_old"].to_pylist() == [[-0.5, -1.0], [-2.0, -3.0]] * 3
    assert table["prompt_id"].to_pylist() == ["p", "q"] * 3
    assert_same_rows(view_table(run), table)


def test_null_list_and_empty_list_stay_apart(tmp_path):
    lists = pa.array([None, [], [-1.0]], pa.list_(pa.float32()))
    write(tmp_path / "a.parquet", pa.table(columns(rewards=(0, 1, 0), logp_old=lists)))
    run = open_run(tmp_path)
    assert stream_table(run)["logp_old"].to_pylist() == [None, [], [-1.0]]
    assert_same_rows(view_table(run), stream_table(run))
    with run.connect() as connection:
        query = "SELECT len(logp_old), logp_old IS NULL FROM rollouts ORDER BY _row"
        assert connection.execute(query).fetchall() == [(None, True), (0, False), (1, False)]


def test_brackets_and_quotes_in_the_path_mean_that_very_directory(tmp_path):
    write(tmp_path / "it's run[1]" / "a.parquet", columns(rewards=(0.25, 0.75)))
    write(tmp_path / "it's run1" / "a.parquet", columns(rewards=(8.0, 9.0)))
    run = open_run(tmp_path / "it's run[1]")
    assert rewards(run) == [0.25, 0.75]
    assert rewards(open_run(tmp_path / "it's run1")) == [8.0, 9.0]


@pytest.mark.parametrize(
    "name", ["it's; drop", 'a "b"', "a*b", "a?b", "{a,b}", "ü 日本", "~", "a%20b", "$HOME", "[", "[!a]"]
)
def test_any_directory_name(tmp_path, name):
    for decoy in ("a1b", "axb", "a", "b"):
        write(tmp_path / decoy / "a.parquet", columns(rewards=(8.0, 9.0)))
    write(tmp_path / name / "a.parquet", columns(rewards=(0.25, 0.75)))
    assert rewards(open_run(tmp_path / name)) == [0.25, 0.75]


def test_relative_path(tmp_path, monkeypatch):
    write(tmp_path / "run" / "a.parquet", columns(rewards=(0.25, 0.75)))
    monkeypatch.chdir(tmp_path)
    assert rewards(open_run("run")) == [0.25, 0.75]


def test_a_folder_that_looks_like_a_partition_changes_nothing(tmp_path):
    write(tmp_path / "rollouts" / "step=1" / "lr=1e-5" / "a.parquet", columns(step=99))
    run = open_run(tmp_path)
    assert run.responses(["step"])["step"].to_pylist() == [99, 99]
    assert_same_rows(view_table(run), stream_table(run))


def test_names_that_differ_in_case_only(tmp_path):
    write(tmp_path / "a.parquet", {**columns(rewards=(0.25, 0.75)), "Reward": [8.0, 9.0]})
    run = open_run(tmp_path)
    assert rewards(run) == [0.25, 0.75]
    assert run.parts[0].unknown == ("Reward",)


def test_columns_named_like_duckdb_names_its_own(tmp_path):
    own = {"filename": ["x", "y"], "file_index": [7, 7], "file_row_number": [5, 5]}
    write(tmp_path / "a.parquet", {**columns(rewards=(0.25, 0.75)), **own})
    write(tmp_path / "b.parquet", columns())
    run = open_run(tmp_path)
    with run.connect() as connection:
        found = connection.execute("SELECT _file, _row, reward FROM rollouts ORDER BY ALL").fetchall()
    assert found == [(0, 0, 0.25), (0, 1, 0.75), (1, 0, 0.0), (1, 1, 0.5)]


def test_place_of_each_row_over_files_of_several_kinds(tmp_path):
    write(tmp_path / "10.parquet", columns(step=10))
    write(tmp_path / "9.parquet", columns(step=9, logp_old=pa.array(LOGPS, HALF)))
    write(tmp_path / "2.parquet", columns(step=2, prompt_id=[1, 2]))
    write(tmp_path / "1.parquet", columns(step=1))
    run = open_run(tmp_path)
    with run.connect() as connection:
        found = connection.execute("SELECT _file, _row, step FROM rollouts ORDER BY _file, _row").fetchall()
    assert found == [(f, r, s) for f, s in enumerate((1, 2, 9, 10)) for r in (0, 1)]
    assert run.responses(["step"])["step"].to_pylist() == [1, 1, 2, 2, 9, 9, 10, 10]


@pytest.mark.parametrize("mask", [[[1, 0], [1]], [[1.0, 0.0], [1.0]]])
def test_masks_of_numbers(tmp_path, mask):
    write(tmp_path / "a.parquet", columns(loss_mask=mask))
    run = open_run(tmp_path)
    assert stream_table(run)["loss_mask"].to_pylist() == [[True, False], [True]]
    assert_same_rows(view_table(run), stream_table(run))


def test_a_mask_of_other_numbers_is_refused_by_both(tmp_path):
    write(tmp_path / "a.parquet", columns(loss_mask=[[2, 0], [1]]))
    run = open_run(tmp_path)
    with pytest.raises(BadLog, match="neither 0 nor 1"):
        stream_table(run)
    with pytest.raises(Exception, match="neither 0 nor 1"):
        view_table(run)


def test_doubles_out_of_float_range_become_infinite_in_both(tmp_path):
    write(tmp_path / "a.parquet", columns(logp_old=[[-1e300], [-0.5]]))
    run = open_run(tmp_path)
    assert stream_table(run)["logp_old"].to_pylist() == [[-np.inf], [-0.5]]
    assert_same_rows(view_table(run), stream_table(run))


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Berlin"])
def test_times_are_utc(tmp_path, unit, zone):
    per_second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    at = pa.array([1_700_000_000 * per_second, None], pa.timestamp(unit, zone))
    write(tmp_path / "a.parquet", pa.table(columns(created_at=at)))
    run = open_run(tmp_path)
    seen = run.responses(["created_at"])["created_at"].to_pylist()
    assert seen == [datetime.datetime(2023, 11, 14, 22, 13, 20, tzinfo=datetime.UTC), None]
    assert_same_rows(view_table(run), stream_table(run))
    with run.connect() as connection:
        text = connection.execute("SELECT created_at::VARCHAR FROM rollouts ORDER BY _row").fetchone()
    assert text == ("2023-11-14 22:13:20+00",)


@pytest.mark.parametrize(
    "components",
    [[{"a": 1, "b": None}, None], pa.array([[("a", 1)], None], pa.map_(pa.string(), pa.int64()))],
)
def test_reward_components(tmp_path, components):
    write(tmp_path / "a.parquet", pa.table(columns(reward_components=components)))
    run = open_run(tmp_path)
    assert stream_table(run)["reward_components"].to_pylist() == [[("a", 1.0)], None]
    assert_same_rows(view_table(run), stream_table(run))


def test_not_finite_rewards_are_kept_apart_from_null(tmp_path):
    write(tmp_path / "a.parquet", columns(rewards=(np.nan, np.inf, -np.inf, None, 0.5)))
    run = open_run(tmp_path)
    assert rewards(run)[1:] == [np.inf, -np.inf, None, 0.5]
    with run.connect() as connection:
        query = "SELECT count(*) FILTER (isnan(reward)), count(*) FILTER (reward IS NULL) FROM rollouts"
        assert connection.execute(query).fetchone() == (1, 1)


def test_types_of_the_view_do_not_depend_on_the_files(tmp_path):
    write(tmp_path / "a" / "a.parquet", columns(reward=[1, 0], logp_old=LOGPS))
    write(tmp_path / "b" / "b.parquet", columns(token_ids=[[1], [2]]))
    described = []
    for name in ("a", "b"):
        with open_run(tmp_path / name).connect() as connection:
            described.append(connection.execute("DESCRIBE rollouts").fetchall())
    assert described[0] == described[1]


def test_imported_rows_are_seen_through_the_same_view(tmp_path):
    from audit.logs import Manifest, Run

    table = pa.table(columns(rewards=(1, 0), logp_old=[[-1.0], []]))
    run = Run.from_table(tmp_path, "r", Manifest(run_id="r"), table, format="made")
    assert_same_rows(view_table(run), stream_table(run))
    with run.connect() as connection:
        twice = "SELECT sum(a.reward + b.reward) FROM rollouts a JOIN rollouts b USING (_row)"
        assert connection.execute(twice).fetchone() == (2.0,)


def test_columns_outside_the_schema_may_differ_between_files(tmp_path):
    write(tmp_path / "1.parquet", {**columns(), "own": [1, 2]})
    write(tmp_path / "2.parquet", {**columns(), "own": [[1], [2]]})
    write(tmp_path / "3.parquet", columns())
    run = open_run(tmp_path)
    assert_same_rows(view_table(run), stream_table(run))


def test_the_order_of_columns_may_differ_between_files(tmp_path):
    write(tmp_path / "1.parquet", columns(rewards=(0.25, 0.75)))
    write(tmp_path / "2.parquet", dict(reversed(columns(rewards=(1.25, 1.75)).items())))
    assert rewards(open_run(tmp_path)) == [0.25, 0.75, 1.25, 1.75]


def test_quoting():
    assert quote_text("it's") == "'it''s'"
    assert quote_name('a"b') == '"a""b"'
    assert escape_glob("/a[1]*?") == "/a[[]1][*][?]"

"""SQL of people: one query that reads this run; everything else is refused, and the log is never changed."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from synthetic import rollouts, write

from audit.errors import AuditError
from audit.importers import open_run
from audit.logs import Run
from audit.logs.locked_sql import columns_of, query
from audit.logs.sql_result import cell

ENDLESS = "select sum(hash(a.range * b.range)) from range(1000000) a, range(1000000) b"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    # A folder whose name is a pattern and holds a quote.
    return write(tmp_path_factory.mktemp("logs") / "it's [a-z]*", rollouts(steps=3, epochs=1))


@pytest.mark.parametrize(
    "sql",
    [
        "select count(*) from rollouts",
        "with x as (select 1 from rollouts) select count(*) from x",
        "from rollouts select count(*)",
        "select count(*) from rollouts;",
        "(select count(*) from rollouts) union select count(*) from rollouts -- twice",
    ],
)
def test_select_in_every_form_runs(run, sql) -> None:
    assert query(run, sql).rows == [[3 * 4 * 8]]


def test_the_table_function_repeat_runs(run) -> None:
    assert query(run, "select count(*) from repeat(1, 5)").rows == [[5]]


def test_numbers_are_those_of_the_rows(run) -> None:
    rows = run.responses(["step", "reward"]).to_pylist()
    wanted: dict[int, list[float]] = {}
    for row in rows:
        wanted.setdefault(row["step"], []).append(row["reward"])
    result = query(run, "select step, sum(reward), count(*) from rollouts group by step order by step")
    assert result.rows == [[step, sum(each), len(each)] for step, each in sorted(wanted.items())]
    assert [column.name for column in result.columns] == ["step", "sum(reward)", "count_star()"]


@pytest.mark.parametrize("sql", ["describe rollouts", "summarize rollouts", "from range(3)", "from metrics"])
def test_what_there_is_to_ask_can_be_asked(run, sql) -> None:
    assert query(run, sql).columns


ATTACKS = {
    "from read_csv('/etc/passwd')": "read_csv",
    "from read_text('{root}/secret.txt')": "read_text",
    "from read_parquet('{file}')": "read_parquet",
    "from '{root}/other.parquet'": "no other file",
    "from '{root}/secret.csv'": "no other file",
    "summarize '{root}/secret.csv'": "no other file",
    "from glob('{root}/*')": "glob",
    "from duckdb_secrets()": "duckdb_secrets",
    "copy (select 1) to '{root}/x.csv'": "not COPY",
    "copy rollouts to '{file}'": "not COPY",
    "with x as (copy (select 1 a) to '{file}' (use_tmp_file false)) select 1": "not COPY",
    "select (with x as (copy (select 1 a) to '{root}/x.csv') select 1)": "not COPY",
    "with x as (insert into rollouts select * from rollouts returning *) from x": "not INSERT",
    "with x as (delete from rollouts returning *) from x": "not DELETE",
    "from query('with x as (copy (select 1 a) to ''{file}'') select 1')": "query",
    "from system.main.query('select 1')": "query",
    "from json_execute_serialized_sql('x')": "json_execute_serialized_sql",
    "from arrow_scan(1, 2, 3)": "arrow_scan",
    "select * from enable_logging(storage='file', storage_path='{root}')": "enable_logging",
    "from import_database('{root}')": "import_database",
    "attach '{root}/x.db'": "not ATTACH",
    "install httpfs": "only SELECT",
    "load httpfs": "only SELECT",
    "pragma version": "not PRAGMA",
    "call pragma_version()": "not CALL",
    "set lock_configuration = false": "not SET",
    "create table t as select 1": "not CREATE",
    "drop view rollouts": "not DROP",
    "explain analyze select 1": "not EXPLAIN",
    "pivot rollouts on finish_reason using count(*)": "names its values",
    "select 1; select 2": "one statement",
    "select 1; copy (select 1) to '{root}/x.csv'": "one statement",
    "from 'https://localhost:1/x.parquet'": "no other file",
    "select getenv('HOME')": "getenv",
    "from run": "run",
    "select $1": "no parameters",
    "select repeat('a', 4000000000)": "repeat",
    "select length(prompt || Lpad('a', 2000000000, 'b')) from rollouts": "lpad",
    "selec 1": "syntax error",
    "select nope from rollouts": "nope",
    "": "no query",
    "-- nothing": "no query",
    "select " + "1+" * 900 + "1": "nested too deeply",
    "select '\udcff'": r"no UTF-8 text: character 9 is '\\udcff'",
    "select 1" + " " * 100_000: "at most 100,000",
}


@pytest.mark.parametrize("sql", ATTACKS)
def test_everything_else_is_refused_in_one_line_and_changes_nothing(run, sql) -> None:
    root = run.path.parent
    (root / "secret.csv").write_text("a,b\n1,2\n", encoding="utf-8")
    (root / "secret.txt").write_text("secret", encoding="utf-8")
    (root / "other.parquet").write_bytes(run.files[0].path.read_bytes())
    before = _state(root)
    text = sql.replace("{root}", _quoted(root)).replace("{file}", _quoted(run.files[0].path))
    with pytest.raises(AuditError, match=ATTACKS[sql]) as raised:
        query(run, text)
    assert "\n" not in str(raised.value)
    assert "secret" not in str(raised.value).replace("duckdb_secrets", "")
    assert _state(root) == before


def _quoted(path: Path) -> str:
    return str(path.absolute()).replace("'", "''")


def _state(root: Path) -> dict[str, str]:
    files = [path for path in sorted(root.rglob("*")) if path.is_file()]
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_a_python_variable_of_the_server_is_no_table(run) -> None:
    secret = run.responses(["step"])
    assert secret.num_rows
    with pytest.raises(AuditError, match="secret does not exist"):
        query(run, "from secret")


def test_rows_are_capped_and_the_cap_is_said(run) -> None:
    result = query(run, "select step from rollouts", rows=5)
    assert (result.n, len(result.rows), result.more) == (5, 5, True)
    assert not query(run, "select 1", rows=1).more
    assert query(run, "from range(100000000000)", rows=2).rows == [[0], [1]]


def test_integers_beyond_2_53_are_text_in_the_whole_column(run) -> None:
    result = query(run, "select * from (values (1, [1], 7), (9007199254740993, [18446744073709551615], 8))")
    assert result.rows == [["1", ["1"], 7], ["9007199254740993", ["18446744073709551615"], 8]]
    exact = query(run, "select 9007199254740992")
    assert exact.rows == [[9007199254740992]]


def test_values_are_plain() -> None:
    shown = [cell(value) for value in (None, True, 0.1, float("nan"), [1, "a"], {"k": None}, "x")]
    assert shown == ["", "true", "0.1", "nan", '[1,"a"]', '{"k":null}', "x"]


def test_a_long_query_is_stopped_by_its_timer(run) -> None:
    with pytest.raises(AuditError, match=r"stopped after 0\.3 seconds"):
        query(run, ENDLESS, seconds=0.3)


def test_the_columns_that_hold_values_are_listed(run) -> None:
    listed = [name for table, name, _ in columns_of(run) if table == "rollouts"]
    assert set(listed) == set(run.columns)
    assert ("metrics", "value", "double") in columns_of(run)


def test_an_imported_log_is_asked_like_any_other() -> None:
    folder = Path(__file__).parents[2] / "sample_logs" / "trl_completions"
    run = open_run(folder)
    assert query(run, "select count(*) from rollouts").rows == [[run.num_rows]]

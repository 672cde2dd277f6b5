"""``rlaudit sql``: table, CSV and JSON of one query; bad queries are one line and exit code 2."""

from __future__ import annotations

import csv
import io
import json

import jsonschema
import pytest
from synthetic import rollouts, write

from audit.report.schemas import schema_of


@pytest.fixture
def log(tmp_path):
    rows = rollouts(steps=2, epochs=1)
    for row in rows:
        row["response"] = '\x1b[2J, "quoted"\n'
    return write(tmp_path / "one", rows).path


def test_csv_is_whole(rlaudit, log) -> None:
    done = rlaudit("sql", log, "select step, response, 9007199254740993 as id from rollouts limit 2", "--csv")
    rows = list(csv.reader(io.StringIO(done.out)))
    assert rows == [["step", "response", "id"], *[["1", '\x1b[2J, "quoted"\n', "9007199254740993"]] * 2]


def test_json_follows_its_schema_and_says_that_there_is_more(rlaudit, log) -> None:
    done = rlaudit("sql", log, "select step, 'nan'::double as x from rollouts", "--json", "--rows", "3")
    told = json.loads(done.out)
    jsonschema.validate(told, schema_of("sql"))
    assert (told["n"], told["more"], told["rows"][0]) == (3, True, [1, None])
    assert "first 3 of more rows" in done.err


def test_the_table_shows_text_as_text(rlaudit, log) -> None:
    out = rlaudit("sql", log, "select response from rollouts limit 1").out
    assert "\x1b" not in out
    assert "\\x1b[2J" in out
    assert "1 row" in out


@pytest.mark.parametrize(
    "query", ["select 1; select 2", "copy (select 1) to 'x.csv'", "from '/etc/passwd.csv'"]
)
def test_a_refused_query_is_one_line_and_code_2(rlaudit, log, query) -> None:
    done = rlaudit("sql", log, query)
    assert done.code == 2
    assert done.err.count("\n") == 1


def test_one_form_of_output_at_a_time(rlaudit, log) -> None:
    assert "one of" in rlaudit("sql", log, "select 1", "--csv", "--json").err

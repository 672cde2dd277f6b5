"""Imports that are kept: whole or not at all, and read again only where the log changed."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from audit.errors import BadLog
from audit.importers import generic, open_run
from audit.importers.interface import Book, Options, Source, Unit
from audit.importers.into import import_into
from audit.importers.store import bring_up_to_date, in_numeric_order, read_report, waiting_bytes


def step_file(folder: Path, step: int, rows: int = 8) -> Path:
    folder.mkdir(exist_ok=True)
    file = folder / f"{step}.jsonl"
    lines = [json.dumps({"prompt": f"p{i // 4}", "output": "x" * 50, "reward": i % 2}) for i in range(rows)]
    file.write_text("\n".join(lines) + "\n")
    return file


def source(log: Path, **options: object) -> Source:
    return Source(log, Options(**options), generic.manifest(log))


def tables(place: Path) -> dict[str, object]:
    return {file.name: pq.read_table(file) for file in sorted((place / "rollouts").glob("*.parquet"))}


def test_only_what_changed_is_read_again(tmp_path, monkeypatch) -> None:
    log, place = tmp_path / "log", tmp_path / "made"
    for step in (1, 2, 10):
        step_file(log, step)
    read: list[str] = []
    inner = generic.rows
    from dataclasses import replace

    watched = replace(generic.IMPORTER, rows=lambda u, s, b: read.append(u.name) or inner(u, s, b))
    report = bring_up_to_date(watched, source(log), place)
    assert list(report.units) == ["1.jsonl", "2.jsonl", "10.jsonl"]
    assert (report.read, report.rows) == (24, 24)
    read.clear()
    assert waiting_bytes(watched, source(log), place) == 0
    assert bring_up_to_date(watched, source(log), place) == report
    assert read == []
    step_file(log, 2, 4)
    step_file(log, 11)
    (log / "1.jsonl").unlink()
    assert waiting_bytes(watched, source(log), place) > 0
    report = bring_up_to_date(watched, source(log), place)
    assert set(read) == {"2.jsonl", "11.jsonl"}
    assert list(report.units) == ["2.jsonl", "10.jsonl", "11.jsonl"]
    assert len(tables(place)) == 3
    bring_up_to_date(watched, source(log, group_size=2), place)
    assert set(read) == {"2.jsonl", "10.jsonl", "11.jsonl"}


def test_a_place_of_something_else_is_refused_and_left_alone(tmp_path) -> None:
    log, other = tmp_path / "log", tmp_path / "other"
    step_file(log, 1)
    other.mkdir()
    (other / "thesis.txt").write_text("mine")
    with pytest.raises(BadLog, match="holds no import"):
        bring_up_to_date(generic.IMPORTER, source(log), other)
    assert [f.name for f in other.iterdir()] == ["thesis.txt"]
    second = tmp_path / "second"
    step_file(second, 1)
    bring_up_to_date(generic.IMPORTER, source(log), tmp_path / "made")
    with pytest.raises(BadLog, match="holds the import of"):
        bring_up_to_date(generic.IMPORTER, source(second), tmp_path / "made")


def test_progress_adds_up_to_the_bytes_of_the_log(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("audit.importers.store.LUMP", 100)
    log = tmp_path / "log"
    files = [step_file(log, 1, 40), step_file(log, 2, 80)]
    total: list[int] = []
    told: list[tuple[str, int]] = []
    bring_up_to_date(
        generic.IMPORTER,
        source(log),
        tmp_path / "made",
        total.append,
        lambda unit, size: told.append((unit.name, size)),
    )
    sizes = [file.stat().st_size for file in files]
    assert total == [sum(sizes)]
    assert [sum(s for n, s in told if n == f.name) for f in files] == sizes
    assert len(told) > 20


def test_a_file_that_cannot_be_read_is_named_and_the_others_are_there(tmp_path) -> None:
    log = tmp_path / "log"
    step_file(log, 1)
    (log / "2.jsonl").write_text('{"other": 1}\n')
    run = open_run(log)
    assert run.num_rows == 8
    assert [(s.path.name, "prompt" in s.reason) for s in run.skipped] == [("2.jsonl", True)]


@pytest.mark.parametrize(
    "damage", [lambda content: content[:-9], lambda content: content.decode("latin-1").encode("utf-16")]
)
def test_damaged_parquet_of_a_format_with_files_of_its_own_is_named(tmp_path, damage) -> None:
    log = shutil.copytree(Path(__file__).parent / "fixtures" / "art" / ".art", tmp_path / "log")
    file = next(log.rglob("train/0001.parquet"))
    file.write_bytes(damage(file.read_bytes()))
    run = open_run(log / "sums" / "models" / "policy-001")
    assert run.num_rows > 0
    assert [s.path.name for s in run.skipped if "Parquet" in s.reason] == ["0001.parquet"]


def test_a_gzip_archive_with_wrong_bytes_inside_is_named(tmp_path) -> None:
    log = tmp_path / "log"
    step_file(log, 1)
    content = bytearray(gzip.compress((log / "1.jsonl").read_bytes()))
    content[12:20] = b"\xff" * 8
    (log / "2.jsonl.gz").write_bytes(content)
    run = open_run(log)
    assert run.num_rows == 8
    assert [s.path.name for s in run.skipped] == ["2.jsonl.gz"]


def test_a_table_in_utf_16_is_one_named_problem(tmp_path) -> None:
    file = tmp_path / "r.csv"
    file.write_bytes("step,prompt,response,reward\n1,a,b,1\n".encode("utf-16"))
    with pytest.raises(BadLog, match=r"r\.csv.*can be read") as raised:
        open_run(file)
    str(raised.value).encode()


def test_units_in_numeric_order() -> None:
    files = [Path(f"{n}.jsonl") for n in (10, 2, 1)]
    assert [f.name for f in in_numeric_order(files)] == ["1.jsonl", "2.jsonl", "10.jsonl"]


def test_names_of_units_never_leave_the_place(tmp_path) -> None:
    from audit.importers.store import _stem

    names = ["../../etc/passwd", "a/b", "a-b", "", ".", "x" * 500, "é\udcff", "a b"]
    stems = [_stem(name) for name in names]
    assert len(set(stems)) == len(names)
    assert all("/" not in s and len(s) < 100 and not s.startswith(".") for s in stems)


_SLOW = """
import sys, time
from audit.importers import generic
from audit.importers.into import import_into
from audit.importers.interface import Options
from dataclasses import replace
from pathlib import Path
inner = generic.rows
def rows(unit, source, book):
    for row in inner(unit, source, book):
        time.sleep(float(sys.argv[3]))
        yield row
import_into(Path(sys.argv[1]), Path(sys.argv[2]), replace(generic.IMPORTER, rows=rows), Options())
"""


@pytest.mark.parametrize("units", [1, 12])
def test_killed_in_the_middle_and_run_again_gives_the_same(tmp_path, units) -> None:
    log = tmp_path / "log"
    for step in range(units):
        step_file(log, step, 72 // units)
    whole = import_into(log, tmp_path / "whole", generic.IMPORTER, Options())
    dest = tmp_path / "killed"
    child = subprocess.Popen([sys.executable, "-c", _SLOW, log, dest, "0.02"])
    deadline = time.monotonic() + 60
    # Killed once rows are being written: a file is open, or some units are done.
    while not (_done(dest) if units > 1 else list((dest / "rollouts").glob(".*.tmp"))):
        assert child.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.01)
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    assert not (dest / "run.json").exists()
    done = _done(dest)
    times = {name: (dest / "rollouts" / name).stat().st_mtime_ns for name in done}
    again = import_into(log, dest, generic.IMPORTER, Options())
    assert {name: (dest / "rollouts" / name).stat().st_mtime_ns for name in done} == times
    assert replace_dest(again) == replace_dest(whole)
    assert tables(dest) == tables(tmp_path / "whole")
    assert (dest / "run.json").read_text() == (tmp_path / "whole" / "run.json").read_text()
    assert {f.name for f in dest.iterdir()} == {"import.json", "rollouts", "run.json"}
    assert not list((dest / "rollouts").glob(".*"))
    assert read_report(dest).units == read_report(tmp_path / "whole").units


def _done(dest: Path) -> set[str]:
    """Files of the units that the report names as done."""
    report = read_report(dest)
    return set() if report is None else {entry.file for entry in report.units.values()}


def replace_dest(done: object) -> object:
    import msgspec

    return msgspec.structs.replace(done, dest="")


def test_importing_twice_changes_nothing(tmp_path) -> None:
    log, dest = tmp_path / "log", tmp_path / "made"
    step_file(log, 1)
    first = import_into(log, dest, generic.IMPORTER, Options())
    before = {f: f.stat().st_mtime_ns for f in dest.rglob("*") if f.is_file()}
    assert import_into(log, dest, generic.IMPORTER, Options()) == first
    assert {f: f.stat().st_mtime_ns for f in dest.rglob("*") if f.is_file()} == before


def test_a_run_json_that_somebody_wrote_is_kept(tmp_path) -> None:
    log, dest = tmp_path / "log", tmp_path / "made"
    step_file(log, 1)
    import_into(log, dest, generic.IMPORTER, Options())
    (dest / "run.json").write_text('{"run_id": "mine", "objective": "grpo"}')
    again = import_into(log, dest, generic.IMPORTER, Options())
    assert any("it was kept" in note for note in again.notes)
    assert open_run(dest).run_id == "mine"


def test_logs_are_never_written_to(tmp_path) -> None:
    log = tmp_path / "log"
    step_file(log, 1)
    for dest in (log, log / "made", tmp_path):
        with pytest.raises(BadLog, match="logs are never changed"):
            import_into(log, dest, generic.IMPORTER, Options())
    assert [f.name for f in log.iterdir()] == ["1.jsonl"]
    assert not (tmp_path / "import.json").exists()


def test_a_unit_whose_file_is_gone_counts_as_empty(tmp_path) -> None:
    from audit.importers.store import prints_of

    assert prints_of(Unit("x", (tmp_path / "none",))) == ((str(tmp_path / "none"), 0, 0),)


def test_what_units_say_with_numbers_is_added_up(tmp_path) -> None:
    from dataclasses import replace

    def counted(unit: Unit, source: Source, book: Book):
        book.share("sequences were joined", 2, 3)
        yield from generic.rows(unit, source, book)

    log = tmp_path / "log"
    for step in (1, 2):
        step_file(log, step)
    place = tmp_path / "made"
    bring_up_to_date(replace(generic.IMPORTER, rows=counted, grouping="given"), source(log), place)
    report = read_report(place)
    assert report is not None
    assert report.notes()[0] == "4 of 6 sequences were joined"


def test_what_is_learned_of_the_run_later_makes_the_log_be_read_again(tmp_path) -> None:
    log = tmp_path / "log"
    step_file(log, 1)
    assert sizes(open_run(log)) == {4}
    (log / "run.json").write_text(json.dumps({"schema": "rlaudit.run.v1", "run_id": "a", "group_size": 2}))
    assert sizes(open_run(log)) == {2}


def sizes(run) -> set[int]:
    groups = run.responses(["group_id"])["group_id"].to_pylist()
    return {groups.count(each) for each in groups}


def test_a_log_is_one_log_by_whatever_path_it_is_named(tmp_path, monkeypatch) -> None:
    from audit.importers import open_run as open_foreign_run

    log = tmp_path / "log.jsonl"
    lines = [{"step": 1, "prompt": "p", "response": str(k), "reward": float(k % 2)} for k in range(4)]
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))
    (tmp_path / "link.jsonl").symlink_to(log)
    monkeypatch.chdir(tmp_path)
    homes = {open_foreign_run(path).home for path in (log, "log.jsonl", "./log.jsonl", "link.jsonl")}
    assert len(homes) == 1

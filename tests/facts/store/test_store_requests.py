"""What is computed, what is not computed again, and that the facts are right either way."""

from __future__ import annotations

import os
import shutil

import numpy as np
import pyarrow as pa
import pytest
from store_samples import NAMES, Engine, ask, make_run, replace_in_place, segments, write_file

from audit.facts.store import facts
from audit.facts.store import writer as writer_module
from audit.facts.store.fingerprint import Source, is_current
from audit.facts.store.inventory import prune
from audit.facts.store.shelf import find
from audit.logs import Manifest, Run, open_run


def test_a_second_request_computes_nothing(tmp_path) -> None:
    make_run(tmp_path, files=12)
    first, account = ask(tmp_path)
    assert first.files == [f"step-{n}.parquet" for n in range(12)]
    assert (account.files, account.computed, account.place) == (12, 12, tmp_path / ".rlaudit")
    second, account = ask(tmp_path)
    assert second.calls == []
    assert (account.files, account.computed, account.place) == (12, 0, tmp_path / ".rlaudit")


def test_only_missing_columns_are_computed(tmp_path) -> None:
    make_run(tmp_path)
    ask(tmp_path, NAMES[:2])
    engine, _ = ask(tmp_path, NAMES)
    assert {names for _, names in engine.calls} == {NAMES[2:]}
    assert ask(tmp_path, NAMES[3:1:-1])[0].calls == []


def test_a_name_twice_is_one_column(tmp_path) -> None:
    make_run(tmp_path)
    assert facts(open_run(tmp_path), ["a", "step", "a"], engine=Engine()).column_names == ["a", "step"]
    assert facts(open_run(tmp_path), [], engine=Engine()).column_names == []


def test_only_new_and_changed_files_are_computed(tmp_path) -> None:
    make_run(tmp_path, files=5)
    ask(tmp_path)
    write_file(tmp_path / "rollouts" / "step-5.parquet", 5)
    assert ask(tmp_path)[0].files == ["step-5.parquet"]
    write_file(tmp_path / "rollouts" / "step-2.parquet", 2, rows=7)
    (tmp_path / "rollouts" / "step-0.parquet").unlink()
    assert ask(tmp_path)[0].files == ["step-2.parquet"]


def test_a_file_replaced_under_its_size_and_time_is_noticed(tmp_path) -> None:
    make_run(tmp_path)
    ask(tmp_path)
    replace_in_place(tmp_path / "rollouts" / "step-2.parquet", step=2, seed=7)
    assert ask(tmp_path)[0].files == ["step-2.parquet"]


def test_files_that_need_different_columns_get_those(tmp_path) -> None:
    make_run(tmp_path, files=2)
    ask(tmp_path, ("a", "a.b"))
    write_file(tmp_path / "rollouts" / "step-2.parquet", 2)
    ask(tmp_path, ("a",))
    engine, _ = ask(tmp_path, ("a.b.c", "a", "a.b"))
    assert engine.calls == [
        ("step-0.parquet", ("a.b.c",)),
        ("step-1.parquet", ("a.b.c",)),
        ("step-2.parquet", ("a.b.c", "a.b")),
    ]


def test_rows_keep_the_order_of_the_run_whatever_order_files_are_done_in(tmp_path) -> None:
    make_run(tmp_path, files=11)
    ask(tmp_path, engine=Engine(backwards=True))
    assert ask(tmp_path)[0].calls == []


def test_a_run_that_is_moved_keeps_its_facts(tmp_path) -> None:
    make_run(tmp_path / "old")
    ask(tmp_path / "old")
    shutil.copytree(tmp_path / "old", tmp_path / "new")
    assert ask(tmp_path / "new")[0].calls == []


def test_length_in_tokens_or_not_is_another_fact(tmp_path) -> None:
    make_run(tmp_path)
    (tmp_path / "run.json").write_text('{"schema": "rlaudit.run.v1", "run_id": "r"}')
    ask(tmp_path)
    (tmp_path / "run.json").write_text(
        '{"schema": "rlaudit.run.v1", "run_id": "r", "length_unit": "characters"}'
    )
    assert len(ask(tmp_path)[0].calls) == 4
    assert len(segments(tmp_path)) == 1


def test_rows_in_memory_are_computed_and_not_stored(tmp_path) -> None:
    table = pa.table(
        {"step": [1], "prompt_id": ["p"], "group_id": ["g"], "sample_index": [0], "reward": [2.0]}
    )
    run = Run.from_table(tmp_path, "r", Manifest(run_id="r"), table, format="test")
    for _ in range(2):
        engine = Engine()
        assert facts(run, ["reward"], engine=engine)["reward"].to_pylist() == [2.0]
        assert len(engine.calls) == 1
    assert not list(tmp_path.iterdir())


def test_a_pipe_that_a_log_plants_is_not_opened(tmp_path) -> None:
    make_run(tmp_path)
    ask(tmp_path)
    planted = tmp_path / "rollouts" / "step-3.parquet"
    planted.unlink()
    os.mkfifo(planted)
    found = planted.stat()
    lying = Source("rollouts/step-3.parquet", found.st_size, found.st_mtime_ns, "", 4, True)
    assert not is_current(lying, tmp_path)


def test_an_interrupted_pass_goes_on_where_it_was(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(writer_module, "EVERY", 0.0)
    make_run(tmp_path, files=6)
    with pytest.raises(KeyboardInterrupt):
        ask(tmp_path, engine=Engine(fail_at=4))
    assert ask(tmp_path)[0].files == ["step-4.parquet", "step-5.parquet"]


def test_a_run_opened_before_a_file_came_does_not_take_its_facts_away(tmp_path) -> None:
    make_run(tmp_path, files=2)
    early = open_run(tmp_path)
    write_file(tmp_path / "rollouts" / "step-2.parquet", 2)
    ask(tmp_path)
    facts(early, ["a", "reward"], engine=Engine())
    facts(early, NAMES, engine=Engine())
    assert ask(tmp_path)[0].calls == []


def test_a_file_replaced_while_it_is_computed_is_not_stored_as_the_other(tmp_path) -> None:
    make_run(tmp_path, files=2)
    target = tmp_path / "rollouts" / "step-1.parquet"

    class Replacing(Engine):
        def __call__(self, parts, names, **options):
            for done in super().__call__(parts, names, **options):
                replace_in_place(target, step=1, rows=4, seed=9)
                yield done

    facts(open_run(tmp_path), ["reward"], engine=Replacing())
    assert ask(tmp_path, ("reward",))[0].files == ["step-1.parquet"]


def test_cache_off_stores_nothing(tmp_path, monkeypatch, user_cache) -> None:
    monkeypatch.setenv("RLAUDIT_CACHE", "off")
    make_run(tmp_path)
    _, account = ask(tmp_path)
    assert (account.place, account.not_stored) == (None, "RLAUDIT_CACHE is off")
    assert len(ask(tmp_path)[0].calls) == 4
    assert not (tmp_path / ".rlaudit").exists()
    assert not list(user_cache.iterdir())


@pytest.mark.parametrize("obstacle", ["file", "link", "read-only"])
def test_a_run_that_takes_no_folder_is_stored_in_the_user_s_cache(
    tmp_path, obstacle, user_cache, monkeypatch
) -> None:
    make_run(tmp_path / "run")
    (tmp_path / "elsewhere").mkdir()
    if obstacle == "file":
        (tmp_path / "run" / ".rlaudit").write_text("in the way")
    elif obstacle == "link":
        # A log from somebody else must not choose where this program writes.
        (tmp_path / "run" / ".rlaudit").symlink_to(tmp_path / "elsewhere")
    else:
        # The superuser, as whom tests may run, is refused by no mode.
        monkeypatch.setattr(os, "access", lambda path, mode: not str(path).startswith(str(tmp_path)))
    _, account = ask(tmp_path / "run")
    assert account.place is not None
    assert account.place.is_relative_to(user_cache)
    assert ask(tmp_path / "run")[0].calls == []
    assert not list((tmp_path / "elsewhere").iterdir())


def test_a_linked_facts_folder_in_a_log_is_left_alone(tmp_path, caplog) -> None:
    make_run(tmp_path / "run")
    (tmp_path / "elsewhere").mkdir()
    for name in ("a.tmp", "b.facts", "c.txt"):
        (tmp_path / "elsewhere" / name).write_text("of somebody else")
    (tmp_path / "run" / ".rlaudit").mkdir()
    (tmp_path / "run" / ".rlaudit" / "facts").symlink_to(tmp_path / "elsewhere")
    _, account = ask(tmp_path / "run")
    assert account.place is None
    assert "is a link" in caplog.text
    prune(tmp_path / "run", print)
    assert sorted(path.name for path in (tmp_path / "elsewhere").iterdir()) == ["a.tmp", "b.facts", "c.txt"]


def test_a_pipe_among_the_segments_is_not_opened(tmp_path) -> None:
    make_run(tmp_path)
    folder = tmp_path / ".rlaudit" / "facts"
    folder.mkdir(parents=True)
    os.mkfifo(folder / "x.facts")
    assert find(folder).unusable == (folder / "x.facts",)
    _, account = ask(tmp_path)
    assert account.place == tmp_path / ".rlaudit"


def test_where_nothing_can_be_stored_the_facts_come_with_one_warning(
    tmp_path, user_cache, monkeypatch, caplog
) -> None:
    monkeypatch.setenv("RLAUDIT_CACHE", "user")
    (user_cache / "runs").write_text("in the way")
    make_run(tmp_path)
    _, account = ask(tmp_path)
    assert account.place is None
    assert len(caplog.messages) == 1
    assert "are not stored" in caplog.messages[0]


def test_a_full_disk_costs_the_store_and_not_the_facts(tmp_path, monkeypatch, caplog) -> None:
    from audit.facts.store import segment

    def full(*_):
        raise OSError(28, os.strerror(28))

    make_run(tmp_path)
    monkeypatch.setattr(segment, "sync", full)
    _, account = ask(tmp_path)
    assert account.place is None
    assert "No space left on device" in account.not_stored
    assert len(caplog.messages) == 1
    assert not segments(tmp_path)
    monkeypatch.undo()
    assert len(ask(tmp_path)[0].calls) == 4


def test_no_room_to_put_segments_in_order_loses_nothing(tmp_path, monkeypatch, caplog) -> None:
    from audit.facts.store import shelf

    def full(*_):
        raise OSError(28, os.strerror(28))

    make_run(tmp_path)
    ask(tmp_path, NAMES[:3])
    monkeypatch.setattr(shelf, "write_segment", full)
    _, account = ask(tmp_path, in_order=True)
    assert account.place == tmp_path / ".rlaudit"
    assert not caplog.messages
    assert len(segments(tmp_path)) == 2
    assert ask(tmp_path)[0].calls == []


def test_the_readers_and_the_check_do_not_see_the_store(tmp_path) -> None:
    from audit.analyses.check import check

    make_run(tmp_path)
    before = check(open_run(tmp_path))
    ask(tmp_path)
    assert segments(tmp_path)
    after = open_run(tmp_path)
    assert len(after.files) == 4
    assert not after.skipped
    assert check(after) == before
    assert not np.any([path.suffix == ".parquet" for path in (tmp_path / ".rlaudit").rglob("*")])

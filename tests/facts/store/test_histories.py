"""Every way to the same facts ends with the same bytes, and every order of events with the right facts."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from store_samples import NAMES, Engine, ask, make_run, replace_in_place, segments, write_file

from audit.facts.store import shelf
from audit.facts.store import writer as writer_module

FILES = 8


@pytest.fixture
def one_pass(tmp_path):
    """A run and the bytes of its store after one undisturbed pass."""
    root = make_run(tmp_path / "run", files=FILES)
    ask(root, in_order=True)
    stored = segments(root)
    shutil.rmtree(root / ".rlaudit")
    return root, stored


def test_file_by_file(one_pass, tmp_path) -> None:
    root, stored = one_pass
    files = sorted((root / "rollouts").iterdir())
    away = tmp_path / "away"
    away.mkdir()
    for path in files:
        path.rename(away / path.name)
    for path in files:
        (away / path.name).rename(path)
        ask(root)
    ask(root, in_order=True)
    assert segments(root) == stored


def test_column_by_column(one_pass) -> None:
    root, stored = one_pass
    for name in reversed(NAMES):
        ask(root, [name])
    ask(root, in_order=True)
    assert segments(root) == stored


@pytest.mark.parametrize("stops", [(1,), (4, 3), (2, 2, 2)])
def test_interrupted_and_resumed(one_pass, monkeypatch, stops) -> None:
    root, stored = one_pass
    monkeypatch.setattr(writer_module, "EVERY", 0.0)
    for stop in stops:
        with pytest.raises(KeyboardInterrupt):
            ask(root, engine=Engine(fail_at=stop))
    ask(root, in_order=True)
    assert segments(root) == stored


def test_another_order_of_completion(one_pass) -> None:
    root, stored = one_pass
    ask(root, engine=Engine(backwards=True), in_order=True)
    assert segments(root) == stored


def test_files_that_came_and_went_leave_nothing(one_pass) -> None:
    root, stored = one_pass
    extra = write_file(root / "rollouts" / "step-99.parquet", 99)
    ask(root)
    extra.unlink()
    ask(root, in_order=True)
    assert segments(root) == stored


@pytest.mark.parametrize("rows", [1, 10, 1000])
def test_segments_are_bounded_and_cut_at_files(one_pass, monkeypatch, rows) -> None:
    root, _ = one_pass
    monkeypatch.setattr(shelf, "MOST_ROWS", rows)
    ask(root, in_order=True)
    stored = segments(root)
    assert len(stored) == {1: FILES, 10: 4, 1000: 1}[rows]
    shutil.rmtree(root / ".rlaudit")
    for name in NAMES[::2]:
        ask(root, [name], Engine(backwards=True))
    ask(root, in_order=True)
    assert segments(root) == stored


def test_many_small_segments_are_put_in_order_also_where_it_takes_time(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(shelf, "_LITTLE", 0)
    root = make_run(tmp_path, files=0)
    counts = []
    for step in range(20):
        write_file(root / "rollouts" / f"step-{step}.parquet", step)
        engine, _ = ask(root)
        assert engine.files == [f"step-{step}.parquet"]
        counts.append(len(segments(root)))
    assert max(counts) <= shelf._MANY + 1
    assert min(counts[9:]) == 1


class Store(RuleBasedStateMachine):
    """A log that changes under requests: facts are right, and nothing unchanged is computed twice."""

    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp())
        self.known: dict[int, set[str]] = {}
        self.seed = 0

    def path(self, step: int) -> Path:
        return self.root / "rollouts" / f"step-{step}.parquet"

    @initialize()
    def first_file(self) -> None:
        self.add(0, 2)

    @rule(step=st.integers(0, 12), rows=st.integers(0, 4))
    def add(self, step: int, rows: int) -> None:
        self.seed += 1
        self.path(step).unlink(missing_ok=True)
        write_file(self.path(step), step, rows, seed=self.seed)
        self.known[step] = set()

    @rule(data=st.data())
    def replace(self, data) -> None:
        step = data.draw(st.sampled_from(sorted(self.known)))
        self.seed += 1
        before = self.path(step).stat().st_size
        rows = next(n for n in range(5) if self._size(step, n) == before)
        replace_in_place(self.path(step), step=step, rows=rows, seed=self.seed)
        if rows:
            self.known[step] = set()

    def _size(self, step: int, rows: int) -> int:
        return write_file(self.root / "scratch" / "x", step, rows, seed=self.seed).stat().st_size

    @rule(data=st.data())
    def take_away(self, data) -> None:
        if len(self.known) > 1:
            step = data.draw(st.sampled_from(sorted(self.known)))
            self.path(step).unlink()
            del self.known[step]

    @rule(data=st.data())
    def damage(self, data) -> None:
        stored = sorted((self.root / ".rlaudit").rglob("*.facts"))
        if stored:
            data.draw(st.sampled_from(stored)).write_bytes(b"PAR1")
            # What was in it is computed again; what is in others need not be known here.
            self.known = {step: set(NAMES) for step in self.known}
            self._request(NAMES, exact=False)

    @rule(names=st.lists(st.sampled_from(NAMES), min_size=1, unique=True), in_order=st.booleans())
    def request(self, names: list[str], in_order: bool) -> None:
        self._request(names, in_order=in_order)

    def _request(self, names, *, exact: bool = True, **options) -> None:
        engine, _ = ask(self.root, names, **options)
        if exact:
            wanted = {f"step-{step}.parquet": set(names) - have for step, have in self.known.items()}
            assert {file: set(columns) for file, columns in engine.calls} == {
                file: need for file, need in wanted.items() if need
            }
        for have in self.known.values():
            have.update(names)

    @invariant()
    def nothing_unfinished_is_left(self) -> None:
        assert not list(self.root.glob(".rlaudit/**/*.tmp"))

    def teardown(self) -> None:
        shutil.rmtree(self.root)


TestStore = Store.TestCase
TestStore.settings = settings(max_examples=8, stateful_step_count=15)

"""Facts of a run: what the store has, and the rest from one pass over the files that need it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from audit.errors import BadLog
from audit.facts.store.bound import cache_limit, enforce_limit, note_use
from audit.facts.store.fingerprint import Source, counts_tokens, is_current, source_of, sources_of
from audit.facts.store.lock import exclusive
from audit.facts.store.plan import Plan, carry_out, make_plan
from audit.facts.store.segment import Damaged, Holding
from audit.facts.store.shelf import FOLDER, find, is_out_of_order, remove, tidy
from audit.facts.store.watcher import Watcher
from audit.facts.store.writer import Pass
from audit.logs.cache_place import cache_place, claim, is_address
from audit.logs.parts import Part
from audit.logs.run import Run

_FEW = 20
"""New files are few where they are less than one in so many."""


class Engine(Protocol):
    """Maps parts to their facts: ``audit.facts.engines.local.compute`` and its like."""

    def __call__(
        self,
        parts: Sequence[Part],
        names: Sequence[str],
        *,
        device: str,
        progress: Callable[[int, int], None] | None,
    ) -> Iterator[tuple[int, pa.Table]]:
        """Yield (place in ``parts``, its facts with columns ``names``) in order of completion."""
        ...


@dataclass
class Account:
    """What a request came to."""

    files: int
    """Parts of the run."""
    computed: int = 0
    """Parts for which something was computed."""
    seconds: float = 0.0
    """Of the whole request."""
    place: Path | None = None
    """Where the facts are stored; None: nowhere."""
    not_stored: str = ""
    """Why they are not."""


def facts(
    run: Run,
    names: Sequence[str],
    *,
    engine: Engine | None = None,
    device: str = "auto",
    progress: Callable[[int, int], None] | None = None,
) -> pa.Table:
    """Return facts of every response of a run; only what is not stored yet is computed.

    Another process that computes facts of the same run is waited for. Where nothing can be stored, that is
    said by a warning of the logger ``audit.facts``, and the facts are returned all the same.

    Parameters
    ----------
    names : sequence of str
        Names of facts.
    engine : callable, optional
        What computes them; default: this machine (:func:`audit.facts.engines.local.compute`, told whether
        ``length`` counts tokens).
    device : str
        ``auto``, ``cpu`` or ``cuda``.
    progress : callable, optional
        Called with the rows and tokens just done, from any thread, while the engine works.

    Returns
    -------
    pyarrow.Table, shape (run.num_rows, len(names))
        float64 or int64 columns ``names``; rows in the order of :meth:`audit.logs.Run.batches`.

    Raises
    ------
    AuditError
        What the engine raises: a name that is no fact, a damaged file, a file that changed meanwhile.
    """
    return request(run, names, engine=engine, device=device, progress=progress)[0]


def request(
    run: Run,
    names: Sequence[str],
    *,
    engine: Engine | None = None,
    device: str = "auto",
    progress: Callable[[int, int], None] | None = None,
    watcher: Watcher | None = None,
    in_order: bool = False,
    read: bool = True,
) -> tuple[pa.Table, Account]:
    """Return :func:`facts`, and an account of what was done for them.

    Parameters
    ----------
    watcher : Watcher, optional
        Told about files, waiting and storing.
    in_order : bool
        Leave the stored segments in their final order, also where that means to write many bytes again;
        what a few new files add to a long run is left for the next request that adds nothing.
    read : bool
        Whether the facts are wanted now; else they are only stored, and the table is empty.
    """
    start = time.monotonic()
    names = tuple(dict.fromkeys(names))
    sources = sources_of(run)
    account = Account(len(sources))
    job = _Job(run, names, sources, cache_place(run.place), watcher or Watcher(), account, read)
    if job.place is not None:
        # A setting that cannot be read is refused before any work.
        cache_limit()
    table = job.stored()
    if table is None:
        table = job.work(engine or _local_engine(run), device, progress, in_order)
    elif in_order:
        job.put_in_order()
    account.seconds = time.monotonic() - start
    return table, account


def stored(run: Run, names: Sequence[str]) -> pa.Table | None:
    """Return :func:`facts` where all of them are stored, else None; nothing is computed."""
    names, sources = tuple(dict.fromkeys(names)), sources_of(run)
    return _Job(run, names, sources, cache_place(run.place), Watcher(), Account(len(sources))).stored()


def _local_engine(run: Run) -> Engine:
    # Only a pass over tokens needs what this imports.
    from audit.facts.engines.local import compute

    return partial(compute, in_tokens=counts_tokens(run))


@dataclass
class _Job:
    run: Run
    names: tuple[str, ...]
    sources: list[Source]
    place: Path | None
    watcher: Watcher
    account: Account
    read: bool = True
    seen: tuple[Holding, ...] = ()
    """Segments as they were found last."""

    @property
    def folder(self) -> Path | None:
        return None if self.place is None else self.place / FOLDER

    def stored(self) -> pa.Table | None:
        """Return the facts if all of them are stored, without any lock: segments are only ever replaced."""
        if self.folder is None:
            return None
        try:
            plan = self._plan(self._find())
            table = None if plan.missing else self._take(plan)
        except Damaged:
            return None
        if table is not None:
            self.account.place = self.place
            note_use(self.folder.parent)
        return table

    def work(
        self,
        engine: Engine,
        device: str,
        progress: Callable[[int, int], None] | None,
        in_order: bool,
    ) -> pa.Table:
        """Compute what is not stored, store it, and return the facts."""
        with self._storing() as folder:
            made = Pass(folder, hold=self.read)
            damaged: set[Path | None] = set()
            table = None
            while table is None:
                held = [one for one in self._find() if one.path not in damaged]
                plan = self._plan([*made.holdings, *held])
                if plan.missing:
                    try:
                        self._compute(plan, made, engine, device, progress)
                    finally:
                        made.save()
                try:
                    table = self._take(self._plan([*made.holdings, *held]))
                except Damaged as error:
                    damaged.add(error.holding.path)
                    if folder is not None:
                        remove([error.holding.path])
            if folder is not None:
                much = self.account.computed * _FEW >= len(self.sources)
                self._settle(folder, made, in_order and much)
        return table

    def put_in_order(self) -> None:
        """Put the segments in order where they are not."""
        if self.folder is None or not is_out_of_order(find(self.folder), self._is_alive):
            return
        with self._storing() as folder:
            if folder is not None:
                self._settle(folder, Pass(folder), in_order=True)

    def _take(self, plan: Plan) -> pa.Table:
        return carry_out(plan) if self.read else pa.table({})

    def _find(self) -> tuple[Holding, ...]:
        if self.folder is not None:
            self.seen = find(self.folder, self.seen).segments
        return self.seen

    def _plan(self, holdings: Sequence[Holding]) -> Plan:
        return make_plan(self.sources, self.names, holdings)

    def _compute(
        self,
        plan: Plan,
        made: Pass,
        engine: Engine,
        device: str,
        progress: Callable[[int, int], None] | None,
    ) -> None:
        self.account.computed = max(self.account.computed, len(plan.missing))
        self.watcher.start(len(plan.missing), len(self.sources) - len(plan.missing))
        alike: dict[frozenset[str], list[int]] = {}
        for place, columns in plan.missing.items():
            alike.setdefault(columns, []).append(place)
        for columns, places in alike.items():
            names = [name for name in self.names if name in columns]
            parts = [self.run.parts[place] for place in places]
            for index, table in engine(parts, names, device=device, progress=progress):
                source, part = self.sources[places[index]], parts[index]
                if table.num_rows != source.rows:
                    msg = f"{part.name}: the file was changed after the run was opened; open the run again."
                    raise BadLog(msg)
                # Kept under the version that was read: a file replaced meanwhile is another one.
                now = source_of(part, places[index], in_tokens=source.in_tokens)
                keep = bool(source.footer) and now == source
                made.add(source, table.select(names), keep=keep)
                self.watcher.file_done()

    @contextmanager
    def _storing(self) -> Iterator[Path | None]:
        """Hold the lock, and yield the folder to write to; None where nothing can be stored."""
        place, folder = self.place, self.folder
        if place is None or folder is None:
            self.account.not_stored = "RLAUDIT_CACHE is off"
            yield None
            return
        if not any(source.footer for source in self.sources):
            # As asked for, or as with every log of that format: nothing to warn of.
            self.account.not_stored = "an importer made the rows in memory"
            yield None
            return
        try:
            claim(place, self.run.place)
            folder.mkdir(exist_ok=True)
        except OSError as error:
            self._say(f"it cannot be written to ({error.strerror or error})")
            yield None
            return
        if folder.is_symlink():
            self._say(f"its folder {folder.name!r} is a link, which could lead anywhere")
            yield None
            return
        with exclusive(place, lambda: self.watcher.waiting(self._waiting())) as why_not:
            if why_not:
                self._say(why_not)
            yield None if why_not else folder

    def _settle(self, folder: Path, made: Pass, in_order: bool) -> None:
        why_not = made.why_not
        if not why_not:
            # The facts are stored: where there is no room to put them in order, they stay as they are.
            with suppress(OSError, pa.ArrowException):
                tidy(folder, self._is_alive, fully=in_order, known=(*self.seen, *made.holdings))
        if not enforce_limit(folder.parent):
            why_not = "it is larger than RLAUDIT_CACHE_LIMIT"
        if why_not:
            self._say(why_not)
        else:
            self.account.place = self.place

    @cached_property
    def _current(self) -> frozenset[Source]:
        return frozenset(self.sources)

    def _is_alive(self, source: Source) -> bool:
        # A run that was opened before a file came does not take that file's facts away.
        root = self.run.place
        if source in self._current:
            return True
        same_unit = source.in_tokens == counts_tokens(self.run)
        return same_unit and not is_address(root) and is_current(source, root)

    def _say(self, why_not: str) -> None:
        self.account.not_stored = why_not
        self.watcher.not_stored(
            f"facts of {str(self.run.path)!r} are not stored in {str(self.place)!r}: {why_not}."
        )

    def _waiting(self) -> str:
        return f"waiting for another process that computes facts of {str(self.run.path)!r}"

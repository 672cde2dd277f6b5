"""What a pass over tokens has computed so far: kept in memory, and saved now and then."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from audit.facts.store.fingerprint import Source
from audit.facts.store.segment import MOST_ROWS, Header, Holding, header_of, write_segment

EVERY = 10.0
"""Seconds of work that a process that is killed may lose, or a twentieth of what it has done."""


class Pass:
    """Facts that were computed now.

    Parameters
    ----------
    folder : Path or None
        Where to save them; None: nowhere.
    hold : bool
        Keep in memory what was saved: it is asked for at once.
    """

    def __init__(self, folder: Path | None, *, hold: bool = True) -> None:
        self.holdings: list[Holding] = []
        """Everything that was computed."""
        self.why_not = ""
        """Why some of it was not saved."""
        self._folder = folder
        self._hold = hold
        self._waiting: dict[tuple[str, ...], list[tuple[Source, pa.Table]]] = {}
        self._start = self._last = time.monotonic()

    def add(self, source: Source, table: pa.Table, *, keep: bool) -> None:
        """Take the facts of one source; with ``keep`` they are saved in time."""
        if not keep or self._folder is None:
            self.holdings.append(Holding(header_of(table.column_names, [source]), table=table))
            return
        waiting = self._waiting.setdefault(tuple(table.column_names), [])
        if waiting and sum(other.rows for other, _ in waiting) + source.rows > MOST_ROWS:
            # Sources that come in order are saved in the segments that they belong in, and stay there.
            self.save()
            waiting = self._waiting.setdefault(tuple(table.column_names), [])
        waiting.append((source, table))
        now = time.monotonic()
        if now - self._last > max(EVERY, (now - self._start) / 20):
            self.save()

    def save(self) -> None:
        """Save what was not saved yet. A full disk is no reason to lose the facts: they stay in memory."""
        waiting, self._waiting = self._waiting, {}
        for columns, pairs in waiting.items():
            header = header_of(columns, (source for source, _ in pairs))
            table = pa.concat_tables((table for _, table in pairs), promote_options="permissive")
            self.holdings.append(self._write(header, table) or Holding(header, table=table))
        self._last = time.monotonic()

    def _write(self, header: Header, table: pa.Table) -> Holding | None:
        if self._folder is None:
            return None
        try:
            made = write_segment(self._folder, header, table)
            return made if self._hold else replace(made, table=None)
        except (OSError, pa.ArrowException) as error:
            self.why_not = f"it cannot be written to ({getattr(error, 'strerror', None) or error})"
            self._folder = None
            return None

"""How far an import is: a bar on a terminal once it takes longer than a moment, and nothing elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from audit.cli.progress import to_stderr

MOMENT = 1.0
"""Seconds before the bar appears."""


@contextmanager
def watching_imports() -> Iterator[None]:
    """Show on stderr how far imports are that the body sets off, on a terminal only."""
    if not sys.stderr.isatty():
        yield
        return
    from audit.importers.opening import WATCHER, Watcher

    bar = _Bar()
    token = WATCHER.set(Watcher(bar.begin, bar.advance))
    try:
        yield
    finally:
        WATCHER.reset(token)
        bar.end()


class _Bar:
    """Of one import after the other; rich is imported when there is something to show."""

    def __init__(self) -> None:
        self._total = self._done = 0
        self._began = 0.0
        self._bars: Any = None
        self._task: Any = None

    def begin(self, size: int) -> None:
        """Begin with an import of so many bytes."""
        self.end()
        self._total, self._done, self._began = size, 0, time.monotonic()

    def advance(self, unit: Any, size: int) -> None:
        """Count bytes."""
        self._done += size
        if self._done >= self._total:
            self.end()
        elif self._bars is not None:
            self._bars.update(self._task, completed=self._done, description=_shown(unit.name))
        elif time.monotonic() - self._began > MOMENT:
            self._show(unit.name)

    def end(self) -> None:
        """Take the bar away."""
        if self._bars is not None:
            self._bars.stop()
        self._bars = None

    def _show(self, name: str) -> None:
        from rich.errors import LiveError
        from rich.progress import (
            BarColumn,
            DownloadColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
            TransferSpeedColumn,
        )

        columns = (
            TextColumn("importing {task.description}", markup=False),
            BarColumn(),
            DownloadColumn(),
            TransferSpeedColumn(),
            TimeRemainingColumn(),
        )
        bars = Progress(*columns, console=to_stderr(), transient=True)
        self._task = bars.add_task(_shown(name), total=self._total, completed=self._done)
        try:
            bars.start()
        except LiveError:
            return
        self._bars = bars


def _shown(name: str) -> str:
    from audit.report.format import visible

    return visible(name)[-40:]

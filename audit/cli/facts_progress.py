"""How far a pass over tokens is: a bar on a terminal, and nothing where nobody looks."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer

from audit.facts.store.watcher import Watcher

if TYPE_CHECKING:
    from rich.progress import Progress as Bars

_BETWEEN = 0.1
"""Seconds between two looks at the bar, so that showing progress costs none."""


class Progress(Watcher):
    """Counts what a pass has read, and shows it; ``bars`` is None where nobody looks."""

    def __init__(self, bars: Bars | None) -> None:
        self.tokens = 0
        """Read for the current run."""
        self._bars = bars
        self._task: Any = None
        self._name = ""
        self._done = 0
        self._start = self._shown = time.monotonic()
        self._lock = threading.Lock()

    def open(self, name: str) -> None:
        """Begin with another run."""
        from audit.report.format import visible

        self.tokens, self._done, self._name = 0, 0, visible(name)
        self._start = time.monotonic()
        if self._bars is not None:
            if self._task is not None:
                self._bars.remove_task(self._task)
            self._task = self._bars.add_task(self._name, total=None, speed="")

    def start(self, files: int, reused: int) -> None:
        """Show the number of files to go."""
        self._start = time.monotonic()
        if self._bars is not None:
            self._bars.update(self._task, total=files + reused, completed=reused, description=self._name)

    def advance(self, rows: int, tokens: int) -> None:
        """Count tokens; called from any thread."""
        del rows
        with self._lock:
            self.tokens += tokens
            now = time.monotonic()
            if self._bars is None or now - self._shown < _BETWEEN:
                return
            self._shown = now
            speed = f"{self.tokens / max(now - self._start, 1e-3) / 1e6:,.1f} M tokens/s"
        self._bars.update(self._task, speed=speed)

    def file_done(self) -> None:
        """Count a file."""
        if self._bars is not None:
            self._bars.advance(self._task)

    def waiting(self, message: str) -> None:
        """Say that another process is at work."""
        self.say(message)

    def not_stored(self, message: str) -> None:
        """Say why facts are not stored."""
        self.say(message)

    def say(self, message: str) -> None:
        """Print a line on stderr."""
        from audit.report.format import visible

        self.print(f"rlaudit: {visible(message)}", err=True)

    def print(self, line: str, *, err: bool = False) -> None:
        """Print a line above the bar."""
        if self._bars is not None and (err or sys.stdout.isatty()):
            self._bars.console.print(line, markup=False, highlight=False, soft_wrap=True)
        else:
            typer.echo(line, err=err)


@contextmanager
def watching() -> Iterator[Progress]:
    """Show progress on stderr while the body runs, on a terminal only."""
    if not sys.stderr.isatty():
        yield Progress(None)
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("files"),
        TextColumn("{task.fields[speed]}", markup=False),
        TimeRemainingColumn(),
    )
    with Bars(*columns, console=Console(stderr=True), transient=True) as bars:
        yield Progress(bars)

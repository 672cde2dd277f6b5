"""A spinner on stderr for work beyond a moment; silent where nobody looks."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console


@lru_cache(maxsize=1)
def to_stderr() -> Console:
    """Return the one console on stderr: what is shown inside of something else takes turns with it."""
    from rich.console import Console

    return Console(stderr=True)


@contextmanager
def working(what: str) -> Iterator[None]:
    """Show ``what`` with the time elapsed while the body runs, on a terminal only."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    from audit.report.format import visible

    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    with Progress(*columns, console=to_stderr(), transient=True) as progress:
        progress.add_task(visible(what), total=None)
        yield

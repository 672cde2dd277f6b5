"""A run directory that grows by whole batches, and hooks that a trainer does not notice."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pyarrow as pa

from audit.errors import BadLog
from audit.logs import RolloutWriter
from audit.recorders.metrics import MetricsWriter

After = Callable[[tuple[Any, ...], dict[str, Any], Any], None]
"""Gets the arguments by place, those by name and the result of a call."""


class BatchLog:
    """Handle on an attached recorder, usable as a context manager.

    What fails while recording (a full disk) stops the recording with a warning; training goes on.

    Parameters
    ----------
    run_dir : Path
        New directory of this run; every process gives the same.
    manifest : dict or callable
        run.json, or what makes it; only rank 0 writes it.
    rank : int
        Number of this process among those that record: each writes files of its own.
    flush_steps : int
        Finish a file after so many batches; a killed run loses what came after the last one.

    Raises
    ------
    BadLog
        This process has already written rollouts there.
    """

    failure: Exception | None = None
    """What stopped the recording, if anything did."""

    def __init__(
        self, run_dir: Path, manifest: Mapping[str, Any], *, rank: int = 0, flush_steps: int = 1
    ) -> None:
        prefix = f"rank{rank:03d}"
        if any((run_dir / "rollouts").glob(f"{prefix}-*.parquet")):
            msg = f"{run_dir} already holds rollouts: record every run, resumed or not, in its own folder."
            raise BadLog(msg)
        self._main = rank == 0
        self._writer = RolloutWriter(run_dir, manifest=dict(manifest) if self._main else None, prefix=prefix)
        self._metrics = MetricsWriter(run_dir)
        self._flush_steps = flush_steps
        self._unflushed = 0
        self._detach: list[Callable[[], None]] = []

    def attach(self, owner: Any, name: str, after: After, before: Callable[..., None] | None = None) -> None:
        """Let ``after`` follow each call of a method; until :meth:`close`, with all guarded."""
        original = getattr(owner, name)
        own = name in vars(owner)

        def wrapped(*args: Any, **kwargs: Any) -> Any:
            if before is not None:
                self.guard(before, *args, **kwargs)
            result = original(*args, **kwargs)
            self.guard(after, args, kwargs, result)
            return result

        setattr(owner, name, wrapped)
        self._detach.append(lambda: setattr(owner, name, original) if own else delattr(owner, name))

    def guard(self, action: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        """Run ``action``; if it fails, stop recording but never the training."""
        if self.failure is not None:
            return
        try:
            action(*args, **kwargs)
        except Exception as error:
            self.failure = error
            message = f"rlaudit stopped recording, training goes on: {type(error).__name__}: {error}"
            warnings.warn(message, RuntimeWarning, stacklevel=3)

    def add(self, rows: pa.Table, step: int, scalars: Mapping[str, Any] | None = None) -> None:
        """Append the rows of one batch, all or none, and what the trainer logged with it."""
        self._writer.write(rows)
        if self._main and scalars:
            self._metrics.add(step, scalars)
        self._unflushed += 1
        if self._unflushed >= self._flush_steps:
            self.flush()

    def flush(self) -> None:
        """Finish the current files, so that readers see everything added so far."""
        self._unflushed = 0
        self._writer.flush()
        self._metrics.flush()

    def close(self) -> None:
        """Flush and detach: the trainer is as it was."""
        while self._detach:
            self._detach.pop()()
        self.guard(self.flush)
        # What was accepted before a failure is still good.
        with contextlib.suppress(Exception):
            self._writer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

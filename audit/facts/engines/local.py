"""The engine of one machine: row groups are decoded and summed side by side, one thread per core."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple

import pyarrow as pa

from audit.facts.engines.memory import keep_freed_memory
from audit.facts.tokenpass.arrays import choose_device
from audit.facts.tokenpass.part import facts_of_part
from audit.facts.tokenpass.spent import Spent
from audit.logs.parquet_part import ParquetPart
from audit.logs.parts import Part

UNIT_TOKENS = 2_000_000
"""Tokens of a unit of work, about: large enough that a thread rarely waits for the interpreter."""


class _Unit(NamedTuple):
    place: int
    groups: tuple[int, ...] | None
    last: bool


def compute(
    parts: Sequence[Part],
    names: Sequence[str],
    *,
    device: str = "auto",
    progress: Callable[[int, int], None] | None = None,
    workers: int | None = None,
    in_tokens: bool = True,
    spent: Spent | None = None,
) -> Iterator[tuple[int, pa.Table]]:
    """Compute facts of some parts of a run.

    Decoding and arithmetic both leave the interpreter's lock, so a thread per core keeps all cores busy and a
    decoded batch never waits. Memory: about 25 MB per million tokens of a unit and worker.

    Parameters
    ----------
    names : sequence of str
        Facts; see :mod:`audit.facts.columns`.
    device : str
        ``auto``, ``cpu`` or ``cuda``; on a GPU one worker feeds it while the other decodes.
    progress : callable, optional
        Called with the rows and tokens just done, from any thread.
    workers : int, optional
        Default: the cores that this process may use.
    in_tokens : bool
        The run's ``length`` counts tokens.
    spent : Spent, optional
        Takes down what the time goes to.

    Yields
    ------
    place : int
        Of the part in ``parts``; in that order.
    facts : pyarrow.Table
        See :func:`audit.facts.tokenpass.part.facts_of_part`.

    Raises
    ------
    AuditError, UnknownName, BadLog
    """
    device = choose_device(device)
    keep_freed_memory()
    count = workers or cores()
    units = _units(parts)

    def work(unit: _Unit) -> pa.Table:
        return facts_of_part(
            parts[unit.place],
            names,
            device=device,
            groups=unit.groups,
            in_tokens=in_tokens,
            progress=progress,
            spent=spent,
        )

    waiting: deque[tuple[_Unit, Future[pa.Table]]] = deque()
    held: list[pa.Table] = []
    with ThreadPoolExecutor(count) as pool:
        try:
            exhausted = False
            while waiting or not exhausted:
                while not exhausted and len(waiting) <= count:
                    unit = next(units, None)
                    if unit is None:
                        exhausted = True
                        break
                    waiting.append((unit, pool.submit(work, unit)))
                if not waiting:
                    break
                unit, future = waiting.popleft()
                held.append(future.result())
                if unit.last:
                    yield unit.place, pa.concat_tables(held).combine_chunks()
                    held = []
        finally:
            for _, future in waiting:
                future.cancel()


def cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _units(parts: Sequence[Part]) -> Iterator[_Unit]:
    """Cut parts into runs of row groups of about :data:`UNIT_TOKENS`."""
    for place, part in enumerate(parts):
        sizes = part.row_groups() if isinstance(part, ParquetPart) else []
        groups: list[int] = []
        tokens = 0
        for index, size in enumerate(sizes):
            groups.append(index)
            tokens += size
            if tokens >= UNIT_TOKENS and index + 1 < len(sizes):
                yield _Unit(place, tuple(groups), last=False)
                groups, tokens = [], 0
        yield _Unit(place, tuple(groups) if sizes else None, last=True)

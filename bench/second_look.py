"""A second look at a run whose facts are there: its time, and whether it reads token columns again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq

from audit.schema import TOKEN_LISTS
from bench.logs import make
from bench.page import Section
from bench.process import Measured
from bench.settings import Settings, rlaudit
from bench.sizes import Size
from bench.timing import interleave, interpreter_start, megabytes, net, significant

COLUMNS = ("command", "time", "bytes read of the log", "share of the token columns", "memory")
TINY = Size(2_000_000, 4)
"""Read in the same way: what the command reads besides the log (modules, above all) is taken off."""


def measure(settings: Settings) -> Section:
    """Measure ``length`` on one run and ``explain`` on two."""
    first, second = (make(size) for size in settings.pair)
    tiny, other = make(TINY), make(Size(TINY.tokens, TINY.steps, "dr_grpo", seed=2))
    for log in (first, second, tiny, other):
        settings.audit(log)
    start = interpreter_start().median
    tasks: dict[str, tuple[Callable[[], Measured], Callable[[], Measured], list[Path]]] = {
        "length RUN": (lambda: rlaudit("length", first), lambda: rlaudit("length", tiny), [first]),
        "explain RUN RUN": (
            lambda: rlaudit("explain", first, second),
            lambda: rlaudit("explain", tiny, other),
            [first, second],
        ),
    }
    section = Section(
        "Second look",
        COLUMNS,
        intro=(
            f"Runs of {settings.pair[0].tokens / 1e6:.0f} M tokens whose facts are cached. Bytes read: "
            f"`rchar` of the process, less the same command on runs of {TINY.tokens / 1e6:.0f} M tokens. "
            f"n = {settings.repeats} each."
        ),
    )
    for on_tiny in tasks.values():
        on_tiny[1]()
    warm = {name: task for name, (task, _, _) in tasks.items()}
    for task in warm.values():
        task()
    found = interleave(warm, settings.repeats)
    for name, (_, small, logs) in tasks.items():
        read = max(0, found[name][-1].read - small().read)
        columns = sum(token_column_bytes(log) for log in logs)
        section.rows.append(
            [
                f"`{name}`",
                net(found[name], start).text(),
                f"{read / 1e6:,.1f} MB of {sum(map(log_bytes, logs)) / 1e6:,.0f} MB",
                significant(read / columns * 100) + " %",
                megabytes(found[name]),
            ]
        )
    return section


def token_column_bytes(log: Path) -> int:
    """Bytes of the token lists in the files of a run, by their footers."""
    total = 0
    for path in log.rglob("rollouts/*.parquet"):
        metadata = pq.read_metadata(path)
        for group in range(metadata.num_row_groups):
            chunks = [metadata.row_group(group).column(i) for i in range(metadata.num_columns)]
            total += sum(
                c.total_compressed_size for c in chunks if c.path_in_schema.split(".")[0] in TOKEN_LISTS
            )
    return total


def log_bytes(log: Path) -> int:
    """Bytes of the files of a run."""
    return sum(path.stat().st_size for path in log.rglob("rollouts/*.parquet"))

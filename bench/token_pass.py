"""The full audit against a bare decode of the same columns: time, memory, and how both grow with the log."""

from __future__ import annotations

from pathlib import Path

from bench.logs import make
from bench.page import Section
from bench.process import Measured, python, run
from bench.settings import Settings
from bench.timing import interleave, interpreter_start, megabytes, net, over, significant

COLUMNS = (
    "tokens",
    "log",
    "decode, 1 thread",
    "decode, threads",
    "full audit",
    "audit / decode, 1 thread",
    "audit / decode, threads",
    "CPU: audit / decode, 1 thread",
    "ns a token",
    "memory: decode",
    "memory: audit",
)


def measure(settings: Settings) -> Section:
    """Measure every size."""
    section = Section(
        "Full audit against a bare decode",
        COLUMNS,
        intro=(
            f"`rlaudit {settings.verb} RUN` on a run without cached facts, against pyarrow decoding token "
            "ids and four log-probs row group by row group and doing nothing with them (`bench/decode.py`)."
        ),
    )
    cost: list[float] = []
    for size in settings.sizes:
        log = make(size)
        start = interpreter_start().median
        found = interleave(
            {
                "decode": lambda log=log: decoded(log, threads=False),
                "threads": lambda log=log: decoded(log, threads=True),
                "audit": lambda log=log: settings.cold_audit(log),
            },
            settings.repeats,
        )
        tokens = int(found["decode"][0].output)
        times = {name: net(measured, start) for name, measured in found.items()}
        walls = {name: [one.wall - start for one in measured] for name, measured in found.items()}
        cost.append(times["audit"].median / tokens * 1e9)
        section.rows.append(
            [
                f"{tokens / 1e6:.1f} M",
                _log(log),
                *(times[name].text() for name in ("decode", "threads", "audit")),
                *(over(walls["audit"], walls[name]).text("") for name in ("decode", "threads")),
                over((one.cpu for one in found["audit"]), (one.cpu for one in found["decode"])).text(""),
                significant(cost[-1]),
                *(megabytes(found[name]) for name in ("decode", "audit")),
            ]
        )
    section.notes.append(f"Interpreter start, taken off: {start * 1000:.0f} ms. n = {settings.repeats} each.")
    if len(cost) > 1:
        section.notes.append(
            f"Cost of a token in the largest log over that in the smallest: {cost[-1] / cost[0]:.2f}."
        )
    return section


def decoded(log: Path, *, threads: bool) -> Measured:
    """Bare decode of a run in a process of its own."""
    return run(python("-m", "bench.decode", log, *(["--threads"] if threads else [])))


def _log(log: Path) -> str:
    files = list(log.rglob("rollouts/*.parquet"))
    return f"{len(files)} files, {sum(file.stat().st_size for file in files) / 1e6:,.0f} MB"

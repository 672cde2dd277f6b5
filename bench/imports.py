"""A large foreign log made a run: time, speed and memory of ``rlaudit import``."""

from __future__ import annotations

import shutil
from pathlib import Path

from bench.foreign_log import write_lines
from bench.page import Section
from bench.process import Measured
from bench.settings import Settings, rlaudit
from bench.sizes import FOLDER
from bench.timing import interpreter_start

COLUMNS = ("log", "rows", "time", "processor", "speed", "memory")


def measure(settings: Settings) -> Section:
    """Import one JSONL file of 0.25 GB, and of 4 GB; again, when nothing is new."""
    sizes = (256 * 2**20,) if settings.quick else (256 * 2**20, 4 * 2**30)
    start = interpreter_start().median
    section = Section(
        "Import of a foreign log",
        COLUMNS,
        intro=(
            "One JSONL file with text, token ids and two lists of log-probs a row, aliased columns and no "
            "group ids: `rlaudit import` reads it twice, for the groups and for the rows. Whole process less "
            "the start of the interpreter; processor: its seconds on a core, which neighbours do not "
            "lengthen; speed: the file's bytes by them; n = 1."
        ),
    )
    for size in sizes:
        log, made = FOLDER / f"foreign-{size // 2**20}.jsonl", FOLDER / "foreign-imported"
        if not log.exists():
            write_lines(log, size)
        shutil.rmtree(made, ignore_errors=True)
        for what in ("", ", again"):
            measured = rlaudit("import", log, made)
            section.rows.append(_row(log, what, measured, measured.wall - start))
        shutil.rmtree(made)
    return section


def _row(log: Path, what: str, measured: Measured, seconds: float) -> list[str]:
    size = log.stat().st_size
    rows = measured.output.split("read ", 1)[1].split(" lines", 1)[0]
    speed = f"{size / measured.cpu / 1e6:,.0f} MB/s" if not what else ""
    return [
        f"{size / 1e9:.2f} GB{what}",
        rows,
        f"{seconds:.1f} s",
        f"{measured.cpu:.1f} s",
        speed,
        f"{measured.peak / 1e6:,.0f} MB",
    ]

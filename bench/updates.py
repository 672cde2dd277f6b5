"""A run that grows: one more step file on 200, against the whole pass."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

from bench.logs import make, write_steps
from bench.page import Section
from bench.process import python, run
from bench.settings import CACHE, Settings
from bench.sizes import FOLDER, Size
from bench.timing import Spread, interpreter_start, net, over, significant

COLUMNS = ("what", "time", "share of the full pass")


def measure(settings: Settings) -> Section:
    """Add as many step files as there are repeats, one at a time."""
    size, repeats = settings.many_steps, settings.repeats
    log, added = _copy(size), _more_steps(size, repeats)
    start = interpreter_start().median
    full = net([settings.cold_audit(log) for _ in range(repeats)], start)
    nothing = net([settings.audit(log) for _ in range(repeats)], start)
    updates = []
    for file in added:
        os.link(file, log / "rollouts" / file.name)
        updates.append(settings.audit(log))
    update = net(updates, start)
    title = f"One more step of {size.steps}"
    section = Section(
        title,
        COLUMNS,
        intro=(
            f"A run of {size.steps} step files and {size.tokens / 1e6:.0f} M tokens. Whole processes: what "
            f"stays when nothing is new is start-up, imports and listing files. n = {repeats} each."
        ),
    )
    for name, times in (("full pass", full), ("one file added", update), ("nothing new", nothing)):
        section.rows.append([name, times.text(), _share(times, full)])
    inside = json.loads(run(python("-m", "bench.inside", "growth", log, "--repeats", repeats)).output)
    for name, seconds in inside.items():
        times = Spread.of(seconds)
        share = over(seconds, inside["full pass"])
        section.rows.append([f"{name}, start-up left out", times.text(), f"{share.median:.1%}"])
    return section


def _share(times: Spread, full: Spread) -> str:
    return significant(times.median / full.median * 100) + " %"


def _copy(size: Size) -> Path:
    """A run of hard links, so that files can be added without changing the kept log."""
    log, made = FOLDER / "growing", make(size)
    shutil.rmtree(log, ignore_errors=True)
    # Facts are not copied: a copy is another run.
    shutil.copytree(made, log, copy_function=os.link, ignore=shutil.ignore_patterns(CACHE))
    return log


def _more_steps(size: Size, count: int) -> list[Path]:
    """Files of the steps that follow the last one."""
    folder = FOLDER / "next-steps"
    shutil.rmtree(folder, ignore_errors=True)
    write_steps(size, folder, range(size.steps, size.steps + count))
    return sorted(folder.rglob("*.parquet"))

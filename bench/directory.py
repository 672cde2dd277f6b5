"""A team directory: many runs of many small files, listed and summarised."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

from bench.logs import manifest, write_steps
from bench.page import Section
from bench.process import python, run
from bench.settings import Settings, rlaudit
from bench.sizes import FOLDER, Size
from bench.timing import Spread, interpreter_start, megabytes, net

COLUMNS = ("what", "time", "memory")
FEW = 5
"""Runs of the directory that is summarised."""


def measure(settings: Settings) -> Section:
    """List a large directory and summarise a small one, for the first time and again."""
    runs, files = settings.directory
    team = make_team(runs, files)
    start = interpreter_start().median

    def listed() -> list[float]:
        found = run(python("-m", "bench.inside", "catalogue", team, "--repeats", settings.repeats))
        return list(json.loads(found.output)["find_runs"])

    cold, warm = listed(), listed()
    few = make_team(FEW, files)
    first = [rlaudit("summary", few)]
    again = [rlaudit("summary", few) for _ in range(settings.repeats)]
    section = Section(
        "Team directory",
        COLUMNS,
        intro=(
            f"Runs of {files:,} small files each (8 responses a file). The list: every run opened, its "
            "files checked, its columns and rows known; in one process, start-up left out. `summary`: whole "
            "processes; the first time it makes the pass over tokens too."
        ),
    )
    section.rows += [
        [f"list of {runs} runs, first time", f"{cold[0]:.1f} s", ""],
        [f"list of {runs} runs, again, n = {len(warm)}", Spread.of(warm).text(), ""],
        [f"`rlaudit summary` of {FEW} runs, first time", net(first, start).text(), megabytes(first)],
        [
            f"`rlaudit summary` of {FEW} runs, again, n = {settings.repeats}",
            net(again, start).text(),
            megabytes(again),
        ],
    ]
    return section


def make_team(runs: int, files: int, folder: Path = FOLDER) -> Path:
    """Return a directory of ``runs`` runs with ``files`` files each; the files are hard links to one set.

    Facts that an earlier measurement cached are removed.
    """
    team, one = folder / f"team-{runs}-{files}", folder / f"small-files-{files}"
    size = Size(files * 8, files)
    if not one.is_dir():
        unfinished = one.with_name(f".{one.name}.{os.getpid()}")
        write_steps(size, unfinished, range(files))
        unfinished.rename(one)
    shutil.rmtree(team, ignore_errors=True)
    for number in range(runs):
        run = team / f"run-{number:03d}"
        shutil.copytree(one / "rollouts", run / "rollouts", copy_function=os.link)
        (run / "run.json").write_text(json.dumps({**manifest(size), "run_id": run.name}), encoding="utf-8")
    return team

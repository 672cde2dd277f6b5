"""Work timed inside one process, start-up left out: ``python -m bench.inside TASK PATH`` prints seconds."""

from __future__ import annotations

import argparse
import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path

from bench.sizes import FOLDER


def catalogue(path: Path, repeats: int) -> dict[str, list[float]]:
    """List the runs of a directory: files checked, schemas and row counts known."""
    from audit.importers import find_runs

    return {"find_runs": [_timed(lambda: find_runs(path)) for _ in range(repeats)]}


def growth(path: Path, repeats: int) -> dict[str, list[float]]:
    """Facts of a run without its last step file, then with it, each time from the opening of the run on."""
    from audit.facts.run_facts import standard_facts
    from audit.facts.store import request
    from audit.importers import open_run

    def work() -> None:
        run = open_run(path)
        request(run, standard_facts(run), in_order=True, read=False)

    last = sorted((path / "rollouts").glob("*.parquet"))[-1]
    aside = FOLDER / "aside.parquet"
    times: dict[str, list[float]] = {"full pass": [], "nothing new": [], "one file added": []}
    try:
        for _ in range(repeats):
            shutil.rmtree(path / ".rlaudit", ignore_errors=True)
            shutil.move(last, aside)
            times["full pass"].append(_timed(work))
            times["nothing new"].append(_timed(work))
            shutil.move(aside, last)
            times["one file added"].append(_timed(work))
    finally:
        if aside.exists():
            shutil.move(aside, last)
    return times


def overviews(path: Path, repeats: int) -> dict[str, list[float]]:
    """What the dashboard's first page asks of every run; facts that are missing are computed and stored."""
    from audit.analyses.run_overview import run_overview
    from audit.importers import find_runs

    opened = [entry.run for entry in find_runs(path) if entry.run is not None]
    return {"overviews": [_timed(lambda: [run_overview(run) for run in opened]) for _ in range(repeats)]}


TASKS: dict[str, Callable[[Path, int], dict[str, list[float]]]] = {
    "catalogue": catalogue,
    "growth": growth,
    "overviews": overviews,
}


def _timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def main() -> None:
    """Time one task."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("task", choices=TASKS)
    parser.add_argument("path", type=Path)
    parser.add_argument("--repeats", type=int, default=5)
    asked = parser.parse_args()
    print(json.dumps(TASKS[asked.task](asked.path, asked.repeats)))


if __name__ == "__main__":
    main()

"""Measure and write docs/benchmarks.md: ``python -m bench [SECTION …]``."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

from bench import (
    dashboard,
    directory,
    frameworks,
    gpu,
    imports,
    length_calibration,
    page,
    recorder,
    second_look,
    token_pass,
    updates,
)
from bench.page import Section
from bench.settings import Settings

SECTIONS: dict[str, Callable[[Settings], Section]] = {
    "pass": token_pass.measure,
    "updates": updates.measure,
    "second-look": second_look.measure,
    "directory": directory.measure,
    "dashboard": dashboard.measure,
    "imports": imports.measure,
    "recorder": recorder.measure,
    "frameworks": frameworks.measure,
    "gpu": gpu.measure,
    "length": length_calibration.measure,
}


def main() -> None:
    """Measure the sections asked for, and put each into the page."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("section", nargs="*", help=f"one or more of {', '.join(SECTIONS)}; default: all")
    parser.add_argument("--quick", action="store_true", help="small logs only")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument(
        "--verb", default="facts", help="the rlaudit command that makes the full audit of a run"
    )
    parser.add_argument("--no-page", action="store_true", help="print only; keep nothing")
    asked = parser.parse_args()
    unknown = [name for name in asked.section if name not in SECTIONS]
    if unknown or asked.repeats < 1:
        parser.error(f"no section {unknown[0]!r}" if unknown else "--repeats must be at least 1")
    settings = Settings(quick=asked.quick, repeats=asked.repeats, verb=asked.verb)
    for name in asked.section or SECTIONS:
        began = time.perf_counter()
        section = SECTIONS[name](settings)
        print(section.markdown(), f"({name}: {time.perf_counter() - began:.0f} s)\n", sep="\n", flush=True)
        if not asked.no_page:
            page.keep(section)


if __name__ == "__main__":
    main()

"""Sections of docs/benchmarks.md, each kept as it was measured until it is measured again."""

from __future__ import annotations

import datetime as dt
import os
import platform
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path

from bench.sizes import ROOT

PAGE = ROOT / "docs" / "benchmarks.md"
HEAD = """# Benchmarks

Written by `make bench` (`make bench QUICK=1`: 5 million tokens only). Times are of whole processes less the
start of the interpreter, medians with (smallest–largest); contestants run in turns, and a ratio is taken
within one run of the benchmarks. Logs are synthetic and realistic (`bench/logs.py`), in the writer's own
encoding, and in the page cache. Memory is the largest resident set.
"""


@dataclass
class Section:
    """One question, its answer in a table, and what to know to read it."""

    title: str
    columns: Sequence[str] = ()
    rows: list[Sequence[str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    intro: str = ""

    def markdown(self) -> str:
        """The section as Markdown."""
        lines = [f"## {self.title}", ""]
        if self.intro:
            lines += [self.intro, ""]
        if self.rows:
            lines += [f"| {' | '.join(self.columns)} |", "|---" * len(self.columns) + "|"]
            lines += [f"| {' | '.join(row)} |" for row in self.rows]
            lines += [""]
        lines += [f"- {note}" for note in self.notes]
        return "\n".join(lines).rstrip() + "\n"


def keep(section: Section, page: Path = PAGE) -> None:
    """Put a section into the page, with where and when it was measured; the others stay as they are.

    The page is the only store: it is committed, and measured again one section at a time.
    """
    load = f"Load average when this was measured: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores."
    measured = f"Measured {dt.date.today().isoformat()}, {machine()}."
    whole = replace(section, notes=[*section.notes, load, measured]).markdown()
    held = sections(page)
    held[section.title] = whole
    page.write_text("\n".join([HEAD, *held.values()]), encoding="utf-8")


def sections(page: Path = PAGE) -> dict[str, str]:
    """Return the sections of the page by title, in their order."""
    if not page.exists():
        return {}
    _, *parts = re.split(r"^## ", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {part.splitlines()[0]: f"## {part.strip()}\n" for part in parts}


def machine() -> str:
    """Processor, memory, versions and commit."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    system = f"{platform.system()} {platform.machine()}"
    packages = ", ".join(
        f"{name} {version(name)}" for name in ("pyarrow", "duckdb", "polars", "torch", "numpy")
    )
    return (
        f"{_processor()}, {os.cpu_count()} cores, {memory:.0f} GiB, {system}; "
        f"Python {platform.python_version()}, {packages}; commit {_commit()}"
    )


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or "unknown processor"


def _commit() -> str:
    asked = ["git", "describe", "--always", "--dirty"]
    found = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=False)
    return found.stdout.strip() or "unknown"

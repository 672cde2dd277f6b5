"""Sections of docs/benchmarks.md: kept as they were measured, written together."""

from __future__ import annotations

import datetime as dt
import json
import os
import platform
import subprocess
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path

from bench.sizes import FOLDER, ROOT

PAGE = ROOT / "docs" / "benchmarks.md"
SECTIONS = FOLDER / "sections"
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


def keep(name: str, section: Section, folder: Path = SECTIONS) -> None:
    """Keep a section, with where and when it was measured, until it is measured again."""
    folder.mkdir(parents=True, exist_ok=True)
    load = f"Load average when this was measured: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores."
    content = {
        **asdict(section),
        "measured": f"{dt.date.today().isoformat()}, {machine()}",
        "notes": [*section.notes, load],
    }
    (folder / f"{name}.json").write_text(json.dumps(content, indent=1), encoding="utf-8")


def write(names: Sequence[str], folder: Path = SECTIONS, page: Path = PAGE) -> None:
    """Write the page from the sections that were kept, in the order of ``names``."""
    parts, before = [HEAD], ""
    for name in names:
        file = folder / f"{name}.json"
        if not file.exists():
            continue
        content = json.loads(file.read_text(encoding="utf-8"))
        measured = content.pop("measured")
        if measured != before:
            parts.append(f"Measured {measured}.\n")
            before = measured
        parts.append(Section(**content).markdown())
    page.write_text("\n".join(parts), encoding="utf-8")


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

"""One child process, measured from outside: wall time, CPU time, peak memory, bytes read."""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.sizes import ROOT

_EVERY = 0.02
"""Seconds between looks at the memory of the tree of processes."""


@dataclass(frozen=True)
class Measured:
    """One run of one command."""

    wall: float
    """Seconds from start to exit."""
    cpu: float
    """Seconds of CPU, user and system, children included."""
    peak: int
    """Bytes: largest resident set of the process, or of it and its children together, if larger."""
    read: int
    """Bytes that read calls returned, from the page cache too (``rchar``), children included."""
    output: str


def run(command: Sequence[str | Path]) -> Measured:
    """Run a command to its end, from the root of the repository.

    Raises
    ------
    RuntimeError
        It failed; the message has its last lines.
    """
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        start = time.perf_counter()
        child = subprocess.Popen(
            [str(part) for part in command], cwd=ROOT, env=_environment(), stdout=out, stderr=err
        )
        peak = _watch(child.pid)
        wall = time.perf_counter() - start
        # Read before the child is reaped: its counters vanish with it.
        read = _read_bytes(child.pid)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        err.seek(0)
        if child.returncode:
            last = err.read().decode(errors="replace").strip().splitlines()[-3:]
            msg = f"{' '.join(map(str, command))}: exit code {child.returncode}: {' / '.join(last)}"
            raise RuntimeError(msg)
        return Measured(
            wall=wall,
            cpu=usage.ru_utime + usage.ru_stime,
            peak=peak,
            read=read,
            output=out.read().decode(errors="replace"),
        )


def python(*arguments: str | Path) -> list[str]:
    """Build the command of this interpreter."""
    return [sys.executable, *map(str, arguments)]


def _environment() -> dict[str, str]:
    """The user's own, less what would put the facts somewhere else."""
    return {name: value for name, value in os.environ.items() if not name.startswith("RLAUDIT_")}


def _watch(pid: int) -> int:
    """Wait until the process has ended, without reaping it; return the peak of its memory.

    Not ``ru_maxrss``: a child starts with the peak of the process that forked it.
    """
    peak = 0
    descriptor = os.pidfd_open(pid)
    try:
        while not _ended(descriptor):
            tree = _tree(pid)
            together = sum(_memory(one, "VmRSS") for one in tree) if len(tree) > 1 else 0
            peak = max(peak, _memory(pid, "VmHWM"), together)
    finally:
        os.close(descriptor)
    return peak


def _ended(descriptor: int) -> bool:
    return bool(select.select([descriptor], [], [], _EVERY)[0])


def _tree(pid: int) -> list[int]:
    """A process and all that it started."""
    found = [pid]
    for parent in found:
        with contextlib.suppress(OSError):
            for file in Path(f"/proc/{parent}/task").glob("*/children"):
                found += map(int, file.read_text().split())
    return found


def _memory(pid: int, field: str) -> int:
    """Bytes, by the kernel; 0 for a process that has ended. Pages that processes share count for each."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith(field):
                return int(line.split()[1]) * 1024
    return 0


def _read_bytes(pid: int) -> int:
    for line in Path(f"/proc/{pid}/io").read_text().splitlines():
        name, value = line.split(": ")
        if name == "rchar":
            return int(value)
    return 0

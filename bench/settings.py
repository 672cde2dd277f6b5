"""What one run of the benchmarks measures: chosen on the command line, handed to every section."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from bench.process import Measured, python, run
from bench.sizes import (
    LARGE,
    MANY_STEPS,
    MIDDLE,
    OTHER,
    QUICK_MANY_STEPS,
    QUICK_OTHER,
    SMALL,
    Size,
)

CACHE = ".rlaudit"
"""Folder of a run that holds its facts."""


@dataclass(frozen=True)
class Settings:
    """Sizes, repeats and the command that makes the full audit."""

    quick: bool = False
    repeats: int = 5
    verb: str = "facts"
    """``rlaudit VERB RUN`` computes the facts of all rollouts."""

    @property
    def sizes(self) -> tuple[Size, ...]:
        """Logs of the token pass, small to large."""
        return (SMALL,) if self.quick else (SMALL, MIDDLE, LARGE)

    @property
    def pair(self) -> tuple[Size, Size]:
        """Two runs to explain."""
        return (SMALL, QUICK_OTHER) if self.quick else (MIDDLE, OTHER)

    @property
    def many_steps(self) -> Size:
        """A run of 200 step files."""
        return QUICK_MANY_STEPS if self.quick else MANY_STEPS

    @property
    def directory(self) -> tuple[int, int]:
        """Runs, and files of each, of the team directory."""
        return (10, 100) if self.quick else (100, 1000)

    def audit(self, log: Path) -> Measured:
        """Full audit as a user starts it, with whatever facts are cached."""
        return rlaudit(self.verb, log)

    def cold_audit(self, log: Path) -> Measured:
        """Full audit of a run without cached facts."""
        shutil.rmtree(log / CACHE, ignore_errors=True)
        return self.audit(log)


def rlaudit(*arguments: str | Path) -> Measured:
    """Run ``rlaudit``, measured."""
    return run(python("-m", "audit", *arguments))

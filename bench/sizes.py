"""The logs that are measured, by name, and the folder that keeps them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "bench" / ".logs"
"""Ignored by git; ``rm -r`` it to make the logs again."""

BUDGET = 8192
"""Longest response that the synthetic runs allow, in tokens."""


@dataclass(frozen=True)
class Size:
    """One log: about ``tokens`` response tokens in ``steps`` files, one file a step."""

    tokens: int
    steps: int
    algorithm: str = "grpo"
    """``grpo`` or ``dr_grpo``: what run.json declares, and how advantages are formed."""
    seed: int = 1

    @property
    def name(self) -> str:
        """Folder of the log."""
        return f"{self.algorithm}-{self.tokens // 1000}k-{self.steps}-seed{self.seed}"


SMALL = Size(5_000_000, 10)
MIDDLE = Size(25_000_000, 50)
LARGE = Size(100_000_000, 200)
"""A file has half a million tokens in each of the three: they differ in how long the run is."""

MANY_STEPS = Size(25_000_000, 200)
OTHER = Size(25_000_000, 50, algorithm="dr_grpo", seed=2)
"""Compared with MIDDLE."""

QUICK_MANY_STEPS = Size(5_000_000, 200)
QUICK_OTHER = Size(5_000_000, 10, algorithm="dr_grpo", seed=2)

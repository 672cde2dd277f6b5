"""What the catalogue says about one algorithm; what its fields already say is derived, not written."""

from __future__ import annotations

import re
from dataclasses import dataclass

from audit.objectives.catalogue.derived import credit, memory, samples
from audit.objectives.needs import needs
from audit.objectives.objective import Objective

ROWS = (
    "signal",
    "samples from",
    "weight per sample",
    "stability",
    "credit",
    "models in memory",
    "target",
    "lineage",
)
"""The eight questions that every algorithm answers, in the order in which they are shown."""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One algorithm of the catalogue."""

    objective: Objective
    meaning: str
    """One sentence."""
    formula: str
    """Weight of a token: w = −∂L/∂log π."""
    paper: str
    lineage: str
    fixes: str
    """The bias or the failure that the algorithm answers."""
    weight: str
    """What multiplies the score of a response or token."""
    stability: str
    target: str
    signal: str = "scalar reward per response"
    choices: str = ""
    """What the paper leaves open, and what stands here instead; empty: every field is the paper's."""

    @property
    def name(self) -> str:
        """Name by which the catalogue finds it."""
        return self.objective.name

    @property
    def source(self) -> str:
        """The paper in one word or two: its arXiv id, else author and year, or the code it comes from."""
        found = re.search(r"arXiv:(\d{4}\.\d{5})", self.paper)
        return found[1] if found else re.split(r"[,;(]", self.paper)[0].strip()

    @property
    def needs(self) -> dict[str, str]:
        """Columns beyond rewards, groups and tokens that its weights need, and the part that needs each."""
        return needs(self.objective)

    @property
    def rows(self) -> dict[str, str]:
        """The eight rows of the summary table, by the names of :data:`ROWS`."""
        answers = (
            self.signal,
            samples(self.objective),
            self.weight,
            self.stability,
            credit(self.objective),
            memory(self.objective),
            self.target,
            self.lineage,
        )
        return dict(zip(ROWS, answers, strict=True))

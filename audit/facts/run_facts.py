"""The facts of one run, read from the store or computed as they are asked for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from audit.errors import AuditError
from audit.facts.columns import CORE, distinct, weight_facts
from audit.facts.declared import declared_objective
from audit.facts.store import request, stored
from audit.facts.tokenpass.factors import factors_of
from audit.logs import Run
from audit.logs.arrays import to_numpy
from audit.objectives.needs import reduced

if TYPE_CHECKING:
    from torch import Tensor


READ_AHEAD = 200_000
"""Responses of a run whose standard facts are read at once: some 100 MB, and cheaper than one by one."""


class RunFacts:
    """Facts by name, one value per response in the row order of :meth:`audit.logs.Run.batches`.

    What is stored is read as it is needed. If anything is missing, one pass over the tokens computes that and
    everything of :func:`standard_facts` with it.
    """

    def __init__(self, run: Run) -> None:
        self._run = run
        self._held: dict[str, np.ndarray] = {}

    def read(self, names: Iterable[str]) -> None:
        """Have ``names`` at hand, at the cost of one pass over tokens at most.

        Raises
        ------
        UnknownName
            A name is not that of a fact.
        BadLog
            A file is damaged, or the token lists of a row differ in length.
        """
        wanted = [name for name in distinct(names) if name not in self._held]
        if not wanted:
            return
        if not self._held and self._run.num_rows <= READ_AHEAD:
            wanted = list(distinct([*standard_facts(self._run), *wanted]))
        table = stored(self._run, wanted)
        if table is None:
            missing = [n for n in distinct([*standard_facts(self._run), *wanted]) if n not in self._held]
            table, _ = request(self._run, missing)
        for name in table.column_names:
            self._held[name] = _array(table[name])

    def __getitem__(self, name: str) -> np.ndarray:
        """One fact, shape (R,): int64 for counts and keys, else float64 with NaN where not logged."""
        self.read([name])
        return self._held[name]

    def tensor(self, name: str) -> Tensor:
        """The same as a tensor that shares its memory."""
        import torch

        return torch.from_numpy(self[name])


def standard_facts(run: Run) -> Sequence[str]:
    """What one pass over the tokens of a run computes: the core, and the facts of its own objective."""
    try:
        declared = declared_objective(run)
    except AuditError:
        # What cannot be read of run.json is said by the verbs that need it.
        declared = None
    if declared is None:
        return CORE
    objective, _ = reduced(declared.objective, run.columns)
    factors = factors_of(objective)
    return CORE if factors is None else distinct([*CORE, *weight_facts(factors)])


def _array(column: pa.ChunkedArray) -> np.ndarray:
    # Arrow's memory is read-only, and torch wants to own what it wraps.
    return np.array(to_numpy(column))

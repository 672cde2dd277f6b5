"""Length bias of a run under its own objective, kept until the log changes."""

from __future__ import annotations

from audit.analyses.fitted import own_objective
from audit.analyses.length import LengthBias, length_bias
from audit.facts.rows import RunRows
from audit.logs import Run
from audit.logs.kept import kept


def own_length_bias(run: Run) -> LengthBias:
    """Return :func:`~audit.analyses.length.length_bias` of a run; the second time no token is read.

    Objectives that stored facts do not tell are weighed token by token, which takes seconds each time.

    Raises
    ------
    MissingColumn
        The log has no lengths of any kind.
    """
    return kept(run, "length", LengthBias, _measure)


def _measure(run: Run) -> LengthBias:
    rows = RunRows.read(run)
    return length_bias(rows, *own_objective(rows))

"""The one family of errors that rlaudit raises on purpose.

    AuditError              root; a ValueError, shown by the command line as one line, exit code 2
    ├── MissingColumn       an analysis needs a column that this log does not have
    ├── BadLog              a file or directory that is not a readable rollout log
    ├── BadManifest         a run.json that does not follow schemas/run.v1.schema.json
    ├── BadObjective        an objective that cannot be built or applied
    └── UnknownName         a name (objective, run, format, field, …) that does not exist

Messages say what is wrong, where, and what to do; factories add the closest valid name.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Self


def closest(name: str, valid: Iterable[str], *, limit: int = 2) -> str:
    """Return `` Did you mean 'x'?`` for the valid names closest to ``name``, or an empty string."""
    by_lower = {v.lower(): v for v in valid}
    near = difflib.get_close_matches(name.lower(), by_lower, n=limit, cutoff=0.6)
    if not near:
        return ""
    return f" Did you mean {' or '.join(repr(by_lower[n]) for n in near)}?"


class AuditError(ValueError):
    """Root of everything that this package raises on purpose."""


class MissingColumn(AuditError):
    """An analysis needs a column that this log does not have."""

    column: str = ""

    @classmethod
    def needed_for(cls, column: str, purpose: str, present: Iterable[str] = (), *, hint: str = "") -> Self:
        """Build the error for ``purpose``, naming the column and the closest one that is present."""
        near = closest(column, present)
        msg = f"{purpose} needs column '{column}', which this log does not have.{near}"
        error = cls(f"{msg} {hint}" if hint else msg)
        error.column = column
        return error


class BadLog(AuditError):
    """A file or directory that is not a readable rollout log."""


class BadManifest(AuditError):
    """A run.json that does not follow schemas/run.v1.schema.json."""


class BadObjective(AuditError):
    """An objective that cannot be built from its fields, or cannot be applied to this log."""


class UnknownName(AuditError):
    """A name that does not exist; the message lists the closest ones."""

    @classmethod
    def of(cls, kind: str, name: str, valid: Iterable[str]) -> Self:
        """Build the error for an unknown ``name`` of a ``kind`` ('objective', 'run', …)."""
        names = sorted(valid)
        listed = ", ".join(names[:20]) + (", …" if len(names) > 20 else "")
        return cls(f"unknown {kind} '{name}'.{closest(name, names)} Known: {listed}.")

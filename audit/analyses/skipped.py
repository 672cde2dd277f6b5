"""A check that a log cannot carry: what every analysis says of what it leaves out."""

from __future__ import annotations

from typing import Self

import msgspec

from audit.errors import AuditError, MissingColumn


class Skipped(msgspec.Struct, frozen=True):
    """A check that this log cannot carry, and the column that is missing."""

    check: str
    needs: str

    @classmethod
    def because(cls, check: str, error: AuditError) -> Self:
        """Say what an error lacked: the column where it names one, else its message."""
        named = error.column if isinstance(error, MissingColumn) else ""
        return cls(check, named or str(error))

"""A run that could not be read: what a look at several runs says of it."""

from __future__ import annotations

import msgspec


class BrokenRun(msgspec.Struct, frozen=True):
    """A run that could not be read, and why."""

    path: str
    error: str

"""What a trainer logged at a step → scalars, for ``metrics/``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from audit.importers.interface import Scalar
from audit.importers.values import OddValue, integer, number


def logged(
    step: Any, entry: Mapping[str, Any], *, skip: frozenset[str] = frozenset({"step"})
) -> Iterator[Scalar]:
    """Yield the numbers of one entry under the trainer's own names; text and lists are left out."""
    try:
        at = integer(step, "step")
    except OddValue:
        return
    if at is None or not -(2**63) <= at < 2**63:
        return
    for name, value in entry.items():
        if name in skip or isinstance(value, (str, list, dict)):
            continue
        try:
            found = number(value, name)
        except (OddValue, OverflowError):
            continue
        if found is not None:
            yield Scalar(at, str(name), found)

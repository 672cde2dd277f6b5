"""Samples that are written more than once: a restarted run appends them once more, or samples them anew.

Unlike :mod:`audit.importers.repeats` it needs a name for each sample, and no order.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

AGAIN = "repeated: the same sample was written before"


class Writings:
    """Tells which writing of a sample a record is. A hash a record is held."""

    def __init__(self) -> None:
        self.anew = False
        """Whether a sample came back with another content."""
        self._seen: dict[str, list[int]] = defaultdict(list)

    def of(self, name: Any, content: Any) -> int | None:
        """Return 0, or how often the sample was written otherwise before; None where it was written so."""
        seen, print_ = self._seen[repr(name)], hash(repr(content))
        if print_ in seen:
            return None
        seen.append(print_)
        self.anew |= len(seen) > 1
        return len(seen) - 1

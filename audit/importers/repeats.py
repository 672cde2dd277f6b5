"""What a restarted trainer appended once more: steps that come back with the very same records."""

from __future__ import annotations

import math
from array import array
from typing import Any

REPEATED = "repeated: the same record stands in the same place of an earlier writing of this step"


class Repeats:
    """Tells, record by record, whether a step that came back repeats what was written of it before.

    A record counts as repeated only while all since the step came back were: siblings of a group may well be
    equal. Eight bytes a record are held.
    """

    def __init__(self) -> None:
        self.back = 0
        """Records of steps that came back and were sampled anew."""
        self._seen: dict[Any, array[int]] = {}
        self._step: Any = None
        self._again = False
        self._at: int | None = None
        """Place in the step's first writing up to which this one repeats it; None where it does not."""

    def repeated(self, step: Any, values: Any) -> bool:
        """Tell whether a record repeats one; ``values`` is anything that identifies its content."""
        if step != self._step:
            self._again = step in self._seen
            self._at = 0 if self._again else None
            self._step = step
        print_ = hash(_plain(values))
        before = self._seen.setdefault(step, array("q"))
        if self._at is not None and self._at < len(before) and before[self._at] == print_:
            self._at += 1
            return True
        self._at = None
        self.back += self._again
        before.append(print_)
        return False


def _plain(value: Any) -> Any:
    """Something hashable; of lists the ends are enough."""
    if isinstance(value, dict):
        return tuple((key, _plain(each)) for key, each in value.items())
    if isinstance(value, (list, tuple)):
        return f"{len(value)} {value[:8]} {value[-8:]}"
    if isinstance(value, float) and math.isnan(value):
        # Two NaN are never equal, and have different hashes.
        return "nan"
    return value

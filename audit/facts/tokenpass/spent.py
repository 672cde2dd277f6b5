"""What a pass over tokens spends its time on."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

Work = Literal["decoding", "arithmetic"]


class Spent:
    """Seconds of all threads together, by kind of work; may be shared between threads."""

    def __init__(self) -> None:
        self.seconds: dict[Work, float] = {"decoding": 0.0, "arithmetic": 0.0}
        self._lock = threading.Lock()

    @contextmanager
    def on(self, work: Work) -> Iterator[None]:
        """Count the time of the body as ``work``."""
        start = time.perf_counter()
        try:
            yield
        finally:
            with self._lock:
                self.seconds[work] += time.perf_counter() - start

    def limit(self) -> tuple[Work, float] | None:
        """The work that took most, and its share of the whole; None where nothing was done."""
        whole = sum(self.seconds.values())
        if not whole:
            return None
        most = max(self.seconds, key=lambda work: self.seconds[work])
        return most, self.seconds[most] / whole

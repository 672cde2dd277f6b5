"""The token pass on a GPU: bytes a second against a copy on the same device, and difference from the CPU."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from audit.logs import open_run
from audit.schema import LOG_PROBS
from bench.logs import make
from bench.page import Section
from bench.settings import Settings
from bench.sizes import MIDDLE, SMALL
from bench.timing import Spread

COPY = 2**30
"""Bytes of the device-to-device copy."""


class DecodedPart:
    """A part of a run that is decoded already: what is timed is the pass, not Parquet."""

    def __init__(self, part: Any) -> None:
        self.name, self.types = part.name, part.types
        columns = [name for name in self.types if name in ("token_ids", "length", *LOG_PROBS)]
        self._batches = list(part.batches(columns, max_tokens=16_000_000))

    @property
    def log_prob_bytes(self) -> int:
        """Bytes of the log-probs as the log holds them, float32."""
        lists = [batch[name] for batch in self._batches for name in LOG_PROBS if name in self.types]
        return sum(len(column.flatten()) * 4 for column in lists)

    def batches(self, columns: Sequence[str], *, max_tokens: int) -> Iterator[pa.RecordBatch]:
        """Yield what was decoded; already cut for a GPU, so ``max_tokens`` bounds nothing."""
        del max_tokens
        for batch in self._batches:
            yield batch.select(list(columns))


def measure(settings: Settings) -> Section:
    """Measure, or say in one line why not."""
    section = Section("Token pass on a GPU", ("what", "GB/s"))
    import torch

    if not torch.cuda.is_available():
        section.notes.append("Not measured: no GPU here (`torch.cuda.is_available()` is false).")
        return section
    log = make(SMALL if settings.quick else MIDDLE)
    parts = [DecodedPart(part) for part in open_run(log).parts]
    seconds = _timed(lambda: facts(parts, "cuda"), settings.repeats)
    bytes_read = sum(part.log_prob_bytes for part in parts)
    section.rows = [
        ["copy on the device, bytes read", _copy_rate(settings.repeats).text("")],
        ["token pass, log-probs read from the host's memory", _rate(bytes_read, seconds).text("")],
    ]
    section.notes += [
        f"{torch.cuda.get_device_name(0)}. The pass includes the transfer to the device, not decoding.",
        f"Largest relative difference of a fact from the CPU's: {largest_difference(parts, 'cuda'):.1e}.",
    ]
    return section


def facts(parts: Sequence[DecodedPart], device: str) -> list[pa.Table]:
    """Every fact that ``rlaudit facts`` computes, part by part."""
    from audit.facts.columns import CORE
    from audit.facts.tokenpass.part import facts_of_part

    return [facts_of_part(part, CORE, device=device) for part in parts]  # type: ignore[arg-type]


def largest_difference(parts: Sequence[DecodedPart], device: str) -> float:
    """Largest difference of a fact of a response, over its value on the CPU; NaN there must be NaN here.

    Values that are rounding themselves (less than 1e-12 of the largest of their kind) do not count.
    """
    worst = 0.0
    for here, there in zip(facts(parts, "cpu"), facts(parts, device), strict=True):
        for name in here.column_names:
            a, b = (np.asarray(table[name], dtype=np.float64) for table in (here, there))
            if not np.array_equal(np.isnan(a), np.isnan(b)):
                return float("inf")
            counted = np.abs(a) > 1e-12 * np.nanmax(np.abs(a), initial=0.0)
            worst = max(worst, np.max(np.abs(a - b)[counted] / np.abs(a)[counted], initial=0.0))
    return float(worst)


def _copy_rate(repeats: int) -> Spread:
    import torch

    source = torch.zeros(COPY, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    return _rate(COPY, _timed(lambda: target.copy_(source), repeats))


def _timed(task: Callable[[], object], repeats: int) -> list[float]:
    """Seconds of each repeat, after one that is not counted."""
    import torch

    seconds = []
    for _ in range(repeats + 1):
        torch.cuda.synchronize()
        start = time.perf_counter()
        task()
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - start)
    return seconds[1:]


def _rate(size: int, seconds: Sequence[float]) -> Spread:
    return Spread.of(size / each / 1e9 for each in seconds)


def main() -> None:
    """Print the section; exit code 0 also without a GPU."""
    print(measure(Settings()).markdown())


if __name__ == "__main__":
    main()

"""The few array operations of the token pass, on NumPy (CPU) or torch (any device).

NumPy needs no import of torch (1.5 s) and its segment sums are five times as fast as torch's on a CPU; torch
reaches a GPU. Everything else is written once, with operators that both understand.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from audit.errors import AuditError, closest

if TYPE_CHECKING:
    import torch

DEVICES = ("auto", "cpu", "cuda", "torch-cpu")

Array = Any
"""A one-dimensional NumPy array or torch tensor, float64 unless said otherwise."""


class Segments(Protocol):
    """Sums over the responses of a chunk; offsets of R responses over N tokens."""

    @property
    def lengths(self) -> Array:
        """Tokens of each response, shape (R,), float64."""
        ...

    def load(self, values: np.ndarray) -> Array:
        """Bring values, shape (N,), to the device as float64 (bool stays bool)."""
        ...

    def exp(self, values: Array) -> Array:
        """Exponential, shape kept."""
        ...

    def where(self, mask: Array, values: Array) -> Array:
        """``values`` where ``mask``, else 0; shape (N,). Unlike a product it keeps inf and NaN out."""
        ...

    def sum(self, values: Array) -> Array:
        """Sum over each response, shape (R,), float64; 0 for an empty one."""
        ...

    def count(self, mask: Array) -> Array:
        """Number of true values of each response, shape (R,), float64."""
        ...

    def max(self, values: Array) -> Array:
        """Largest value of each response, at least 0, shape (R,); NaN where one is."""
        ...

    def spread(self, per_row: Array) -> Array:
        """Repeat one value per response, shape (R,), over its tokens: shape (N,)."""
        ...

    def finite(self, values: Array) -> bool:
        """Whether no value is NaN or infinite."""
        ...

    def all_within(self, values: Array, bound: float) -> bool:
        """Whether every value is at most ``bound``; not so where one is NaN."""
        ...

    def places(self, mask: Array) -> Array:
        """Where ``mask`` is true, int64, ascending."""
        ...

    def rows_of(self, places: Array) -> Array:
        """Response that each of ``places`` lies in, int64."""
        ...

    def sum_by(self, rows: Array, values: Array | None) -> Array:
        """Sum of values over the response that each belongs to, shape (R,), float64; None: their number."""
        ...

    def host(self, values: Array) -> np.ndarray:
        """Bring a result back as a NumPy array."""
        ...


class NumpySegments:
    """Segment operations on the CPU."""

    def __init__(self, offsets: np.ndarray) -> None:
        self._ends = offsets[1:]
        self._lengths = np.diff(offsets)
        # reduceat takes a start, not a range: an empty response would get the first token of the next.
        self._held = np.flatnonzero(self._lengths)
        self._starts = offsets[:-1][self._held]
        self._whole = len(self._held) == len(self._lengths)
        self.lengths = self._lengths.astype(np.float64)

    def load(self, values: np.ndarray) -> Array:
        return values if values.dtype == np.bool_ else values.astype(np.float64)

    def exp(self, values: Array) -> Array:
        return np.exp(values)

    def where(self, mask: Array, values: Array) -> Array:
        return np.where(mask, values, 0.0)

    def sum(self, values: Array) -> Array:
        return self._scatter(np.add.reduceat(values, self._starts)) if len(self._starts) else self._zeros()

    def count(self, mask: Array) -> Array:
        if not len(self._starts):
            return self._zeros()
        return self._scatter(np.add.reduceat(mask.view(np.uint8), self._starts, dtype=np.int64))

    def max(self, values: Array) -> Array:
        if not len(self._starts):
            return self._zeros()
        return self._scatter(np.maximum(np.maximum.reduceat(values, self._starts), 0.0))

    def spread(self, per_row: Array) -> Array:
        return np.repeat(per_row, self._lengths)

    def finite(self, values: Array) -> bool:
        return bool(np.isfinite(values).all())

    def all_within(self, values: Array, bound: float) -> bool:
        return bool(values.size == 0 or values.max() <= bound)

    def places(self, mask: Array) -> Array:
        return np.flatnonzero(mask)

    def rows_of(self, places: Array) -> Array:
        return np.searchsorted(self._ends, places, side="right")

    def sum_by(self, rows: Array, values: Array | None) -> Array:
        return np.bincount(rows, weights=values, minlength=len(self._lengths)).astype(np.float64)

    def host(self, values: Array) -> np.ndarray:
        return np.asarray(values)

    def _zeros(self) -> np.ndarray:
        return np.zeros(len(self._lengths))

    def _scatter(self, found: np.ndarray) -> np.ndarray:
        if self._whole:
            return found
        made = self._zeros()
        made[self._held] = found
        return made


class TorchSegments:
    """The same on a torch device; host memory is pinned so that copies overlap with arithmetic."""

    def __init__(self, offsets: np.ndarray, device: torch.device) -> None:
        import torch

        self._torch = torch
        self._device = device
        self._offsets = self._send(torch.from_numpy(np.ascontiguousarray(offsets, dtype=np.int64)))
        self._counts = self._offsets.diff()
        self._tokens = int(offsets[-1])
        self.lengths = self._counts.to(torch.float64)

    def load(self, values: np.ndarray) -> Array:
        # A copy: Arrow's memory is read-only, which torch warns about.
        sent = self._send(self._torch.from_numpy(np.array(values)))
        return sent if sent.dtype == self._torch.bool else sent.to(self._torch.float64)

    def exp(self, values: Array) -> Array:
        return values.exp()

    def where(self, mask: Array, values: Array) -> Array:
        return self._torch.where(mask, values, 0.0)

    def sum(self, values: Array) -> Array:
        return self._torch.segment_reduce(values, "sum", offsets=self._offsets, initial=0.0)

    def count(self, mask: Array) -> Array:
        return self.sum(mask.to(self._torch.float64))

    def max(self, values: Array) -> Array:
        return self._torch.segment_reduce(values, "max", offsets=self._offsets, initial=0.0)

    def spread(self, per_row: Array) -> Array:
        return per_row.repeat_interleave(self._counts, output_size=self._tokens)

    def finite(self, values: Array) -> bool:
        return bool(values.isfinite().all())

    def all_within(self, values: Array, bound: float) -> bool:
        return bool(values.numel() == 0 or values.max() <= bound)

    def places(self, mask: Array) -> Array:
        return mask.nonzero().squeeze(1)

    def rows_of(self, places: Array) -> Array:
        return self._torch.searchsorted(self._offsets[1:].contiguous(), places, right=True)

    def sum_by(self, rows: Array, values: Array | None) -> Array:
        added = self._torch.ones_like(rows, dtype=self._torch.float64) if values is None else values
        return self._torch.zeros_like(self.lengths).index_add(0, rows, added)

    def host(self, values: Array) -> np.ndarray:
        return np.asarray(values.cpu().numpy())

    def _send(self, values: torch.Tensor) -> torch.Tensor:
        if self._device.type != "cuda":
            return values.to(self._device)
        return values.pin_memory().to(self._device, non_blocking=True)


def choose_device(device: str) -> str:
    """Resolve ``auto``: a GPU where the machine has one that torch can use, else the CPU.

    Where no GPU driver is loaded ``auto`` does not import torch to find out: on a CPU that costs as much as a
    pass over 40 million tokens.

    Raises
    ------
    AuditError
        The device is not known, or not there.
    """
    if device not in DEVICES:
        msg = f"device {device!r}: expected auto, cpu or cuda.{closest(device, DEVICES[:3])}"
        raise AuditError(msg)
    if device == "auto":
        return "cuda" if Path("/dev/nvidiactl").exists() and _has_gpu() else "cpu"
    if device == "cuda" and not _has_gpu():
        msg = "device cuda: torch sees no GPU on this machine; use --device cpu."
        raise AuditError(msg)
    return device


def _has_gpu() -> bool:
    import torch

    return bool(torch.cuda.is_available())


def segments(offsets: np.ndarray, device: str) -> Segments:
    """Segment operations for a chunk on a resolved device; ``torch-cpu`` is the GPU's code on the CPU."""
    if device == "cpu":
        return NumpySegments(offsets)
    import torch

    return TorchSegments(offsets, torch.device("cuda" if device == "cuda" else "cpu"))

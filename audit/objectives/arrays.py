"""The few array operations of responses, on NumPy arrays or torch tensors alike.

What an objective gives to a response needs no torch, whose import takes a second; conformance tests and the
testbed, which have tensors, go through the same code. Operators and methods that both libraries spell alike
are used as they are.
"""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any, TypeVar

import numpy as np

Array = Any
"""A NumPy array or a torch tensor."""

silent = np.errstate(divide="ignore", over="ignore", invalid="ignore")
"""Decorates what divides by counts that may be 0: torch does not warn of it, and the result is looked at."""

Record = TypeVar("Record")


def library(values: Array) -> Any:
    """The module, ``numpy`` or ``torch``, that ``values`` belongs to."""
    if isinstance(values, np.ndarray):
        return np
    import torch

    return torch


def as_float(values: Array) -> Array:
    """Return ``values`` as float64, shape kept."""
    if isinstance(values, np.ndarray):
        return values.astype(np.float64)
    return values.double()


def at_least(values: Array, bound: float) -> Array:
    """Return ``values`` with what is below ``bound`` raised to it; NaN stays NaN."""
    return library(values).clip(values, bound, None)


def tiny(values: Array) -> float:
    """Smallest normal number of the type of ``values``: keeps a division by an empty sum finite."""
    return float(library(values).finfo(values.dtype).tiny)


def count_codes(index: Array) -> int:
    """Number of dense codes in ``index``, shape (R,), int64; 0 where it is empty."""
    return int(index.max()) + 1 if index.shape[0] else 0


def group_sum(values: Array, index: Array, num_groups: int) -> Array:
    """Sum ``values``, shape (R,), float64, over ``index``, shape (R,), int64 in [0, num_groups)."""
    if isinstance(values, np.ndarray):
        # Of no values at all NumPy counts integers.
        return np.bincount(index, weights=values, minlength=num_groups).astype(np.float64, copy=False)
    from audit import ragged

    return ragged.group_sum(values, index, num_groups)


def group_max(values: Array, index: Array, num_groups: int) -> Array:
    """Greatest of ``values``, shape (R,), float64, over ``index``: (num_groups,); -inf where none is."""
    if isinstance(values, np.ndarray):
        highest = np.full(num_groups, -np.inf)
        np.maximum.at(highest, index, values)
        return highest
    lowest = values.new_full((num_groups,), -np.inf)
    return lowest.scatter_reduce(0, index, values, "amax")


def as_tensors(record: Record) -> Record:
    """Return a dataclass of arrays as one of tensors, which share memory where that can be written to."""
    import torch

    def tensor(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            return torch.from_numpy(np.require(value, requirements="W"))
        if isinstance(value, dict):
            return {name: tensor(one) for name, one in value.items()}
        return value

    changed = {f.name: tensor(getattr(record, f.name)) for f in fields(record)}  # type: ignore[arg-type]
    return replace(record, **changed)  # type: ignore[type-var]

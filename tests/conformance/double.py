"""Frameworks in float64: what they cast to float32 stays double, so that formulas are compared.

Explicit ``dtype=torch.float32`` arguments are not touched; a case that meets one says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch


@contextmanager
def in_float64() -> Iterator[None]:
    """``Tensor.float()`` gives float64, and so does what torch makes of Python numbers."""
    plain: Any = torch.Tensor.float
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    torch.Tensor.float = torch.Tensor.double  # type: ignore[method-assign,assignment]
    try:
        yield
    finally:
        torch.Tensor.float = plain  # type: ignore[method-assign]
        torch.set_default_dtype(before)

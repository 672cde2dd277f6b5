"""The tokens of some consecutive responses, and what the sums over them share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, Literal

import numpy as np

from audit.facts.tokenpass.arrays import Array, Segments, segments

Policy = Literal["theta", "old", "ref", "sampler"]


class Chunk:
    """Arrays of shape (N,), float64, over R responses; log-ratios, ratios and the like are formed once.

    Parameters
    ----------
    offsets : ndarray, shape (R + 1,), int64
    values : mapping of str to ndarray, shape (N,)
        Token columns by name; NaN where a response was not logged. Absent: not logged at all.
    mask : ndarray, shape (N,), bool, or None
        Tokens that take loss; None: all of them.
    device : str
        ``cpu``, ``cuda`` or ``torch-cpu``; see :func:`audit.facts.tokenpass.arrays.choose_device`.
    """

    def __init__(
        self,
        offsets: np.ndarray,
        values: Mapping[str, np.ndarray],
        mask: np.ndarray | None = None,
        device: str = "cpu",
    ) -> None:
        self.offsets = offsets
        self.segments: Segments = segments(offsets, device)
        self._given = values
        self._given_mask = mask
        self._kept: dict[tuple[str, ...], Any] = {}

    @property
    def num_rows(self) -> int:
        """Number of responses R."""
        return len(self.offsets) - 1

    @cached_property
    def mask(self) -> Array | None:
        """Shape (N,), bool; None where every token takes loss."""
        return None if self._given_mask is None else self.segments.load(self._given_mask)

    @cached_property
    def loss_tokens(self) -> Array:
        """Loss tokens of each response, shape (R,), float64."""
        return self.segments.lengths if self.mask is None else self.segments.count(self.mask)

    def has(self, name: str) -> bool:
        """Whether token column ``name`` was logged."""
        return name in self._given

    def column(self, name: str) -> Array:
        """Token column ``name``, shape (N,)."""
        return self.once(("column", name), lambda: self.segments.load(self._given[name]))

    def loss_only(self, values: Array) -> Array:
        """``values``, shape (N,), with 0 at masked tokens, whatever stood there."""
        return values if self.mask is None else self.segments.where(self.mask, values)

    def gap(self, upper: Policy, lower: Policy) -> Array:
        """log pi_upper - log pi_lower, shape (N,), nats; 0 at masked tokens."""
        if ("gap", lower, upper) in self._kept:
            return self.once(("gap", upper, lower), lambda: -self.gap(lower, upper))
        return self.once(
            ("gap", upper, lower),
            lambda: self.loss_only(self.column(f"logp_{upper}") - self.column(f"logp_{lower}")),
        )

    def ratio(self, upper: Policy, lower: Policy) -> Array:
        """pi_upper / pi_lower, shape (N,); 1 at masked tokens."""
        return self.once(("ratio", upper, lower), lambda: self.segments.exp(self.gap(upper, lower)))

    def sum_of(self, name: tuple[str, ...], values: Callable[[], Array]) -> Array:
        """Sum per response, shape (R,), of an array that is 0 at masked tokens; formed once a ``name``."""
        return self.once(("sum", *name), lambda: self.segments.sum(values()))

    def once(self, name: tuple[str, ...], make: Callable[[], Any]) -> Any:
        """What ``make`` gives, formed once a ``name``."""
        if name not in self._kept:
            self._kept[name] = make()
        return self._kept[name]

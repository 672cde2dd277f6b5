"""Facts that count tokens: in a part of the response, of a probability, beyond a ratio, on a number grid.

They are computed where an analysis asks for them, and are none of the core. What the clip removed is rare, so
only those tokens are looked at one by one; how many tokens a part holds follows from cumulative counts.
"""

from __future__ import annotations

from typing import Literal

import msgspec
import numpy as np

from audit.facts.tokenpass.arrays import Array
from audit.facts.tokenpass.chunk import Chunk, Policy
from audit.facts.tokenpass.factor_values import Value, columns_of, value_of
from audit.facts.tokenpass.factors import PolicyFactor

Dimension = Literal["position", "tenth", "logp"]
"""``position``: place of the token in the response, from 0; ``tenth``: 10 · place / length, below 10;
``logp``: log pi_old of the token."""


class Within(msgspec.Struct, frozen=True, array_like=True, tag="within"):
    """Tokens of each response with low <= x < high."""

    of: Literal["loss", "zeroed", "mismatch"]
    """Loss tokens; those that the trust region removed; Σ |log pi_old - log pi_sampler| over loss tokens."""
    by: Dimension
    low: float | None
    """None: without a bound."""
    high: float | None
    factor: PolicyFactor | None = None
    """Whose trust region; only for ``zeroed``."""


class Beyond(msgspec.Struct, frozen=True, array_like=True, tag="beyond"):
    """Loss tokens of each response whose ratio pi_upper / pi_lower lies beyond a bound."""

    side: Literal["above", "below"]
    upper: Policy
    lower: Policy
    bound: float


class OnGrid(msgspec.Struct, frozen=True, array_like=True, tag="on_grid"):
    """Loss tokens whose log-prob is not 0 and is a number of a short format; ``any``: of whatever format."""

    policy: Policy
    format: Literal["bfloat16", "float16", "any"]


class Placeholder(msgspec.Struct, frozen=True, array_like=True, tag="placeholder"):
    """Loss tokens whose log-prob is exactly 0 where that of another policy lies below -1 nat."""

    policy: Policy
    other: Policy


Breakdown = Within | Beyond | OnGrid | Placeholder


def name_of(fact: Breakdown) -> str:
    """Canonical JSON: equal facts have equal names, and the name says what the fact is."""
    return msgspec.json.encode(fact).decode()


def parse(name: str) -> Breakdown | None:
    """The fact of a name, or None where it is not the name of one."""
    try:
        return msgspec.json.decode(name, type=Breakdown)
    except (msgspec.DecodeError, msgspec.ValidationError):
        return None


def needs(fact: Breakdown) -> tuple[str, ...]:
    """Token columns that the fact needs."""
    if isinstance(fact, Within):
        wanted = ["logp_old"] if fact.by == "logp" else []
        wanted += ["logp_old", "logp_sampler"] if fact.of == "mismatch" else []
        wanted += columns_of(fact.factor) if fact.factor is not None else []
        return tuple(dict.fromkeys(wanted))
    if isinstance(fact, Beyond):
        return f"logp_{fact.upper}", f"logp_{fact.lower}"
    if isinstance(fact, OnGrid):
        return (f"logp_{fact.policy}",)
    return f"logp_{fact.policy}", f"logp_{fact.other}"


@np.errstate(over="ignore", invalid="ignore")
def evaluate(chunk: Chunk, fact: Breakdown) -> Array:
    """The fact on a chunk, shape (R,), float64; the chunk holds every column that the fact needs."""
    if isinstance(fact, Beyond):
        ratio = chunk.ratio(fact.upper, fact.lower)
        return _count(chunk, ratio > fact.bound if fact.side == "above" else ratio < fact.bound)
    if isinstance(fact, Placeholder):
        zero = (chunk.column(f"logp_{fact.policy}") == 0) & (chunk.column(f"logp_{fact.other}") < -1.0)
        return _count(chunk, zero)
    if isinstance(fact, OnGrid):
        return _count(chunk, _on_grid(chunk, fact))
    if fact.of == "zeroed" and fact.factor is not None:
        return _zeroed(chunk, fact, fact.factor)
    return _from(chunk, fact, fact.low) - (0.0 if fact.high is None else _from(chunk, fact, fact.high))


def _count(chunk: Chunk, mask: Array) -> Array:
    return chunk.segments.count(mask if chunk.mask is None else mask & chunk.mask)


def _on_grid(chunk: Chunk, fact: OnGrid) -> Array:
    column = chunk.column(f"logp_{fact.policy}")
    if fact.format == "any":
        return (column != 0) & (column == column)  # noqa: PLR0124 - NaN is of no format
    values = np.asarray(chunk.segments.host(column), dtype=np.float32)
    if fact.format == "bfloat16":
        # The upper half of a float32 is a bfloat16.
        short = (values.view(np.uint32) & 0xFFFF) == 0
    else:
        short = values == values.astype(np.float16).astype(np.float32)
    return chunk.segments.load(short & (values != 0) & np.isfinite(values))


def _from(chunk: Chunk, fact: Within, edge: float | None) -> Array:
    """What the tokens with x >= edge come to; formed once for the two parts that share an edge."""
    low = -np.inf if edge is None else edge

    def made() -> Array:
        if fact.of == "mismatch":
            gap = abs(chunk.gap("old", "sampler"))
            return chunk.segments.sum(chunk.segments.where(_place(chunk, fact.by) >= low, gap))
        if chunk.mask is None and fact.by == "position":
            return (chunk.segments.lengths - max(low, 0.0)).clip(0.0, None)
        if chunk.mask is None and fact.by == "tenth":
            # 10 t / L >= low from t = ceil(low L / 10) on.
            return chunk.segments.lengths + (-chunk.segments.lengths * max(low, 0.0)) // 10
        return _count(chunk, _place(chunk, fact.by) >= low)

    return chunk.once(("from", fact.of, fact.by, str(edge)), made)


def _place(chunk: Chunk, by: Dimension) -> Array:
    """x of every token, shape (N,)."""
    if by == "logp":
        return chunk.column("logp_old")

    def made() -> Array:
        lengths = np.diff(chunk.offsets)
        place = np.arange(chunk.offsets[-1]) - np.repeat(chunk.offsets[:-1], lengths)
        scale = np.repeat(np.maximum(lengths, 1), lengths)
        return chunk.segments.load(place * 10.0 / scale if by == "tenth" else place.astype(np.float64))

    return chunk.once(("place", by), made)


def _zeroed(chunk: Chunk, fact: Within, factor: PolicyFactor) -> Array:
    key = msgspec.json.encode(factor).decode()
    value: Value = chunk.once(("factor", key), lambda: value_of(chunk, factor))
    if value.zeroed is None:
        return chunk.segments.lengths * 0.0
    if value.per_row:
        return value.zeroed * evaluate(chunk, Within("loss", fact.by, fact.low, fact.high))
    rows, at = chunk.once(("zeroed_at", key), lambda: _where(chunk, value))
    x = chunk.once(("zeroed_place", key, fact.by), lambda: _place_of(chunk, fact.by, rows, at))
    inside = x >= (-np.inf if fact.low is None else fact.low)
    if fact.high is not None:
        inside &= x < fact.high
    counted = np.bincount(rows[inside], minlength=chunk.num_rows).astype(np.float64)
    return chunk.segments.load(counted)


def _where(chunk: Chunk, value: Value) -> tuple[np.ndarray, np.ndarray]:
    """Row and place in the chunk of every loss token that was removed."""
    removed = value.zeroed if chunk.mask is None else value.zeroed & chunk.mask
    at = np.flatnonzero(chunk.segments.host(removed))
    return np.searchsorted(chunk.offsets, at, side="right") - 1, at


def _place_of(chunk: Chunk, by: Dimension, rows: np.ndarray, at: np.ndarray) -> np.ndarray:
    """x of the tokens ``at``, which lie in ``rows``."""
    if by == "logp":
        return np.asarray(chunk.segments.host(chunk.column("logp_old"))[at])
    place = (at - chunk.offsets[rows]).astype(np.float64)
    return np.asarray(place * 10.0 / np.diff(chunk.offsets)[rows]) if by == "tenth" else place

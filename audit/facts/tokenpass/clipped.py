"""PPO's clip on token ratios, as the ratios less the few tokens that it removes.

Sums over all tokens are shared by every clip of the same ratio; what a clip removes is rare, and only those
tokens are looked at one by one. That is a quarter of the arithmetic of a pass.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from audit.facts.tokenpass.arrays import Array
from audit.facts.tokenpass.chunk import Chunk, Policy
from audit.facts.tokenpass.factor_values import beyond
from audit.facts.tokenpass.factors import Factor, PolicyFactor
from audit.objectives.surrogates.clip import PPOClip

_LARGEST = 1e3
"""Ratios up to here are subtracted again without loss (1e-13 of a token's own); beyond, nothing is shared."""


class Clipped(NamedTuple):
    """The ratio of a chunk, and where a clip removed it."""

    below: Policy
    ratio: Array
    """Shape (N,), 0 at masked tokens."""
    removed: Array
    """Places of the removed loss tokens, int64."""
    rows: Array
    """Response of each of them."""
    count: Array
    """Removed loss tokens, shape (R,)."""
    some_left: Array
    """bool, shape (R,): not all loss tokens were removed."""


def clipped(chunk: Chunk, factor: Factor) -> Clipped | None:
    """The factor in this form; None where it is of another, or a ratio of the chunk is too large for it."""
    if not isinstance(factor, PolicyFactor) or not isinstance(factor.clip, PPOClip):
        return None
    given = factor.ratio
    if given.level != "token" or given.denominator == "theta" or given.corrections or given.clamp is not None:
        return None
    below: Policy = given.denominator
    bare = chunk.ratio("theta", below)
    if not chunk.once(("moderate", below), lambda: chunk.segments.all_within(bare, _LARGEST)):
        return None
    outside = beyond(bare, factor.clip, factor.sign)
    removed = chunk.segments.places(outside if chunk.mask is None else outside & chunk.mask)
    rows = chunk.segments.rows_of(removed)
    count = chunk.segments.sum_by(rows, None)
    ratio = chunk.once(("loss ratio", below), lambda: chunk.loss_only(bare))
    return Clipped(below, ratio, removed, rows, count, count < chunk.loss_tokens)


def total(chunk: Chunk, one: Clipped) -> Array:
    """Σ f, shape (R,)."""
    return _less_removed(chunk, one, f"ratio_theta_{one.below}", one.ratio)


def times(chunk: Chunk, one: Clipped, name: str, values: Callable[[], Array]) -> Array:
    """Σ f · g with any g per token, shape (R,)."""
    name = f"ratio_theta_{one.below} {name}"
    return _less_removed(chunk, one, name, chunk.once((name,), lambda: one.ratio * values()))


def square(chunk: Chunk, one: Clipped) -> Array:
    """Σ f², shape (R,)."""
    return times(chunk, one, "itself", lambda: one.ratio)


def _less_removed(chunk: Chunk, one: Clipped, name: str, values: Array) -> Array:
    """Sum of the values of the tokens that are left; exactly 0 where none is, not even rounding."""
    whole = chunk.sum_of((name,), lambda: values)
    return (whole - chunk.segments.sum_by(one.rows, values[one.removed])) * one.some_left

"""Facts about factors: sums over the loss tokens of a response, named by what they are."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from audit.facts.tokenpass import clipped
from audit.facts.tokenpass.arrays import Array
from audit.facts.tokenpass.chunk import Chunk
from audit.facts.tokenpass.factor_values import Value, columns_of, value_of
from audit.facts.tokenpass.factors import Factor, PolicyFactor


class FactorFact(msgspec.Struct, frozen=True, array_like=True):
    """One fact, of one factor f or two."""

    of: Literal["sum", "zeroed", "counted", "dot"]
    """Σ f; tokens that the trust region removed; tokens that stay in the normaliser; Σ f · g."""
    factors: Annotated[tuple[Factor, ...], msgspec.Meta(min_length=1, max_length=2)]

    @property
    def name(self) -> str:
        """Canonical JSON: equal facts have equal names, and the name says what the fact is."""
        return msgspec.json.encode(self).decode()


def total(factor: Factor) -> FactorFact:
    """Σ f."""
    return FactorFact("sum", (factor,))


def zeroed(factor: PolicyFactor) -> FactorFact:
    """Loss tokens that the trust region removed."""
    return FactorFact("zeroed", (factor,))


def counted(factor: PolicyFactor) -> FactorFact:
    """Loss tokens that the corrections leave in the normaliser."""
    return FactorFact("counted", (factor,))


def dot(a: Factor, b: Factor) -> FactorFact:
    """Σ f · g; the same fact whichever comes first."""
    first, second = sorted((a, b), key=msgspec.json.encode)
    return FactorFact("dot", (first, second))


def parse(name: str) -> FactorFact | None:
    """The fact of a name, or None where it is not the name of one."""
    try:
        return msgspec.json.decode(name, type=FactorFact)
    except (msgspec.DecodeError, msgspec.ValidationError):
        return None


def needs(fact: FactorFact) -> tuple[str, ...]:
    """Token columns that the fact needs."""
    return tuple(dict.fromkeys(column for factor in fact.factors for column in columns_of(factor)))


def evaluate(chunk: Chunk, fact: FactorFact) -> Array:
    """The fact on a chunk that has the columns of :func:`needs`, shape (R,), float64."""
    first, last = fact.factors[0], fact.factors[-1]
    if fact.of == "counted":
        return _counted(chunk, first)
    if fact.of == "zeroed":
        return _zeroed(chunk, first)
    if fact.of == "sum":
        return _sum(chunk, first)
    return _dot(chunk, first, last)


_VALUES: dict[Factor, tuple[str, ...]] = {}


def _key(factor: Factor) -> tuple[str, ...]:
    """Encoded once per process: structs are hashable, and their JSON is not free."""
    found = _VALUES.get(factor)
    if found is None:
        found = _VALUES[factor] = ("factor", msgspec.json.encode(factor).decode())
    return found


def _value(chunk: Chunk, factor: Factor) -> Value:
    found: Value = chunk.once(_key(factor), lambda: value_of(chunk, factor))
    return found


def _clipped(chunk: Chunk, factor: Factor) -> clipped.Clipped | None:
    found: clipped.Clipped | None = chunk.once(
        ("clipped", *_key(factor)), lambda: clipped.clipped(chunk, factor)
    )
    return found


def _sum(chunk: Chunk, factor: Factor) -> Array:
    if (one := _clipped(chunk, factor)) is not None:
        return clipped.total(chunk, one)
    value = _value(chunk, factor)
    if value.per_row:
        return value.values * chunk.loss_tokens
    return chunk.sum_of((value.name,) if value.name else _key(factor), lambda: value.values)


def _dot(chunk: Chunk, first: Factor, last: Factor) -> Array:
    if first == last and (one := _clipped(chunk, first)) is not None:
        return clipped.square(chunk, one)
    for factor, other in ((first, last), (last, first)):
        one = _clipped(chunk, factor)
        if one is not None and _clipped(chunk, other) is None:
            return _clipped_times(chunk, one, factor, other)
    a, b = _value(chunk, first), _value(chunk, last)
    if a.per_row or b.per_row:
        constant, other = (a, last) if a.per_row else (b, first)
        return constant.values * _sum(chunk, other)
    if a.name and a.name == b.name:
        return chunk.sum_of((f"{a.name} itself",), lambda: a.values * a.values)
    return chunk.segments.sum(a.values * b.values)


def _clipped_times(chunk: Chunk, one: clipped.Clipped, factor: Factor, other: Factor) -> Array:
    value = _value(chunk, other)
    if value.per_row:
        return value.values * _sum(chunk, factor)
    return clipped.times(chunk, one, _key(other)[1], lambda: value.values)


def _zeroed(chunk: Chunk, factor: Factor) -> Array:
    if (one := _clipped(chunk, factor)) is not None:
        return one.count
    value = _value(chunk, factor)
    if value.zeroed is None:
        return chunk.segments.lengths * 0.0
    if value.per_row:
        return value.zeroed * chunk.loss_tokens
    return chunk.segments.count(value.zeroed if chunk.mask is None else value.zeroed & chunk.mask)


def _counted(chunk: Chunk, factor: Factor) -> Array:
    from audit.facts.tokenpass.factor_values import as_tokens
    from audit.objectives.corrections import correction_weight

    tokens = as_tokens(chunk)
    advantage = tokens.layout.spread(tokens.layout.lengths * 0.0 + (-1.0 if factor.sign < 0 else 1.0))
    kept = tokens.mask
    for correction in factor.ratio.corrections:
        if correction.leaves_denominator:
            kept = kept & (correction_weight(tokens, correction, advantage) > 0)
    summed = tokens.layout.sum(kept.double())
    return summed if isinstance(chunk.loss_tokens, type(summed)) else summed.numpy()

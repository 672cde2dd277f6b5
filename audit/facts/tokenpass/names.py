"""Fact names, and what each stands for."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from audit.errors import UnknownName
from audit.facts.tokenpass import breakdowns, factor_facts
from audit.facts.tokenpass.arrays import Array
from audit.facts.tokenpass.chunk import Chunk
from audit.facts.tokenpass.sums import SUMS

LOGGED = "logged"
"""1 where the number of tokens is known, else 0."""
TEXT_KEY = "text_key"
"""See :func:`audit.facts.tokenpass.text_key.text_keys`."""
LAST_TOKEN = "last_token"
"""Id of the last token of the response; -1 where there is none."""
INTEGERS = frozenset({"tokens", "loss_tokens", LOGGED, TEXT_KEY, LAST_TOKEN})
"""Facts of type int64; all others are float64."""


def dtype_of(name: str) -> type[np.generic]:
    """int64 for counts and keys, else float64."""
    return np.int64 if name in INTEGERS else np.float64


class Fact(NamedTuple):
    """One fact, ready to be computed."""

    name: str
    needs: tuple[str, ...]
    """Token columns."""
    of: Callable[[Chunk], Array] | None
    """None: not made from a chunk."""


@lru_cache(maxsize=4096)
def read_name(name: str) -> Fact:
    """The fact of a name.

    Raises
    ------
    UnknownName
        There is no such fact.
    """
    if name in SUMS:
        return Fact(name, SUMS[name].needs, SUMS[name].of)
    if name == LOGGED:
        return Fact(name, (), None)
    if name in (TEXT_KEY, LAST_TOKEN):
        return Fact(name, ("token_ids",), None)
    if (part := breakdowns.parse(name)) is not None:
        return Fact(name, breakdowns.needs(part), lambda chunk: breakdowns.evaluate(chunk, part))
    fact = factor_facts.parse(name)
    if fact is None:
        raise UnknownName.of("fact", name, (*SUMS, LOGGED, TEXT_KEY, LAST_TOKEN))
    return Fact(name, factor_facts.needs(fact), lambda chunk: factor_facts.evaluate(chunk, fact))

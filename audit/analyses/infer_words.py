"""What a log cannot tell apart, in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from audit.analyses.infer_candidate import Candidate

_NUMBERS = ("epsilon",)
_CHOICES = (
    "baseline",
    "scale",
    "ddof",
    "k",
    "kl",
    "enters",
    "missing",
    "not_counted",
    "singleton",
    "grouping",
)
_SIZES = ("reward_kl", "length")
_SAID = {
    "reward_kl": "coefficient of the KL in the reward",
    "length": "price of length",
    "not_counted": "rows left out of the statistics",
    "missing": "what a null reward is",
    "kl": "policy and estimator of the KL",
}


def not_identifiable(equivalent: Sequence[Candidate]) -> list[str]:
    """One phrase for each choice in which candidates that fit alike differ.

    ``epsilon between 0 and 1e-06``; ``baseline group_mean or none``.
    """
    said = []
    for field in (*_CHOICES, *_NUMBERS, *_SIZES):
        values = list(dict.fromkeys(getattr(candidate, field) for candidate in equivalent))
        if len(values) > 1:
            said.append(f"{_SAID.get(field, field)} {_listed(values, number=field in (*_NUMBERS, *_SIZES))}")
    for field, name in (("weights", "weights of the components"), ("overlong", "penalty of length")):
        values = list({msgspec.json.encode(getattr(candidate, field)) for candidate in equivalent})
        if len(values) > 1:
            said.append(f"{name}, {len(values)} of which fit alike")
    return said


def _listed(values: list[Any], *, number: bool) -> str:
    numbers = sorted(value for value in values if value is not None)
    if number and len(numbers) > 1:
        return f"between {numbers[0]:g} and {numbers[-1]:g}" + (", or none" if None in values else "")
    named = ["none" if v is None else f"{v:g}" if isinstance(v, float) else str(v) for v in values]
    return f"{', '.join(named[:-1])} or {named[-1]}"


def in_words(equivalent: Sequence[Candidate]) -> str:
    """The same as one sentence; empty where one candidate alone fits."""
    said = not_identifiable(equivalent)
    return f"not identifiable from this log: {'; '.join(said)}" if said else ""

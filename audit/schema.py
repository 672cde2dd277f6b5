"""The rollout schema as Arrow types, read from ``schemas/rollout.v1.json``, and what a log can answer.

The JSON file is the contract for every language; nothing here repeats it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from importlib import resources
from typing import Any, Literal

import msgspec
import pyarrow as pa

_DOCUMENT: dict[str, Any] = json.loads(
    resources.files("audit.schemas").joinpath("rollout.v1.json").read_text(encoding="utf-8")
)

_ARROW_TYPES: dict[str, pa.DataType] = {
    "int64": pa.int64(),
    "int32": pa.int32(),
    "double": pa.float64(),
    "bool": pa.bool_(),
    "string": pa.string(),
    "timestamp[us, tz=UTC]": pa.timestamp("us", tz="UTC"),
    "list<int32>": pa.list_(pa.int32()),
    "list<bool>": pa.list_(pa.bool_()),
    "list<float>": pa.list_(pa.float32()),
    "map<string, double>": pa.map_(pa.string(), pa.float64()),
}


class Column(msgspec.Struct, frozen=True):
    """One column of the rollout schema, as rollout.v1.json describes it."""

    name: str
    type: str
    """Arrow type as text, a key of the JSON contract (``list<float>``)."""
    required: bool
    nullable: bool
    meaning: str
    unit: str | None = None
    default: int | bool | None = None
    """What an absent column or a null reads as; None: it reads as null."""

    @property
    def arrow_type(self) -> pa.DataType:
        """The canonical :class:`pyarrow.DataType`."""
        return _ARROW_TYPES[self.type]

    @property
    def is_token_list(self) -> bool:
        """True where a row holds one value per response token."""
        return self.type.startswith("list<")


class Tier(msgspec.Struct, frozen=True):
    """One capability tier: the columns that it adds to the tiers below."""

    tier: int
    name: str
    all: tuple[str, ...] = ()
    any: tuple[str, ...] = ()

    def added_by(self, columns: frozenset[str]) -> bool:
        """Tell whether ``columns`` hold what this tier adds, whatever the tiers below."""
        return columns.issuperset(self.all) and (not self.any or not columns.isdisjoint(self.any))


VERSION: str = _DOCUMENT["schema"]
"""Name and version of the schema, ``rlaudit.rollout.v1``."""

COLUMNS: tuple[Column, ...] = msgspec.convert(_DOCUMENT["columns"], tuple[Column, ...])
"""Every column, in canonical order."""

BY_NAME: dict[str, Column] = {column.name: column for column in COLUMNS}

REQUIRED: tuple[str, ...] = tuple(column.name for column in COLUMNS if column.required)

TOKEN_LISTS: tuple[str, ...] = tuple(column.name for column in COLUMNS if column.is_token_list)
"""Columns with one value per response token; within a row all have one length."""

LOG_PROBS: tuple[str, ...] = tuple(name for name in TOKEN_LISTS if name.startswith("logp_"))

KEY: tuple[str, ...] = tuple(_DOCUMENT["key"])
"""Columns that together name one row of a run."""

TIERS: tuple[Tier, ...] = msgspec.convert(_DOCUMENT["tiers"], tuple[Tier, ...])


def arrow_schema() -> pa.Schema:
    """Return the Arrow schema that a writer follows: canonical order, types and nullability."""
    return pa.schema([pa.field(c.name, c.arrow_type, nullable=c.nullable) for c in COLUMNS])


def tier_of(columns: Iterable[str]) -> int:
    """Return the highest capability tier that a log with these columns reaches.

    A tier counts only when all lower ones hold: a log with sampler log-probs but without a reference is
    tier 4, although checks that need the sampler alone can run on it.

    Parameters
    ----------
    columns : iterable of str
        Names of the columns that hold at least one value.

    Returns
    -------
    int
        0 (not even rewards and groups) to 6.
    """
    present = frozenset(columns)
    reached = 0
    for tier in TIERS:
        if not tier.added_by(present):
            break
        reached = tier.tier
    return reached


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that is wrong, or doubtful, about a log; the record behind ``rlaudit check --json``."""

    id: str
    """Reason code, stable across versions: ``reward.null``, ``tokens.length-mismatch``, …"""
    severity: Literal["error", "warning", "info"]
    summary: str
    column: str | None = None
    rows: int = 0
    """Responses concerned; 0 where the problem is not one of rows."""
    steps: tuple[int, ...] | None = None
    """The first steps concerned (a few, ascending); None where it is not bound to steps."""
    certainty: Literal["certain", "likely"] = "certain"
    hint: str = ""

"""What a page of results was made from: the cases, and the fields that an objective has."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterable
from typing import Any

import msgspec

from audit.objectives.objective import Objective
from conformance.case import SEEDS, Case


def fingerprint(cases: Iterable[Case]) -> str:
    """Sixteen hexadecimal digits that change with any case and with any field of an objective."""
    told = {
        "seeds": SEEDS,
        "fields": fields(),
        "cases": [
            [c.id, c.verified, c.precision, dataclasses.asdict(c.kind), c.objective.to_dict(), c.config]
            for c in cases
        ],
    }
    text = json.dumps(told, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def fields() -> dict[str, list[str]]:
    """Names of the fields of every part and surrogate."""
    schema: dict[str, Any] = msgspec.json.schema(Objective)
    return {name: sorted(part.get("properties", ())) for name, part in sorted(schema["$defs"].items())}

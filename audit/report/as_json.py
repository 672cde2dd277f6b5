"""Results as JSON: one form for ``--json``, report files and schemas."""

from __future__ import annotations

from typing import Any

import msgspec


def as_json(result: Any) -> str:
    """Return a result by its contract, indented; NaN and infinity become null."""
    return msgspec.json.format(msgspec.json.encode(result), indent=2).decode() + "\n"

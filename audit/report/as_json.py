"""Results as JSON: one form for ``--json``, report files and schemas."""

from __future__ import annotations

import json
from typing import Any

import msgspec


def as_json(result: Any) -> str:
    """Return a result by its contract, indented; NaN and infinity become null.

    Characters that do not print (escape codes, direction marks) are written as ``\\u`` escapes: the same
    JSON, and harmless on a terminal.
    """
    text = msgspec.json.format(msgspec.json.encode(result), indent=2).decode()
    if not text.isascii():
        text = "".join(c if c.isascii() or c.isprintable() else json.dumps(c)[1:-1] for c in text)
    return text.replace("\x7f", "\\u007f") + "\n"

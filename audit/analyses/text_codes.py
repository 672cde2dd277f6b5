"""Which responses of a run say the same: a code per text, from token ids where logged, else from text."""

from __future__ import annotations

import numpy as np

from audit.facts.rows import RunRows
from audit.facts.tokenpass.text_key import NO_TEXT
from audit.logs.arrays import codes_of

NEEDS = ("token_ids", "response")
"""Columns of which one is enough."""


def text_codes(rows: RunRows) -> np.ndarray | None:
    """Equal for equal responses, int64, shape (R,); -1 for a row without text; None where none was logged."""
    if rows.has("token_ids") and rows.facts is not None:
        keys = rows.facts["text_key"]
        _, codes = np.unique(keys, return_inverse=True)
        return np.where(keys == NO_TEXT, -1, codes)
    return column_codes(rows, "response")


def column_codes(rows: RunRows, name: str) -> np.ndarray | None:
    """The same for a column of strings."""
    if not rows.has(name):
        return None
    column = rows.run.responses([name])[name].dictionary_encode().unify_dictionaries()
    parts = [codes_of(chunk) for chunk in column.chunks]
    return np.concatenate([np.zeros(0, dtype=np.int64), *parts])

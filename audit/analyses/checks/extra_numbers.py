"""Numbers that a trainer put beside the schema, in the JSON objects of the column ``extra``."""

from __future__ import annotations

import json

import numpy as np
import pyarrow.compute as pc

from audit.logs import Run

MOST = 64
"""Names that are looked at."""


def extra_numbers(run: Run) -> dict[str, np.ndarray]:
    """Numbers at the top of the objects, by name, float64, shape (R,); NaN where a row has none."""
    texts = run.responses(["extra"])["extra"].combine_chunks().dictionary_encode()
    found: dict[str, np.ndarray] = {}
    objects = [_numbers(text) for text in texts.dictionary.to_pylist()]
    places = pc.fill_null(texts.indices, -1).to_numpy(zero_copy_only=False)
    for name in sorted({name for held in objects for name in held})[:MOST]:
        own = np.array([held.get(name, np.nan) for held in objects] + [np.nan])
        found[name] = own[places]
    return found


def _numbers(text: str) -> dict[str, float]:
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    if not isinstance(content, dict):
        return {}
    kinds = (int, float, bool)
    return {k: float(v) for k, v in content.items() if isinstance(v, kinds) and abs(v) < 1e300}

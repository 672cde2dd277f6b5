"""Turns whose token ids hold the whole trajectory so far: whether each begins with the turn before."""

from __future__ import annotations

import numpy as np

from audit.analyses.checks.token_batch import TokenBatch

FIRST, EXTENDS = -2, -1
"""No turn came before; the turn before is its beginning. Otherwise: the first place at which they differ."""
LEAST = 4
"""Shorter turns begin another by chance; heuristic."""


class TurnIds:
    """Compares each turn with the one before it of its trajectory, in file order."""

    def __init__(self) -> None:
        self._last: dict[object, tuple[int, np.ndarray]] = {}

    def __call__(self, tokens: TokenBatch) -> dict[str, np.ndarray]:
        """First differing place of each response."""
        made = np.full(tokens.num_rows, FIRST, dtype=np.int64)
        rows = zip(tokens.plain("trajectory_id"), tokens.plain("turn"), strict=True)
        for k, (trajectory, turn) in enumerate(rows):
            if trajectory is None or not isinstance(turn, int):
                continue
            own = tokens.ids[tokens.starts[k] : tokens.starts[k + 1]]
            before = self._last.get(trajectory)
            if before is not None and turn > before[0] and len(before[1]) >= LEAST:
                made[k] = _difference(before[1], own)
            self._last[trajectory] = (turn, own.astype(np.int32))
        return {"turn_differs": made}


def _difference(before: np.ndarray, own: np.ndarray) -> int:
    size = min(len(before), len(own))
    apart = np.flatnonzero(before[:size] != own[:size])
    if len(apart):
        return int(apart[0])
    if len(own) == len(before):
        # The same answer twice goes on from nothing.
        return FIRST
    return EXTENDS if len(own) > len(before) else size

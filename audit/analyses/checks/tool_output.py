"""Tool output that takes loss: spans between the ids that begin and end masked spans elsewhere."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from audit.analyses.checks.look import Entry, Look, problem
from audit.analyses.checks.token_batch import TokenBatch
from audit.schema import Problem

SPANS = 5
ALIKE = 0.6
"""Share of masked spans that must begin, and end, with one id; heuristic."""
RARE = 0.5
"""Share of the beginning ids that may take loss before they pass for the policy's own; heuristic."""


class ToolOutput:
    """Measures by the ids around masked spans, which the first batch settles."""

    def __init__(self) -> None:
        self._marks: tuple[int, int] | None = None
        self._settled = False

    def __call__(self, tokens: TokenBatch) -> dict[str, np.ndarray]:
        """Loss tokens inside spans that look like tool output, per response."""
        if not tokens.has("token_ids", "loss_mask"):
            return {}
        if not self._settled:
            self._marks, self._settled = _marks(tokens), True
        if self._marks is None:
            return {"tool_loss": np.zeros(tokens.num_rows, dtype=np.int64)}
        begin, end = self._marks
        ids = tokens.ids
        loss = np.ones(len(ids), dtype=bool) if tokens.masked is None else ~tokens.masked
        starts, ends = np.flatnonzero((ids == begin) & loss), np.flatnonzero(ids == end)
        after = np.searchsorted(ends, starts)
        starts, after = starts[after < len(ends)], after[after < len(ends)]
        stops = ends[after]
        same = tokens.row[starts] == tokens.row[stops]
        inside = np.zeros(len(ids) + 1, dtype=np.int64)
        np.add.at(inside, starts[same], 1)
        np.add.at(inside, stops[same] + 1, -1)
        return {"tool_loss": tokens.count((np.cumsum(inside)[:-1] > 0) & loss)}


def _marks(tokens: TokenBatch) -> tuple[int, int] | None:
    """The ids with which masked spans begin and end, where they share them."""
    masked = tokens.masked
    if masked is None:
        return None
    ids, row = tokens.ids, tokens.row
    joined = masked[1:] & masked[:-1] & (row[1:] == row[:-1])
    first = masked & ~np.concatenate([[False], joined])
    last = masked & ~np.concatenate([joined, [False]])
    if first.sum() < SPANS:
        return None
    found = []
    for edge in (first, last):
        values, counts = np.unique(ids[edge], return_counts=True)
        if counts.max() < ALIKE * edge.sum():
            return None
        found.append(int(values[counts.argmax()]))
    begin, end = found
    own = ids == begin
    loose = (own & ~masked).sum() > RARE * own.sum() or (own & first).sum() < ALIKE * (own & masked).sum()
    return None if loose or begin == end else (begin, end)


def _find(look: Look) -> Iterator[Problem]:
    if not look.tokens.has("tool_loss"):
        return
    found = look.tokens["tool_loss"]
    if not found.any():
        return
    yield problem(
        look,
        "mask.tool-output",
        found > 0,
        f"{int(found.sum())} tokens of {int((found > 0).sum())} responses take loss inside spans that begin "
        "and end like the masked spans of other responses: unmasked tokens inside tool output.",
        column="loss_mask",
        certainty="likely",
        hint="The policy did not choose these tokens: mask every observation.",
    )


CHECK = Entry(
    "tool output that takes loss",
    {"mask.tool-output": "loss tokens inside spans that are masked elsewhere"},
    _find,
    ("token_ids", "loss_mask"),
)

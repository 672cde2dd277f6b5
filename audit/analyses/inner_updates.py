"""Where an update stands among those on one sampled batch, and what the ratio is at the first of them."""

from __future__ import annotations

import msgspec
import numpy as np

from audit.facts.rows import RunRows, dense

ROUNDING = 1e-6
"""|log rho| up to here is rounding of float32 log-probs; heuristic."""


class FirstUpdate(msgspec.Struct, frozen=True):
    """The policy ratio at the first update on each sampled batch, where nothing was updated yet."""

    responses: int
    largest: float
    """max |log rho| over their tokens; 0 where logp_old is the policy's own."""
    typical: float
    """Root mean square of log rho over their tokens."""
    exact: bool
    """largest is rounding."""
    always_one: bool
    """So it is in every later update too."""


def inner_update(rows: RunRows) -> np.ndarray:
    """Rank of each response's update among the updates on the same sampled batch, from 0; int64, shape (R,).

    A sampled batch is a ``generation_batch`` where logged, else a step.

    Raises
    ------
    BadLog
        step or update is null where it is needed.
    """
    update = rows.update
    sampled = rows.numpy("generation_batch") if rows.has("generation_batch") else rows.step.astype(float)
    batch = dense(np.nan_to_num(sampled, nan=-1.0))
    pairs, at = np.unique(np.column_stack([batch, update]), axis=0, return_inverse=True)
    start = np.searchsorted(pairs[:, 0], pairs[:, 0], side="left")
    rank = np.arange(len(pairs)) - start
    return np.asarray(rank[at.reshape(-1)], dtype=np.int64)


def first_update(rows: RunRows, use: np.ndarray) -> FirstUpdate | None:
    """Look at the ratio theta / old where no update came before; None where no response is such.

    Parameters
    ----------
    use : ndarray, shape (R,), bool
        Responses that take loss.

    Raises
    ------
    MissingColumn, BadLog
    """
    facts = rows.facts
    if facts is None or not use.any():
        return None
    facts.read(["log_ratio_max", "log_ratio_square", "loss_tokens"])
    largest = facts["log_ratio_max"]
    known = use & np.isfinite(largest)
    first = known & (inner_update(rows) == 0) & (rows.epoch == rows.epoch[use].min())
    if not first.any():
        return None
    top = float(largest[first].max())
    square = facts["log_ratio_square"][first].sum() / max(facts["loss_tokens"][first].sum(), 1)
    return FirstUpdate(
        responses=int(first.sum()),
        largest=top,
        typical=float(np.sqrt(square)),
        exact=top <= ROUNDING,
        always_one=float(largest[known].max()) <= ROUNDING,
    )

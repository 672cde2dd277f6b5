"""Arrow list columns as flat NumPy arrays, without a copy where nothing has to be filled in."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from audit.errors import BadLog
from audit.logs.arrays import to_numpy, valid

TOKEN_COLUMNS = (
    *("token_ids", "loss_mask", "logp_theta", "logp_old", "logp_ref", "logp_sampler"),
    *("token_advantage", "value", "entropy"),
)
"""The token lists that say how long a response is, the first of them first."""


def row_lengths(batch: pa.RecordBatch, present: list[str], first_row: int) -> np.ndarray:
    """Tokens of each response by its token lists, else by its length; int64, shape (R,); -1 where not logged.

    Raises
    ------
    BadLog
        The token lists of a row have different lengths.
    """
    found: np.ndarray | None = None
    for name in present:
        column = batch[name]
        known = np.where(valid(column), np.diff(to_numpy(column.offsets)), -1).astype(np.int64)
        if found is None:
            found = known
            continue
        clash = (found >= 0) & (known >= 0) & (found != known)
        if clash.any():
            at = int(np.flatnonzero(clash)[0])
            msg = (
                f"row {first_row + at}: {name} has {known[at]} tokens, another token list {found[at]}; "
                "all token lists of a row must have one length (rlaudit check lists every such row)."
            )
            raise BadLog(msg)
        found = np.where(found < 0, known, found)
    if "length" in batch.schema.names:
        column = batch["length"]
        length = to_numpy(pc.fill_null(column, -1) if column.null_count else column).astype(np.int64)
        found = length if found is None else np.where(found < 0, length, found)
    return np.full(batch.num_rows, -1, dtype=np.int64) if found is None else np.asarray(found)


def list_values(column: pa.Array, lengths: np.ndarray) -> np.ndarray:
    """Values of a list column, shape (N,); NaN for each token of a row whose list is null (not logged)."""
    values = to_numpy(column.flatten())
    if len(values) == int(lengths.sum()):
        return values
    filled = np.full(int(lengths.sum()), np.nan)
    filled[np.repeat(valid(column), lengths)] = values
    return filled


def list_mask(column: pa.Array, lengths: np.ndarray) -> np.ndarray | None:
    """Loss mask, bool, shape (N,), true where not logged; None where every token takes loss."""
    given = column.flatten()
    # A null is no mask: the token takes loss.
    values = to_numpy(given if given.null_count == 0 else pc.fill_null(given, True)).astype(bool)
    if values.all():
        return None
    if len(values) == int(lengths.sum()):
        return values
    filled = np.ones(int(lengths.sum()), dtype=bool)
    filled[np.repeat(valid(column), lengths)] = values
    return filled

"""Arrow list columns as flat NumPy arrays, without a copy where nothing has to be filled in."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from audit.errors import BadLog

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
        size = pc.list_value_length(batch[name])
        known = np.asarray(pc.fill_null(size, -1).to_numpy(zero_copy_only=False), dtype=np.int64)
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
        length = np.asarray(pc.fill_null(batch["length"], -1).to_numpy(zero_copy_only=False), dtype=np.int64)
        found = length if found is None else np.where(found < 0, length, found)
    return np.full(batch.num_rows, -1, dtype=np.int64) if found is None else np.asarray(found)


def list_values(column: pa.Array, lengths: np.ndarray) -> np.ndarray:
    """Values of a list column, shape (N,); NaN for each token of a row whose list is null (not logged)."""
    values = column.flatten().to_numpy(zero_copy_only=False)
    if len(values) == int(lengths.sum()):
        return np.asarray(values)
    filled = np.full(int(lengths.sum()), np.nan)
    filled[np.repeat(np.asarray(column.is_valid()), lengths)] = values
    return filled


def list_mask(column: pa.Array, lengths: np.ndarray) -> np.ndarray | None:
    """Loss mask, bool, shape (N,), true where not logged; None where every token takes loss."""
    values = np.asarray(pc.fill_null(column.flatten(), True).to_numpy(zero_copy_only=False), dtype=bool)
    if values.all():
        return None
    if len(values) == int(lengths.sum()):
        return values
    filled = np.ones(int(lengths.sum()), dtype=bool)
    filled[np.repeat(np.asarray(column.is_valid()), lengths)] = values
    return filled

"""Arrow batches of a rollout log → ragged token tensors."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch
from torch import Tensor

from audit.errors import BadLog, MissingColumn
from audit.logs import Run
from audit.objectives.batch import Tokens
from audit.ragged import Layout

LOG_PROBS = ("logp_theta", "logp_old", "logp_ref", "logp_sampler")
VALUES = (*LOG_PROBS, "token_advantage", "value", "entropy")
TOKEN_COLUMNS = ("token_ids", "loss_mask", *VALUES)


def token_batches(run: Run, *, max_tokens: int = 1_000_000) -> Iterator[Tokens]:
    """Stream the tokens of a run in row order, a bounded number at a time.

    A log without token lists but with response lengths yields tokens that have a mask and nothing else.

    Raises
    ------
    MissingColumn
        The log has neither token lists nor lengths in tokens.
    BadLog
        The token lists of a response differ in length.
    """
    present = [name for name in TOKEN_COLUMNS if name in run.columns]
    if not present and ("length" not in run.columns or run.manifest.length_unit != "tokens"):
        raise MissingColumn.needed_for(
            "token_ids", "token weights", run.columns, hint="Or length, in tokens."
        )
    in_tokens = "length" in run.columns and run.manifest.length_unit == "tokens"
    columns = [*present, "length"] if in_tokens else present
    first = 0
    for batch in run.batches(columns, max_tokens=max_tokens):
        yield to_tokens(batch, present, first_row=first)
        first += batch.num_rows


def to_tokens(batch: pa.RecordBatch, present: list[str], *, first_row: int = 0) -> Tokens:
    """Build token tensors, float64, from the list columns ``present`` of one batch of R rows.

    A response whose list is null in one column (not logged) has NaN there, so nothing is invented; one
    without any list has as many such tokens as its ``length`` says, and none where that is null too.
    """
    given = row_lengths(batch, present, first_row)
    lengths = np.maximum(given, 0)
    layout = Layout.from_lengths(torch.from_numpy(np.array(lengths)))
    columns = {name: _values(batch[name], lengths) for name in present if name in VALUES}
    if "loss_mask" in present:
        mask = _mask(batch["loss_mask"], lengths)
    else:
        mask = torch.ones(layout.num_values, dtype=torch.bool)
    return Tokens(layout=layout, mask=mask, logged=torch.from_numpy(given >= 0), **columns)


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
    assert found is not None
    return np.asarray(found)


def _values(column: pa.Array, lengths: np.ndarray) -> Tensor:
    flat = column.flatten()
    values = np.asarray(flat.to_numpy(zero_copy_only=False), dtype=np.float64)
    if column.null_count == 0:
        return torch.from_numpy(np.array(values, copy=True))
    filled = np.full(int(lengths.sum()), np.nan)
    filled[np.repeat(~np.asarray(column.is_null()), lengths)] = values
    return torch.from_numpy(filled)


def _mask(column: pa.Array, lengths: np.ndarray) -> Tensor:
    flat = column.flatten()
    values = np.asarray(pc.fill_null(flat, True).to_numpy(zero_copy_only=False), dtype=bool)
    if column.null_count == 0:
        return torch.from_numpy(np.array(values, copy=True))
    filled = np.ones(int(lengths.sum()), dtype=bool)
    filled[np.repeat(~np.asarray(column.is_null()), lengths)] = values
    return torch.from_numpy(filled)

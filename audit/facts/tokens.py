"""Arrow batches of a rollout log → ragged token tensors."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import torch

from audit.errors import MissingColumn
from audit.facts.tokenpass.lists import TOKEN_COLUMNS, list_mask, list_values, row_lengths
from audit.logs import Run
from audit.objectives.batch import Tokens
from audit.ragged import Layout

LOG_PROBS = ("logp_theta", "logp_old", "logp_ref", "logp_sampler")
VALUES = (*LOG_PROBS, "token_advantage", "value", "entropy")


class TokenRows(NamedTuple):
    """Rows [first, first + R) of a run, R those of the batch."""

    first: int
    batch: pa.RecordBatch
    lists: list[str]
    """The token lists among its columns."""

    def tokens(self, columns: Collection[str] | None = None) -> Tokens:
        """Their tokens, of the columns asked for; see :func:`to_tokens`."""
        return to_tokens(self.batch, self.lists, first_row=self.first, columns=columns)


def token_batches(
    run: Run, *, max_tokens: int = 1_000_000, together: np.ndarray | None = None
) -> Iterator[Tokens]:
    """Stream the tokens of a run in row order, a bounded number at a time; see :func:`token_rows`."""
    for rows in token_rows(run, max_tokens=max_tokens, together=together):
        yield rows.tokens()


def token_rows(
    run: Run, *, max_tokens: int = 1_000_000, together: np.ndarray | None = None
) -> Iterator[TokenRows]:
    """Stream the rows that tokens are made from, in row order, with about ``max_tokens`` tokens at a time.

    Parameters
    ----------
    together : ndarray, shape (run.num_rows,), int64, optional
        Codes; rows of one code are never cut apart, however many tokens they have.

    Notes
    -----
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
    ends = np.ones(run.num_rows + 1, dtype=bool) if together is None else _ends(together)
    held: list[pa.RecordBatch] = []
    first = seen = tokens = 0
    for batch in run.batches(columns, max_tokens=max_tokens):
        size = int(np.maximum(row_lengths(batch, present, seen), 0).sum())
        if held and tokens + size > max_tokens and (whole := np.flatnonzero(ends[first + 1 : seen + 1])).size:
            count = int(whole[-1]) + 1
            joined = _joined(held)
            yield TokenRows(first, joined.slice(0, count), present)
            rest = joined.slice(count)
            held, first = [rest] if rest.num_rows else [], first + count
            tokens = int(np.maximum(row_lengths(rest, present, first), 0).sum())
        held.append(batch)
        seen, tokens = seen + batch.num_rows, tokens + size
    if held:
        yield TokenRows(first, _joined(held), present)


def _ends(together: np.ndarray) -> np.ndarray:
    """Where rows can be cut: bool, shape (R + 1,), at p if no code is on both sides of row p's start."""
    last = np.zeros(int(together.max(initial=-1)) + 1, dtype=np.int64)
    last[together] = np.arange(len(together))
    reach = np.maximum.accumulate(last[together])
    return np.concatenate([[True], reach == np.arange(len(together))])


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


def to_tokens(
    batch: pa.RecordBatch,
    present: list[str],
    *,
    first_row: int = 0,
    columns: Collection[str] | None = None,
) -> Tokens:
    """Build token tensors, float64, from the list columns ``present`` of one batch of R rows.

    A response whose list is null in one column (not logged) has NaN there, so nothing is invented; one
    without any list has as many such tokens as its ``length`` says, and none where that is null too.
    Tensors are made of ``columns`` alone, where they are given.
    """
    given = row_lengths(batch, present, first_row)
    lengths = np.maximum(given, 0)
    layout = Layout.from_lengths(torch.from_numpy(np.array(lengths)))
    # A copy: Arrow's memory is read-only, and torch wants to own what it wraps.
    values = {
        name: torch.from_numpy(np.array(list_values(batch[name], lengths), dtype=np.float64))
        for name in present
        if name in VALUES and (columns is None or name in columns)
    }
    given_mask = list_mask(batch["loss_mask"], lengths) if "loss_mask" in present else None
    mask = torch.ones(layout.num_values, dtype=torch.bool)
    if given_mask is not None:
        mask = torch.from_numpy(np.array(given_mask))
    return Tokens(layout=layout, mask=mask, logged=torch.from_numpy(given >= 0), **values)

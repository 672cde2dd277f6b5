"""Arrow batches of a rollout log → ragged token tensors."""

from __future__ import annotations

from collections.abc import Iterator

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
    # A copy: Arrow's memory is read-only, and torch wants to own what it wraps.
    columns = {
        name: torch.from_numpy(np.array(list_values(batch[name], lengths), dtype=np.float64))
        for name in present
        if name in VALUES
    }
    given_mask = list_mask(batch["loss_mask"], lengths) if "loss_mask" in present else None
    mask = torch.ones(layout.num_values, dtype=torch.bool)
    if given_mask is not None:
        mask = torch.from_numpy(np.array(given_mask))
    return Tokens(layout=layout, mask=mask, logged=torch.from_numpy(given >= 0), **columns)

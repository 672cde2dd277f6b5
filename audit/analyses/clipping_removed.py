"""The ids of loss tokens, and which of them the trust region removed, streamed batch by batch."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import fields, replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import torch

from audit.analyses.clipping_counts import Counts, without_loss_kl
from audit.facts.rows import RunRows
from audit.facts.tokenpass.chunk import Chunk
from audit.facts.tokenpass.factor_values import value_of
from audit.facts.tokenpass.factors import Factors, factors_of
from audit.facts.tokenpass.lists import TOKEN_COLUMNS, list_mask, list_values, row_lengths
from audit.facts.tokens import VALUES, to_tokens
from audit.facts.weigh import coefficients_of
from audit.objectives.coefficients import Coefficients
from audit.objectives.needs import needs
from audit.objectives.objective import Objective
from audit.objectives.weights import token_weights


class IdBatch(NamedTuple):
    """N loss tokens of consecutive responses."""

    ids: np.ndarray
    """int64, shape (N,)."""
    row: np.ndarray
    """Response of each, int64, shape (N,)."""
    removed: np.ndarray
    """bool, shape (N,)."""


def removed_ids(rows: RunRows, objective: Objective, counts: Counts) -> Iterator[IdBatch]:
    """Yield the loss tokens of the responses that take loss and whose ids were logged."""
    objective = without_loss_kl(objective)
    factors = factors_of(objective, token_advantages=rows.has("token_advantage"))
    wanted = {column for column in needs(objective) if column in TOKEN_COLUMNS}
    extra = {"loss_mask"} if factors is not None else {"loss_mask", "token_advantage", "value", "entropy"}
    columns = ["token_ids", *(c for c in TOKEN_COLUMNS if c in wanted | (extra & rows.run.columns))]
    whole = coefficients_of(rows, objective).tensors() if factors is None else None
    # A surrogate that ranks the tokens of its batch must see all of them.
    wide = objective.batch_wide
    first = 0
    for batch in rows.run.batches(columns, max_tokens=sys.maxsize if wide else 1_000_000):
        stop = first + batch.num_rows
        held, ids, mask, row = read_ids(batch, columns, counts.use[first:stop])
        some = np.flatnonzero(wide | (held & (counts.zeroed[first:stop] > 0)))
        gone = np.zeros(len(ids), dtype=bool)
        if len(some):
            chosen = batch if len(some) == batch.num_rows else batch.take(pa.array(some))
            if whole is None and factors is not None:
                here = _by_factors(chosen, columns, factors, counts.multiple[first + some])
            else:
                assert whole is not None
                here = _by_weights(chosen, columns, objective, _take(whole, first + some))
            gone[np.isin(row, some)] = here
        loss = mask & held[row]
        yield IdBatch(ids[loss], first + row[loss], gone[loss])
        first = stop


def read_ids(
    batch: pa.RecordBatch, columns: list[str], use: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Rows in use whose ids were logged; ids, mask and row of every token of the batch."""
    lengths = np.maximum(row_lengths(batch, columns, 0), 0)
    ids = list_values(batch["token_ids"], lengths)
    # A row whose ids are null has NaN there; it is not in use.
    ids = np.nan_to_num(ids).astype(np.int64) if ids.dtype.kind == "f" else ids.astype(np.int64)
    mask = list_mask(batch["loss_mask"], lengths) if "loss_mask" in columns else None
    row = np.repeat(np.arange(batch.num_rows), lengths)
    held = use & np.asarray(batch["token_ids"].is_valid())
    return held, ids, np.ones(len(ids), dtype=bool) if mask is None else mask, row


def _by_factors(
    batch: pa.RecordBatch, columns: list[str], factors: Factors, multiple: np.ndarray
) -> np.ndarray:
    """Which tokens of a batch were removed; ``multiple``: nu · A of each response, shape (R,)."""
    lengths = np.maximum(row_lengths(batch, columns, 0), 0)
    values = {name: list_values(batch[name], lengths) for name in columns if name in VALUES}
    mask = list_mask(batch["loss_mask"], lengths) if "loss_mask" in columns else None
    chunk = Chunk(np.concatenate([[0], np.cumsum(lengths)]), values, mask)
    removed = np.zeros(int(lengths.sum()), dtype=bool)
    for rows, factor in ((multiple > 0, factors.positive), (multiple < 0, factors.negative)):
        if rows.any():
            with np.errstate(over="ignore", invalid="ignore"):
                found = value_of(chunk, factor)
            if found.zeroed is not None:
                whole = np.repeat(found.zeroed, lengths) if found.per_row else found.zeroed
                removed |= whole & np.repeat(rows, lengths)
    return removed


def _by_weights(
    batch: pa.RecordBatch, columns: list[str], objective: Objective, coefficients: Coefficients
) -> np.ndarray:
    tokens = to_tokens(batch, columns)
    made = token_weights(tokens, coefficients, objective)
    return np.asarray((made.zeroed & tokens.mask).numpy())


def _take(whole: Coefficients, rows: np.ndarray) -> Coefficients:
    index = torch.from_numpy(rows)
    return replace(whole, **{f.name: getattr(whole, f.name)[index] for f in fields(whole)})

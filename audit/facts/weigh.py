"""Effective weights of a whole run, streamed; and the table that ``rlaudit weights`` writes."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from audit.facts.rows import RunRows
from audit.facts.tokenpass.factor_facts import counted
from audit.facts.tokenpass.factors import factors_of
from audit.logs.output import check_output
from audit.objectives.batch import Tokens
from audit.objectives.coefficients import (
    Coefficients,
    after_token_pass,
    decided_by_token,
    needs_token_pass,
    row_coefficients,
    token_pass,
)
from audit.objectives.needs import token_columns
from audit.objectives.objective import Baseline, Objective, Scale

if TYPE_CHECKING:
    from audit.objectives.weights import TokenWeights


@dataclass(frozen=True)
class WeighedBatch:
    """The tokens of rows [first, first + R) of a run and their weights under one objective."""

    first: int
    tokens: Tokens
    coefficients: Coefficients
    weights: TokenWeights


def coefficients_of(rows: RunRows, objective: Objective) -> Coefficients:
    """Advantage and aggregation coefficient of every response of a run; NumPy arrays of shape (R,)."""
    responses = rows.responses(objective)
    coefficients = row_coefficients(responses, objective)
    if not needs_token_pass(objective):
        return coefficients
    if (counted := _counted(rows, objective, coefficients)) is not None:
        return row_coefficients(responses, objective, denominator_tokens=counted)
    from audit.facts.token_walk import walk_tokens

    of_tokens = coefficients.tensors()
    counts, moments = np.zeros(rows.num_rows, dtype=np.int64), np.zeros((rows.num_rows, 5))

    def work(first: int, tokens: Tokens) -> None:
        here = slice(first, first + tokens.layout.num_rows)
        count, moment = token_pass(tokens, of_tokens.slice(here.start, here.stop), objective)
        counts[here], moments[here] = count.numpy(), moment.numpy()

    walk_tokens(rows.run, work, columns=token_columns(objective))
    return after_token_pass(responses, objective, counts, moments)


def _counted(rows: RunRows, objective: Objective, coefficients: Coefficients) -> np.ndarray | None:
    """Loss tokens that the corrections leave in the normaliser, from facts; None where those do not tell."""
    factors = factors_of(objective, token_advantages=rows.has("token_advantage"))
    if rows.facts is None or factors is None or decided_by_token(objective):
        return None
    negative = coefficients.advantage < 0
    by_sign = [rows.facts[counted(factor).name] for factor in (factors.positive, factors.negative)]
    found = np.where(negative, by_sign[1], by_sign[0])
    return np.nan_to_num(np.where(coefficients.masked, 0.0, found)).astype(np.int64)


def as_applied(rows: RunRows, objective: Objective) -> Objective:
    """The same objective on the advantages that the trainer used, where the log holds one for every response.

    What one optimiser step applied includes the trainer's own rounding and its own mistakes; whether those
    advantages agree with the declaration is a question of its own (``rlaudit check``).
    """
    logged = rows.logged_advantage
    if logged is None or objective.baseline.kind == "logged" or np.isnan(logged[~rows.greedy]).any():
        return objective
    return objective.replace(baseline=Baseline(kind="logged"), scale=Scale())


def weigh(
    rows: RunRows,
    objective: Objective,
    *,
    coefficients: Coefficients | None = None,
    max_tokens: int = 1_000_000,
) -> Iterator[WeighedBatch]:
    """Stream the weights of every token of a run, in row order.

    An objective that ranks the tokens of a batch of the optimiser gets all of those at once.
    """
    from audit.facts.tokens import token_batches
    from audit.objectives.weights import token_weights

    given = coefficients_of(rows, objective) if coefficients is None else coefficients
    whole = given.tensors()
    first, together = 0, rows_together([objective], [given])
    for tokens in token_batches(rows.run, max_tokens=max_tokens, together=together):
        part = whole.slice(first, first + tokens.layout.num_rows)
        yield WeighedBatch(first, tokens, part, token_weights(tokens, part, objective))
        first += tokens.layout.num_rows


def rows_together(objectives: Sequence[Objective], coefficients: Sequence[Coefficients]) -> np.ndarray | None:
    """Codes of the rows whose tokens some of the objectives must see at once, shape (R,); None: no such.

    ``coefficients`` are those of a whole run, one for each objective.
    """
    wide = [c for objective, c in zip(objectives, coefficients, strict=True) if objective.batch_wide]
    # All objectives rank over the same batches: those that the log gives.
    return np.asarray(wide[0].batch) if wide else None


class Written(NamedTuple):
    """What a weights table holds."""

    rows: int
    not_finite: int
    """Responses with a weight that is NaN or infinite."""


def write_weights(rows: RunRows, objective: Objective, out: Path) -> Written:
    """Write one row per schema row: its key columns, ``advantage``, ``weight`` and ``zeroed`` lists.

    The file appears whole or not at all.

    Raises
    ------
    AuditError
        The place is inside a log, or no file can be written there.
    """
    check_output(out, (".parquet",), (file.path for file in rows.run.files))
    keys = rows.table.select(["step", "epoch", "update", "micro_batch", "group_id", "sample_index"])
    schema = pa.schema(
        [
            *keys.schema,
            pa.field("advantage", pa.float64()),
            pa.field("weight", pa.list_(pa.float64())),
            pa.field("zeroed", pa.list_(pa.bool_())),
        ]
    )
    not_finite = 0
    unfinished = out.with_name(f".{out.stem[:100]}.{os.getpid()}.tmp")
    try:
        with pq.ParquetWriter(unfinished, schema, compression="zstd") as writer:
            for batch in weigh(rows, objective):
                bad = (~batch.weights.weight.isfinite()).long()
                not_finite += int((batch.tokens.layout.sum(bad) > 0).sum())
                count = batch.tokens.layout.num_rows
                part = keys.slice(batch.first, count)
                for name, values in _columns(batch).items():
                    part = part.append_column(schema.field(name), values)
                writer.write_table(part)
        os.replace(unfinished, out)
    finally:
        unfinished.unlink(missing_ok=True)
    return Written(rows.num_rows, not_finite)


def _columns(batch: WeighedBatch) -> dict[str, pa.Array]:
    offsets = pa.array(batch.tokens.layout.offsets.numpy().astype(np.int32))
    return {
        "advantage": pa.array(batch.coefficients.advantage.numpy()),
        "weight": pa.ListArray.from_arrays(offsets, pa.array(batch.weights.weight.numpy())),
        "zeroed": pa.ListArray.from_arrays(offsets, pa.array(batch.weights.zeroed.numpy())),
    }

"""Which rows are in a log twice: the same sample of the same group, with everything about it equal."""

from __future__ import annotations

import numpy as np

from audit.analyses.text_codes import text_codes
from audit.facts.rows import RunRows, dense
from audit.logs.arrays import codes_of

NEEDS = ("group_id", "sample_index", "token_ids|response")
"""Columns needed; of ``a|b`` either is enough. Without sample_index two short responses that happen to be
equal cannot be told from one that was written twice."""
_SUMS = ("logp_theta", "logp_old", "logp_sampler")


def row_copies(rows: RunRows) -> np.ndarray | None:
    """Mark the rows that repeat an earlier one.

    Returns
    -------
    ndarray of bool, shape (R,), or None
        A copy has the step, update, inner pass, group, sample_index, turn, reward, advantage, text and
        log-probs of a row before it. None where one of :data:`NEEDS` was not logged.
    """
    if not all(any(map(rows.has, options.split("|"))) for options in NEEDS):
        return None
    index = rows.numpy("sample_index")
    known = np.flatnonzero(np.isfinite(index) & rows.grouped)
    copies = np.zeros(rows.num_rows, dtype=bool)
    if not len(known):
        return copies
    place = dense(rows.sample[known], index[known])
    # Few rows share their place with another: only those are compared in full.
    many = known[np.bincount(place)[place] > 1]
    if not len(many):
        return copies
    _, first = np.unique(dense(*(column[many] for column in _all_columns(rows))), return_index=True)
    copies[many] = True
    copies[many[first]] = False
    return copies


def _all_columns(rows: RunRows) -> list[np.ndarray]:
    columns = [rows.sample, *(rows.numpy(name) for name in ("sample_index", "step", "update"))]
    columns += [rows.numpy(name) for name in ("reward", "advantage", "length")]
    text = text_codes(rows)
    if text is not None:
        columns.append(text)
    if rows.has("turn"):
        columns.append(rows.run.responses(["turn"])["turn"].fill_null(-1).to_numpy())
    if rows.has("trajectory_id"):
        columns.append(codes_of(rows.table["trajectory_id"].combine_chunks().dictionary_encode()))
    if rows.facts is not None:
        columns += [rows.facts[name] for name in _SUMS if rows.has(name)]
    return columns

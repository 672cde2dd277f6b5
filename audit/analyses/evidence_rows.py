"""Rows of a log that show a finding best, named so that they can be looked up."""

from __future__ import annotations

import numpy as np

from audit.facts.rows import RunRows

MOST = 3


def evidence_rows(rows: RunRows, score: np.ndarray, use: np.ndarray, most: int = MOST) -> list[str]:
    """Name the rows with the largest ``score``, float64, shape (R,), among ``use``, bool, shape (R,)."""
    at = np.flatnonzero(use & np.isfinite(score))
    at = at[np.argsort(-score[at], kind="stable")][:most]
    picked = rows.table.select(["step", "prompt_id", "sample_index"]).take(at).to_pylist()
    return [
        f"{rows.run.run_id}: step {row['step']}, prompt {row['prompt_id']}, sample {row['sample_index']}"
        for row in picked
    ]

"""Checks of the token lists, batch by batch: lengths, finite and negative log-probs, masks."""

from __future__ import annotations

from collections import defaultdict
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from audit.logs.run import Run
from audit.logs.tally import Tally
from audit.schema import LOG_PROBS, TOKEN_LISTS, Problem

_TOLERANCE = 1e-6
"""A log-prob above this is positive; below it, rounding."""


class TokenChecks:
    """Sees every batch of a run once, then says what is wrong with its token lists."""

    def __init__(self, run: Run) -> None:
        self._tally = Tally()
        self._lengths_are_tokens = run.manifest.length_unit == "tokens"
        self._zero_rows: dict[tuple[str, int], int] = defaultdict(int)
        self._steps_with_tokens: dict[str, set[int]] = defaultdict(set)
        self._steps_with_nonzero: dict[str, set[int]] = defaultdict(set)

    def see(self, batch: pa.RecordBatch) -> None:
        """Check one canonical batch: ``step``, ``length`` and the token lists that the run holds."""
        steps = batch["step"]
        lists = {name: batch[name] for name in TOKEN_LISTS if name in batch.schema.names}
        lengths = {name: _lengths(array) for name, array in lists.items()}
        tokens = self._compare_lengths(lengths, steps, batch.num_rows)
        for name, own in lengths.items():
            self._tally.count("tokens.not-logged", name, own < 0, steps)
        if self._lengths_are_tokens:
            given = np.asarray(batch["length"].fill_null(-1))
            wrong = (given >= 0) & (tokens >= 0) & (given != tokens)
            self._tally.count("length.mismatch", "length", wrong, steps)
        self._tally.count("tokens.empty", None, tokens == 0, steps)
        mask = lists.get("loss_mask")
        if mask is not None:
            flags, row = _leaves(mask)
            on = np.bincount(row[flags == 1], minlength=batch.num_rows)
            self._tally.count(
                "mask.no-loss-token", "loss_mask", (lengths["loss_mask"] > 0) & (on == 0), steps
            )
        for name, array in lists.items():
            self._check_values(name, array, mask, steps)

    def problems(self) -> list[Problem]:
        """Return what was found."""
        found = [_problem(self._tally, *key) for key in self._tally.found()]
        for name in LOG_PROBS:
            zero = self._steps_with_tokens[name] - self._steps_with_nonzero[name]
            if not zero:
                continue
            whole = zero == self._steps_with_tokens[name]
            share = "of the log" if whole else f"of {len(zero)} steps"
            found.append(
                Problem(
                    id="logp.all-zero",
                    severity="error" if whole else "warning",
                    column=name,
                    rows=sum(self._zero_rows[name, step] for step in zero),
                    steps=tuple(sorted(zero)[: Tally.FEW]),
                    certainty="likely",
                    summary=f"'{name}' is 0 for every loss token {share}.",
                    hint="Placeholders, not log-probs: leave the column out where there are none.",
                )
            )
        return found

    def _compare_lengths(self, lengths: dict[str, np.ndarray], steps: Any, rows: int) -> np.ndarray:
        """Count rows whose lists differ in length; return the length of each row, -1 where none is logged."""
        known = np.full(rows, -1, dtype=np.int64)
        for name, own in lengths.items():
            differs = (own >= 0) & (known >= 0) & (own != known)
            self._tally.count("tokens.length-mismatch", name, differs, steps)
            known = np.where(known >= 0, known, own)
        return known

    def _check_values(self, name: str, array: Any, mask: Any, steps: Any) -> None:
        values, row = _leaves(array)
        rows = len(array)
        null = _null_leaves(array)
        self._tally.count("tokens.null-element", name, _rows_with(null, row, rows), steps)
        if not pa.types.is_floating(array.type.value_type):
            return
        counted = ~null & _takes_loss(array, row, mask)
        kind = "logp" if name in LOG_PROBS else "tokens"
        bad = counted & ~np.isfinite(values)
        self._tally.count(
            f"{kind}.non-finite", name, _rows_with(bad, row, rows), steps, values=int(bad.sum())
        )
        if name not in LOG_PROBS:
            return
        bad = counted & (values > _TOLERANCE) & np.isfinite(values)
        self._tally.count("logp.positive", name, _rows_with(bad, row, rows), steps, values=int(bad.sum()))
        some = _rows_with(counted, row, rows)
        nonzero = _rows_with(counted & (values != 0), row, rows)
        step = np.asarray(steps.fill_null(-1))
        self._steps_with_tokens[name].update(np.unique(step[some]).tolist())
        self._steps_with_nonzero[name].update(np.unique(step[nonzero]).tolist())
        for number, count in zip(*np.unique(step[some & ~nonzero], return_counts=True), strict=True):
            self._zero_rows[name, int(number)] += int(count)


_MEANING: dict[str, tuple[Literal["error", "warning", "info"], str]] = {
    "tokens.not-logged": ("warning", "'{column}' is null for {rows} responses, while others have it."),
    "tokens.length-mismatch": (
        "error",
        "'{column}' has another length than the token lists before it in {rows} responses.",
    ),
    "tokens.null-element": ("error", "'{column}' has nulls inside the list of {rows} responses."),
    "tokens.non-finite": (
        "error",
        "'{column}' is NaN or infinite for {values} loss tokens of {rows} responses.",
    ),
    "tokens.empty": (
        "info",
        "{rows} responses have no tokens (an empty list, which is not the same as null).",
    ),
    "length.mismatch": ("error", "'length' differs from the number of logged tokens in {rows} responses."),
    "mask.no-loss-token": (
        "info",
        "{rows} responses have tokens and no loss token: the mask is false throughout.",
    ),
    "logp.non-finite": (
        "error",
        "'{column}' is NaN or infinite for {values} loss tokens of {rows} responses.",
    ),
    "logp.positive": ("error", "'{column}' is above 0 for {values} loss tokens of {rows} responses."),
}
_HINTS = {
    "length.mismatch": "If 'length' is not in tokens, say so in run.json (length_unit).",
    "logp.positive": "Log-probabilities are at most 0: are these probabilities, or negated?",
    "tokens.length-mismatch": "Pad nothing and cut nothing: one value per response token, in every list.",
    "tokens.empty": "If the tokens were not logged, write null.",
}


def _problem(tally: Tally, code: str, column: str | None) -> Problem:
    severity, text = _MEANING[code]
    return tally.problem(code, column, severity=severity, text=text, hint=_HINTS.get(code, ""))


def _lengths(array: Any) -> np.ndarray:
    """Length of each list, -1 for null."""
    lengths = np.diff(np.asarray(array.offsets)).astype(np.int64)
    lengths[np.asarray(array.is_null())] = -1
    return lengths


def _leaves(array: Any) -> tuple[np.ndarray, np.ndarray]:
    """Values of the lists as float64 (null: NaN), and the row that each belongs to."""
    values = array.flatten().cast(
        pa.float32() if pa.types.is_boolean(array.type.value_type) else pa.float64()
    )
    row = np.repeat(np.arange(len(array)), np.maximum(_lengths(array), 0))
    return np.asarray(values.to_numpy(zero_copy_only=False), dtype=np.float64), row


def _null_leaves(array: Any) -> np.ndarray:
    return np.asarray(array.flatten().is_null())


def _rows_with(marked: np.ndarray, row: np.ndarray, rows: int) -> np.ndarray:
    found = np.zeros(rows, dtype=bool)
    found[row[marked]] = True
    return found


def _takes_loss(array: Any, row: np.ndarray, mask: Any) -> np.ndarray:
    """Whether each token takes loss; all do where there is no mask, or none of the same length."""
    takes = np.ones(len(row), dtype=bool)
    if mask is not None:
        flags, mask_row = _leaves(mask)
        same = _lengths(mask) == _lengths(array)
        takes[same[row]] = flags[same[mask_row]] != 0
    return takes

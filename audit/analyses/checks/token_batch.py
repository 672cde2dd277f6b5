"""The tokens of some consecutive responses, as checks measure them, in the pass that validates a log."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from audit.errors import BadLog
from audit.facts.tokenpass.lists import TOKEN_COLUMNS, list_mask, list_values, row_lengths
from audit.logs.arrays import to_numpy, valid


class TokenBatch:
    """Arrays over the N tokens of R responses.

    Parameters
    ----------
    batch : pyarrow.RecordBatch
        Canonical, with ``step``, ``finish_reason``, and the token lists that the run holds.
    """

    def __init__(self, batch: pa.RecordBatch) -> None:
        self._batch = batch
        self._lists = [name for name in TOKEN_COLUMNS if name in batch.schema.names]
        self._held: dict[str, np.ndarray] = {}
        self.lengths = np.maximum(row_lengths(batch.select(self._lists), self._lists, 0), 0)

    @property
    def num_rows(self) -> int:
        """Number of responses R."""
        return int(self._batch.num_rows)

    @cached_property
    def row(self) -> np.ndarray:
        """The response of each token, int64, shape (N,)."""
        return np.repeat(np.arange(self.num_rows), self.lengths)

    @cached_property
    def starts(self) -> np.ndarray:
        """Place of the first token of each response, int64, shape (R + 1,)."""
        return np.concatenate([[0], np.cumsum(self.lengths)])

    @cached_property
    def masked(self) -> np.ndarray | None:
        """Tokens without loss, bool, shape (N,); None where every token takes loss."""
        if "loss_mask" not in self._lists:
            return None
        mask = list_mask(self._batch["loss_mask"], self.lengths)
        return None if mask is None else ~mask

    def plain(self, name: str) -> list[object]:
        """A column of one value per response, as Python objects; None where null."""
        return list(self._batch[name].to_pylist())

    def has(self, *names: str) -> bool:
        """Whether the run logs these token lists."""
        return set(names) <= set(self._lists)

    def logged(self, name: str) -> np.ndarray:
        """Responses that have the list, bool, shape (R,)."""
        return valid(self._batch[name])

    def values(self, name: str) -> np.ndarray:
        """A list of floats, float32, shape (N,); NaN where it was not logged."""
        if name not in self._held:
            self._held[name] = np.asarray(list_values(self._batch[name], self.lengths), dtype=np.float32)
        return self._held[name]

    def gap(self, upper: str, lower: str) -> np.ndarray:
        """log pi_upper - log pi_lower, float32, shape (N,), nats; masked tokens too."""
        name = f"{upper}-{lower}"
        if name not in self._held:
            self._held[name] = self.values(f"logp_{upper}") - self.values(f"logp_{lower}")
        return np.asarray(self._held[name])

    @cached_property
    def ids(self) -> np.ndarray:
        """Token ids, int64, shape (N,); -1 where not logged."""
        values = list_values(self._batch["token_ids"], self.lengths)
        return np.asarray(np.nan_to_num(values, nan=-1.0).astype(np.int64))

    @cached_property
    def last(self) -> np.ndarray:
        """Last id of each response, int64, shape (R,); -1 for an empty one."""
        some = self.lengths > 0
        made = np.full(self.num_rows, -1, dtype=np.int64)
        made[some] = self.ids[self.starts[1:][some] - 1]
        return made

    def reason(self, *reasons: str) -> np.ndarray:
        """Responses whose finish_reason is one of these, bool, shape (R,)."""
        among = pc.is_in(self._batch["finish_reason"], value_set=pa.array(reasons, pa.string()))
        return np.asarray(to_numpy(among))

    def count(self, marked: np.ndarray) -> np.ndarray:
        """Marked tokens of each response, int64, shape (R,)."""
        return np.bincount(self.row[marked], minlength=self.num_rows)

    def total(self, values: np.ndarray) -> np.ndarray:
        """Sum over the tokens of each response, float64, shape (R,)."""
        return np.bincount(self.row, weights=values, minlength=self.num_rows)


Measure = Callable[[TokenBatch], Mapping[str, np.ndarray]]
"""Numbers per response by name, each of shape (R,); the same names for every batch of a run."""


class TokenLook:
    """Sees every batch of a run in the pass that validates it, and keeps what the checks measured."""

    def __init__(self, measures: Sequence[Measure], *, characters: bool = False) -> None:
        self.columns = ("finish_reason", *(("response",) if characters else ()))
        self._measures = measures
        self._characters = characters
        self._made: dict[str, list[np.ndarray]] = {}
        self._broken = False
        self.num_rows = 0

    @np.errstate(all="ignore")
    def see(self, batch: pa.RecordBatch) -> None:
        """Measure one batch; lists of unequal length, which the validation names, end the measuring."""
        self.num_rows += batch.num_rows
        if self._characters:
            lengths = pc.utf8_length(batch["response"]).cast(pa.float64())
            self._made.setdefault("characters", []).append(np.array(to_numpy(lengths)))
        if self._broken or not batch.num_rows:
            return
        try:
            tokens = TokenBatch(batch)
        except BadLog:
            self._broken = True
            return
        for measure in self._measures:
            for name, values in measure(tokens).items():
                self._made.setdefault(name, []).append(values)

    def has(self, *names: str) -> bool:
        """Whether every response was measured."""
        return not self._broken and set(names) <= self._made.keys()

    def __getitem__(self, name: str) -> np.ndarray:
        """One measure, shape (R,)."""
        if len(self._made[name]) > 1:
            self._made[name] = [np.concatenate(self._made[name])]
        return self._made[name][0]

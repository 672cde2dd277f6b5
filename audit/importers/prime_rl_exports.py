"""prime-rl's ``token_exports/step_N/rank_R.jsonl``: what the trainer saw of each sequence, joined to rows.

Read: src/prime_rl/trainer/rl/token_export.py at 559b44772 and v0.6.0 [read only]. Every list has one value
for each token of the sequence, value i belonging to token i; NaN and infinities are null. A step is whole
when ``STABLE`` stands beside its files. There is no id: sequences are found by all their token ids.
"""

from __future__ import annotations

from collections import defaultdict
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from audit.importers.interface import Book, Row
from audit.importers.jsonl import records
from audit.importers.store import in_numeric_order
from audit.importers.traces import Branch

FOLDER, STABLE = "token_exports", "STABLE"
_LISTS = {
    "trainer_logprobs": "logp_theta",
    "inference_logprobs": "logp_sampler",
    "entropy": "entropy",
    "advantages": "token_advantage",
}
_VERDICTS = ("is_masked", "is_masked_high", "is_masked_low")
JOINED = "exported sequences were joined to rows by their exact token ids"
COVERED = "rows got the trainer's log-probs from token exports"


class Sequence(NamedTuple):
    """One exported sequence."""

    ids: np.ndarray
    mask: np.ndarray
    lists: dict[str, np.ndarray]
    """float32 by column; those that the trainer did not compute are absent."""
    extra: dict[str, Any]


def files_of_step(root: Path, step: int) -> list[Path]:
    """Return what the ranks exported of a step, in the folder of the run or of a trainer in it.

    The marker is the last, there or not yet: when it comes the step is read again.
    """
    for place in (root, *sorted(root.glob(f"*/{FOLDER}"))):
        folder = (place if place.name == FOLDER else place / FOLDER) / f"step_{step}"
        found = in_numeric_order([f for f in folder.glob("rank_*.jsonl") if f.is_file()])
        if found:
            return [*found, folder / STABLE]
    return []


class Exports:
    """The exported sequences of one step, each given out once."""

    def __init__(self, files: list[Path], book: Book) -> None:
        self._book = book
        self._held: dict[bytes, list[Sequence]] = defaultdict(list)
        self.whole = self.joined = self.rows = 0
        for file in files:
            if file.name == STABLE:
                continue
            if not (file.parent / STABLE).is_file():
                book.skip(file, f"no {STABLE} beside it: the trainer had not finished the step")
                continue
            aside = Book(tick=book.tick)
            odd = 0
            for record in records(file, aside):
                made = sequence_of(record)
                if made is None:
                    odd += 1
                    continue
                self._held[_key(made.ids)].append(made)
                self.whole += 1
            if odd + aside.rejected.total():
                book.share(
                    "lines of token exports are no sequences", odd + aside.rejected.total(), self.whole
                )

    def join(self, row: Row, branch: Branch) -> None:
        """Put what the trainer saw of a branch into its row; of equal sequences, that of its advantage."""
        self.rows += 1
        alike = self._held.get(_key(np.asarray(branch.ids)))
        if not alike:
            return
        given = row.get("advantage")
        fits = [i for i, each in enumerate(alike) if given is not None and _has(each, branch.start, given)]
        found = alike.pop(fits[0] if fits else 0)
        self.joined += 1
        columns = columns_of(found, branch.start)
        if row.get("advantage") is not None or row.get("token_advantage") is not None:
            columns = {name: each for name, each in columns.items() if "advantage" not in name}
        row.update(columns, extra=row["extra"] | found.extra)

    def tell(self) -> None:
        """Say how many were joined."""
        if self.whole:
            self._book.share(JOINED, self.joined, self.whole)
            self._book.share(COVERED, self.joined, self.rows)


def columns_of(sequence: Sequence, start: int) -> Row:
    """Return the columns of the response, which begins at ``start``; one advantage where all are equal."""
    mask = sequence.mask[start:]
    columns: Row = {"loss_mask": mask}
    for column, values in sequence.lists.items():
        cut = values[start:]
        trained = cut[mask]
        if column == "token_advantage" and len(trained) and np.all(trained == trained[0]):
            columns["advantage"] = float(trained[0])
        else:
            columns[column] = cut
    return columns


def _has(sequence: Sequence, start: int, advantage: float) -> bool:
    values = sequence.lists.get("token_advantage")
    trained = None if values is None else values[start:][sequence.mask[start:]]
    return trained is not None and bool(len(trained)) and bool(abs(trained[0] - advantage) < 1e-3)


def _key(ids: np.ndarray) -> bytes:
    return blake2b(ids.astype(np.int64).tobytes(), digest_size=16).digest()


def sequence_of(record: Row) -> Sequence | None:
    """Take a line apart; None where its lists are missing, of other kinds, or of several lengths."""
    try:
        ids = np.asarray(record["token_ids"], np.int64)
        mask = np.asarray(record["loss_mask"])
        if ids.ndim != 1 or mask.shape != ids.shape or mask.dtype != np.bool_:
            return None
        lists = {}
        for name, column in _LISTS.items():
            values = np.asarray(record.get(name) or [], np.float64)
            if values.shape == ids.shape and not np.all(np.isnan(values)):
                lists[column] = values.astype(np.float32)
            elif values.shape not in (ids.shape, (0,)):
                return None
        masked = {
            name: record[name].count(True)
            for name in _VERDICTS
            if isinstance(record.get(name), list) and not {True, False}.isdisjoint(record[name])
        }
    except (KeyError, TypeError, ValueError, OverflowError):
        return None
    extra = {"rank": record.get("rank"), "micro_step": record.get("micro_step"), **masked}
    return Sequence(ids, mask, lists, extra)

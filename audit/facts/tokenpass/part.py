"""The facts of one part of a run: what every engine computes, and the only place that reads token columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from audit.errors import BadLog
from audit.facts.tokenpass.chunk import Chunk
from audit.facts.tokenpass.lists import TOKEN_COLUMNS, list_mask, list_values, row_lengths
from audit.facts.tokenpass.names import LAST_TOKEN, LOGGED, TEXT_KEY, Fact, dtype_of, read_name
from audit.facts.tokenpass.spent import Spent
from audit.facts.tokenpass.text_key import last_tokens, text_keys
from audit.logs.arrays import from_numpy
from audit.logs.parts import Part

READ_TOKENS = 1_000_000
"""Tokens that are decoded at a time."""
CHUNK_TOKENS = 131_072
"""Tokens that are summed at a time: their arrays stay in the processor's cache."""
DEVICE_TOKENS = 16_000_000
"""The same on a GPU, where the start of an operation costs more than its arithmetic."""

Progress = Callable[[int, int], None]
"""Called with the rows and tokens just done."""


@np.errstate(over="ignore", invalid="ignore")
def facts_of_part(
    part: Part,
    names: Sequence[str],
    *,
    device: str = "cpu",
    groups: Sequence[int] | None = None,
    in_tokens: bool = True,
    progress: Progress | None = None,
    spent: Spent | None = None,
) -> pa.Table:
    """Sum over the tokens of each response of a part.

    Parameters
    ----------
    names : sequence of str
        Facts; see :mod:`audit.facts.columns`.
    device : str
        A resolved device.
    groups : sequence of int, optional
        Row groups of a Parquet part; default: all.
    in_tokens : bool
        ``length`` counts tokens, so that it stands in where a row has no token list.
    spent : Spent, optional
        Takes down the time.

    Returns
    -------
    pyarrow.Table
        Columns ``names``, one row per response in the part's order; float64 (NaN: not logged), int64 for the
        counts and the key of the text. Equal bytes whatever the device's chunking or the engine.

    Raises
    ------
    UnknownName
        A name is not that of a fact.
    BadLog
        The file is damaged or changed, or the token lists of a row differ in length.
    """
    facts = [read_name(name) for name in names]
    columns = _columns(part, facts, in_tokens)
    read = DEVICE_TOKENS if device == "cuda" else READ_TOKENS
    made: list[list[np.ndarray]] = [[] for _ in names]
    spent = spent or Spent()
    first = 0
    batches = part.batches(columns, max_tokens=read, **({} if groups is None else {"groups": groups}))
    while True:
        with spent.on("decoding"):
            batch = next(batches, None)
        if batch is None:
            break
        with spent.on("arithmetic"):
            lengths = _lengths(batch, columns, part.name, first)
            for place, found in enumerate(_of_batch(batch, lengths, facts, device)):
                made[place].append(found)
        first += batch.num_rows
        if progress is not None:
            progress(batch.num_rows, int(np.maximum(lengths, 0).sum()))
    arrays = [
        from_numpy(np.concatenate([np.zeros(0, dtype=dtype_of(name)), *found]))
        for name, found in zip(names, made, strict=True)
    ]
    return pa.table(arrays, names=list(names))


def _lengths(batch: pa.RecordBatch, columns: Sequence[str], name: str, first: int) -> np.ndarray:
    try:
        return row_lengths(batch, [column for column in columns if column in TOKEN_COLUMNS], first)
    except BadLog as error:
        msg = f"{name}, {error}"
        raise BadLog(msg) from None


def _columns(part: Part, facts: Sequence[Fact], in_tokens: bool) -> list[str]:
    """Columns to read: what the facts need, and one token list at least, for the lengths."""
    wanted = {column for fact in facts for column in fact.needs}
    lists = [name for name in TOKEN_COLUMNS if name in part.types]
    chosen = [name for name in lists if name in wanted or name == "loss_mask"]
    if not chosen:
        chosen = lists[:1]
    if in_tokens and "length" in part.types:
        chosen.append("length")
    # A batch without any column has no rows either.
    return chosen or ["step"]


def _of_batch(
    batch: pa.RecordBatch, lengths: np.ndarray, facts: Sequence[Fact], device: str
) -> Iterator[np.ndarray]:
    held = np.maximum(lengths, 0)
    offsets = np.concatenate([[0], np.cumsum(held)])
    names = batch.schema.names
    mask = list_mask(batch["loss_mask"], held) if "loss_mask" in names else None
    needed = {column for fact in facts for column in fact.needs}
    numbers = [name for name in names if name in needed and name != "token_ids"]
    values = {name: list_values(batch[name], held) for name in numbers}
    summed = {f.name: f.of for f in facts if f.of is not None and values.keys() >= set(f.needs)}
    made: dict[str, np.ndarray] = dict(zip(summed, np.empty((len(summed), len(held))), strict=True))
    at_once = DEVICE_TOKENS if device == "cuda" else CHUNK_TOKENS
    for start, stop in _chunks(offsets, at_once):
        low, high = offsets[start], offsets[stop]
        chunk = Chunk(
            offsets[start : stop + 1] - low,
            {name: given[low:high] for name, given in values.items()},
            None if mask is None else mask[low:high],
            device,
        )
        for name, of in summed.items():
            made[name][start:stop] = chunk.segments.host(of(chunk))
    if "token_ids" in names:
        made[TEXT_KEY] = text_keys(batch["token_ids"])
        made[LAST_TOKEN] = last_tokens(batch["token_ids"])
    made[LOGGED] = lengths >= 0
    for fact in facts:
        found = made.get(fact.name)
        dtype = dtype_of(fact.name)
        if found is None:
            nothing = -1 if fact.name == LAST_TOKEN else 0
            found = np.full(len(held), nothing if dtype is np.int64 else np.nan)
        yield found.astype(dtype, copy=False)


def _chunks(offsets: np.ndarray, tokens: int) -> Iterator[tuple[int, int]]:
    """Row ranges of about ``tokens`` tokens; a longer response is a range of its own."""
    start, rows = 0, len(offsets) - 1
    while start < rows:
        stop = int(np.searchsorted(offsets, offsets[start] + tokens, side="right")) - 1
        stop = min(max(stop, start + 1), rows)
        yield start, stop
        start = stop

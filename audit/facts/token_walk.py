"""Work on the tokens of a run, chunk by chunk, on every core."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

import numpy as np
import torch

from audit.facts.engines.local import cores
from audit.facts.engines.memory import keep_freed_memory
from audit.facts.tokens import TokenRows, token_rows
from audit.logs import Run
from audit.objectives.batch import Tokens

CHUNK_TOKENS = 131_072
"""Tokens at a time: their arrays stay in the processor's cache, where arithmetic is several times as fast."""

Work = Callable[[int, Tokens], None]
"""Called with the first row of a chunk and its tokens, by several threads at a time, in any order."""


def walk_tokens(
    run: Run, work: Work, *, columns: Collection[str], together: np.ndarray | None = None
) -> None:
    """Call ``work`` for all tokens of a run.

    Parameters
    ----------
    columns : collection of str
        Token columns that ``work`` looks at.
    together : ndarray, shape (run.num_rows,), int64, optional
        Codes; rows of one code are in one chunk.

    Raises
    ------
    MissingColumn, BadLog
        As :func:`audit.facts.tokens.token_rows`.
    """
    keep_freed_memory()

    def one(rows: TokenRows) -> None:
        work(rows.first, rows.tokens(columns))

    count = cores()
    waiting: deque[Future[None]] = deque()
    with _one_thread(), ThreadPoolExecutor(count, initializer=torch.set_num_threads, initargs=(1,)) as pool:
        try:
            for rows in token_rows(run, max_tokens=CHUNK_TOKENS, together=together):
                if len(waiting) > count:
                    waiting.popleft().result()
                waiting.append(pool.submit(one, rows))
            while waiting:
                waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()


@contextmanager
def _one_thread() -> Iterator[None]:
    """Keep torch from waiting for its own threads, which costs several times the work on a busy machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)

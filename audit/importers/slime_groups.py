"""Groups of samples without a group number: rebuilt in memory, where the file is already.

Reading a file of slime takes so long that the two readings of other formats would double the time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from audit.importers.grouping import LEFT_OUT, rebuild
from audit.importers.interface import Book, Row


def grouped(found: Iterable[Row], step: int, size: int | None, book: Book) -> Iterator[Row]:
    """Name the groups of the rows of one rollout that have none: blocks of one prompt."""
    rows = list(found)
    bare = [row for row in rows if row.get("group_id") is None]
    codes = np.unique([row["prompt_id"] for row in bare], return_inverse=True)[1].astype(np.int64)
    made = rebuild(codes, np.zeros(len(bare), np.int64), "blocks", size)
    for note in made.notes:
        book.note(note)
    names = iter([] if made.group is None else made.group.tolist())
    for row in rows:
        if row.get("group_id") is None and made.group is not None:
            group = next(names)
            if group < 0:
                book.reject(LEFT_OUT)
                continue
            row["group_id"] = f"{step}:b{group}"
        yield row

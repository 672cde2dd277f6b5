"""How responses end: by which reason, and with which token."""

from __future__ import annotations

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from audit.analyses.length_rows import LengthRows
from audit.facts.rows import RunRows

STOP_SHARE = 0.9
"""Heuristic: up to three ids that end this share of the responses that stopped are stop tokens."""
_REASONS = 8


class Reason(msgspec.Struct, frozen=True):
    """One value of ``finish_reason``; null where it was not logged."""

    reason: str | None
    share: float
    n: int


class LastTokens(msgspec.Struct, frozen=True):
    """The last token of responses, from ``token_ids``."""

    stop_tokens: list[int]
    """Ids with which stopped responses end; empty where no few ids do: the log then leaves out the stop
    token, or stopping goes by text."""
    n_stopped: int
    n_cut: int
    cut_but_stopped: float | None
    """Share of responses that are said to be cut and end with such a token all the same."""


class Stops(msgspec.Struct, frozen=True):
    """How responses end."""

    reasons: list[Reason]
    last: LastTokens | None


def stops(data: LengthRows) -> Stops | None:
    """Count reasons and last tokens; None where ``finish_reason`` was not logged."""
    rows = data.rows
    if not rows.has("finish_reason"):
        return None
    given = rows.table["finish_reason"].combine_chunks().filter(pa.array(data.use))
    counted = sorted(
        zip(*(pc.value_counts(given).field(at).to_pylist() for at in (0, 1)), strict=True),
        key=lambda pair: -pair[1],
    )
    total = max(len(given), 1)
    reasons = [Reason(None if r is None else str(r), n / total, n) for r, n in counted[:_REASONS]]
    return Stops(reasons, last_tokens(rows) if rows.has("token_ids") else None)


def last_tokens(rows: RunRows) -> LastTokens | None:
    """The tokens that responses end with; None where none stopped by itself."""
    assert rows.facts is not None
    last, cut = rows.facts["last_token"], rows.truncated
    assert cut is not None
    stopped = np.array([reason == "stop" for reason in rows.table["finish_reason"].to_pylist()], dtype=bool)
    logged = last >= 0
    ends, cuts = last[stopped & logged], last[cut & logged]
    if not len(ends):
        return None
    ids, counts = np.unique(ends, return_counts=True)
    order = np.argsort(-counts, kind="stable")[:3]
    shares = np.cumsum(counts[order]) / len(ends)
    enough = int(np.searchsorted(shares, STOP_SHARE)) + 1
    found = ids[order[:enough]].tolist() if shares[-1] >= STOP_SHARE else []
    ended = float(np.isin(cuts, found).mean()) if found and len(cuts) else None
    return LastTokens(found, len(ends), len(cuts), ended)

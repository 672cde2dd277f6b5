"""The numbers that trainers log as a loss: every aggregation, and the denominators that slip in."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from audit.analyses.checks.look import Look
from audit.analyses.checks.surrogate import Losses
from audit.errors import AuditError
from audit.facts.rows import dense
from audit.facts.weigh import as_applied, coefficients_of
from audit.objectives.objective import Aggregation

DECLARED = "declared"
KINDS = ("seq-mean-token-mean", "token-mean", "seq-mean-token-sum", "token-sum")


class Form(NamedTuple):
    """One way to make a loss of an update from the sums of its responses."""

    name: str
    words: str
    values: np.ndarray
    """What each response adds to the loss of its update, float64, shape (R,)."""
    more: str = ""
    """What it means for this log."""
    fixed: bool = False
    """Whether a free factor would make it another form."""


def forms(look: Look, own: Losses) -> Iterator[Form]:
    """The declared aggregation first, then the others, the usual ones first."""
    declared = look.declared
    assert declared is not None
    made = _nu(look, declared.aggregation)
    if made is None:
        return
    yield Form(DECLARED, declared.aggregation.kind, made * own.total)
    scopes = ("update", "micro_batch") if look.rows.has("micro_batch") else ("update",)
    for scope in scopes:
        for kind in KINDS:
            aggregation = Aggregation(kind=kind, scope=scope)  # type: ignore[arg-type]
            if aggregation == declared.aggregation or (nu := _nu(look, aggregation)) is None:
                continue
            mean = scope == "micro_batch"
            words = f"the mean over micro-batches of {kind}" if mean else kind
            more = _short(look, own) if mean and kind == "token-mean" else ""
            yield Form(kind, words, nu * own.total, more)
        for kind in ("token-sum-norm", "seq-mean-token-sum-norm"):
            aggregation = Aggregation(kind=kind, scope=scope, constant="longest")  # type: ignore[arg-type]
            if aggregation == declared.aggregation or (nu := _nu(look, aggregation)) is None:
                continue
            words = "the sum" if kind == "token-sum-norm" else "the mean over responses"
            where = "update" if scope == "update" else "micro-batch"
            yield Form(
                kind,
                f"{words} divided by the longest response of each {where}",
                nu * own.total,
                _longest(look, own, kind, scope),
            )
    yield from _all_tokens(look, own)


def _nu(look: Look, aggregation: Aggregation) -> np.ndarray | None:
    declared = look.declared
    assert declared is not None
    try:
        objective = as_applied(look.rows, declared).replace(aggregation=aggregation)
        return np.asarray(coefficients_of(look.rows, objective).nu)
    except AuditError:
        return None


def _slices(look: Look, scope: str = "micro_batch") -> np.ndarray:
    rows = look.rows
    if scope == "update":
        return rows.update
    return dense(rows.update, np.nan_to_num(rows.numpy("micro_batch")).astype(np.int64))


def _short(look: Look, own: Losses) -> str:
    """Weight of a token of the micro-batch with the fewest tokens, over that of a token of the fullest."""
    assert look.loss_tokens is not None
    code = _slices(look)
    tokens = np.bincount(code, weights=np.where(own.kept, look.loss_tokens, 0.0))
    update = np.zeros(len(tokens), dtype=np.int64)
    update[code] = look.rows.update
    low, high = np.full(int(update.max()) + 1, np.inf), np.zeros(int(update.max()) + 1)
    full = tokens > 0
    np.minimum.at(low, update[full], tokens[full])
    np.maximum.at(high, update[full], tokens[full])
    ratio = (high / low)[np.isfinite(low)]
    return (
        f" token-mean has two meanings: tokens in an update's shortest micro-batch weigh "
        f"{np.median(ratio):.2g}x those in its longest (median; at most {ratio.max():.2g}x)."
    )


def _longest(look: Look, own: Losses, kind: str, scope: str) -> str:
    code = _slices(look, scope)
    longest = np.zeros(int(code.max()) + 1)
    np.maximum.at(longest, code, np.where(own.kept, np.nan_to_num(look.rows.length), 0.0))
    longest = longest[longest > 0]
    said = f" The divisor moves from {longest.min():.0f} to {longest.max():.0f} tokens."
    if kind == "token-sum-norm":
        rows = np.bincount(code, weights=own.kept)
        said += f" The loss grows with the rows, {np.median(rows[rows > 0]):.0f} at the median."
    return said


def _all_tokens(look: Look, own: Losses) -> Iterator[Form]:
    """Every token in the denominator, those without loss too."""
    if look.rows.facts is None or look.loss_tokens is None:
        return
    every = np.asarray(look.rows.facts["tokens"], dtype=np.float64)
    every = np.where(look.rows.greedy, 0.0, every)
    used = np.where(own.kept, look.loss_tokens, 0.0)
    if every.sum() <= used.sum():
        return
    update = look.rows.update
    total = np.bincount(update, weights=every)
    bare = int(((used == 0) & (every > 0)).sum())
    more = (
        f" Its denominator counts {every.sum() / max(used.sum(), 1.0) - 1:.0%} more tokens than the loss uses"
        + (f": {bare} rows have no loss token." if bare else ".")
    )
    values = own.total / np.maximum(total, 1.0)[update]
    yield Form("all-tokens", "the sum over loss tokens divided by all tokens", values, more, fixed=True)

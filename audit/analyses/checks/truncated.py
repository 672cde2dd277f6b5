"""Responses cut by the length limit: how many, and whether any of them could be right."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from audit.analyses.checks.look import Entry, Look, problem
from audit.schema import Problem

MOST = 0.5
SPIKE = 0.3
"""Share of rows at the largest length from which that is a limit, where no finish_reason says; heuristic."""


def _find(look: Look) -> Iterator[Problem]:
    length, use = look.rows.length, look.first
    known = look.rows.cut_off
    top = float(np.nanmax(length[use])) if np.isfinite(length[use]).any() else float("nan")
    if known is not None:
        cut, how = use & (known == 1.0), "truncated"
        total = use & np.isfinite(known)
    else:
        cut, how = use & (length == top), "at the largest length"
        total = use & np.isfinite(length)
        if np.isnan(top) or top < 8 or cut.sum() < SPIKE * total.sum():
            return
    yield from _mask_disagrees(look, use, known)
    share = float(cut.sum() / max(total.sum(), 1))
    if share < MOST:
        return
    reward = look.reward[cut & np.isfinite(look.reward)]
    good = int((reward > 0).sum())
    at = np.unique(length[cut & np.isfinite(length)])
    limit = f" at {at[-1]:.0f} tokens" if len(at) else ""
    said = f"{share:.0%} of {int(total.sum())} rows are {how}{limit}; "
    said += "none of them scored above 0" if not good else f"{good} of them scored above 0"
    if len(at) and np.nanmin(length[total]) == np.nanmax(length[total]):
        said += f"; min = max = {at[-1]:.0f}: no response ended by itself"
    yield problem(
        look,
        "length.truncated",
        cut,
        said + ".",
        "warning",
        column="finish_reason" if known is not None else "length",
        certainty="certain" if known is not None else "likely",
        hint="Raise the generation budget, or look whether the end id is among the stop ids.",
    )


def _mask_disagrees(look: Look, use: np.ndarray, known: np.ndarray | None) -> Iterator[Problem]:
    """Truncated rows that are masked in part of the log only."""
    loss = look.loss_tokens
    if known is None or loss is None:
        return
    cut = use & (known == 1.0) & (np.nan_to_num(look.rows.length) > 0)
    out = cut & (loss == 0)
    if out.any() and (cut & ~out).sum() > 0:
        fewer = min(int(out.sum()), int((cut & ~out).sum()))
        yield problem(
            look,
            "mask.truncated-differs",
            out if out.sum() <= (cut & ~out).sum() else cut & ~out,
            f"Of {int(cut.sum())} truncated rows {int(out.sum())} take no loss and "
            f"{int((cut & ~out).sum())} do: the masks disagree about {fewer} of them.",
            column="loss_mask",
        )


CHECK = Entry(
    "responses cut by the limit",
    {
        "length.truncated": "most responses are cut by the length limit; how many of them scored",
        "mask.truncated-differs": "some truncated rows take loss, others do not",
    },
    _find,
    ("finish_reason|length|token_ids",),
)

"""One colour a run, everywhere, told apart by people who see colours otherwise."""

from __future__ import annotations

from collections.abc import Sequence

PALETTE = (
    *("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#B8860B", "#56B4E9"),
    *("#7F3C8D", "#A5AA99", "#8B4513", "#E69F00", "#3969AC", "#F2B701"),
)
"""Okabe and Ito's colours, those too light on white replaced, and six more for large directories."""
CORRECT, WRONG = "#009E73", "#D55E00"


def colours_of(names: Sequence[str], shown: Sequence[str] | None = None) -> dict[str, str]:
    """Return the colour of each run, by its place in the directory.

    Parameters
    ----------
    names : sequence of str
        Every run of the directory, in order: a run keeps its colour whatever is shown beside it.
    shown : sequence of str, optional
        Runs that are seen together. Where two of them share a colour (more runs than colours), the later
        one takes one that is free.
    """
    own = {name: PALETTE[place % len(PALETTE)] for place, name in enumerate(names)}
    taken: set[str] = set()
    for name in shown or ():
        if own.get(name) in taken:
            free = [colour for colour in PALETTE if colour not in taken]
            own[name] = free[0] if free else own[name]
        taken.add(own.get(name, ""))
    return own

"""Signs that log-probs passed through a short number format, or were filled in."""

from __future__ import annotations

from typing import Literal

import msgspec
import numpy as np

from audit.facts.rows import RunRows
from audit.facts.tokenpass.breakdowns import OnGrid, Placeholder, name_of
from audit.facts.tokenpass.chunk import Policy

ON_GRID = 0.99
"""Share of log-probs on the grid of a short format, from which they are called rounded to it; heuristic."""

_POLICIES: tuple[Policy, ...] = ("old", "sampler")
_FORMATS: tuple[Literal["any", "bfloat16", "float16"], ...] = ("any", "bfloat16", "float16")
_HALF_STEP = {"bfloat16": 2.0**-9, "float16": 2.0**-12}
"""Largest relative error of rounding to nearest."""


class Grid(msgspec.Struct, frozen=True):
    """How many log-probs of one policy are numbers of a short format; 0 is left out, for it is in all."""

    column: str
    tokens: int
    """Loss tokens whose log-prob is not 0."""
    bfloat16: float
    """Share of them; 2⁻¹⁶ by chance."""
    float16: float
    """Share of them; 2⁻¹³ by chance."""
    format: Literal["bfloat16", "float16"] | None
    """The format that they were rounded to, by :data:`ON_GRID`."""
    error: float | None
    """Mean |error| that rounding to it can make at most, nats per token."""


def storage_facts() -> list[str]:
    """Facts that this file reads."""
    names = [name_of(OnGrid(policy, form)) for policy in _POLICIES for form in _FORMATS]
    return [*names, name_of(Placeholder("sampler", "old")), "logp_old", "logp_sampler", "loss_tokens"]


def grids(rows: RunRows, use: np.ndarray) -> list[Grid]:
    """Look at the log-probs of the trainer and of the sampler on the responses ``use``, bool, shape (R,)."""
    assert rows.facts is not None
    found = []
    for policy in _POLICIES:
        counts = [
            float(rows.facts[name_of(OnGrid(policy, form))][use].sum())
            for form in ("any", "bfloat16", "float16")
        ]
        held = counts[0] or 1.0
        shares = {"bfloat16": counts[1] / held, "float16": counts[2] / held}
        form: Literal["bfloat16", "float16"] | None = None
        if shares["bfloat16"] >= ON_GRID:
            form = "bfloat16"
        elif shares["float16"] >= ON_GRID:
            form = "float16"
        error = None
        if form is not None:
            size = -float(rows.facts[f"logp_{policy}"][use].sum())
            error = _HALF_STEP[form] * size / max(float(rows.facts["loss_tokens"][use].sum()), 1.0)
        found.append(
            Grid(f"logp_{policy}", int(counts[0]), shares["bfloat16"], shares["float16"], form, error)
        )
    return found


def placeholders(rows: RunRows, use: np.ndarray) -> int:
    """Count loss tokens whose sampler log-prob is exactly 0 where the trainer's is below -1: filled in."""
    assert rows.facts is not None
    return int(rows.facts[name_of(Placeholder("sampler", "old"))][use].sum())

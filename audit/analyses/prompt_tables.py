"""Exact numbers of several objectives and group sizes, side by side."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from audit.analyses.effective_batch import EffectiveBatch, effective_batch
from audit.analyses.effective_beta import EffectiveBeta, effective_betas
from audit.analyses.prompt_factor import Factor, prompt_factors, reward_factor
from audit.analyses.zero_signal import Silence, silences
from audit.errors import AuditError
from audit.objectives.catalogue import named
from audit.objectives.objective import Objective

RATES = (0.0, 0.02, 0.1, 0.25, 0.44, 0.5, 0.71, 0.9, 0.98, 1.0)
_INSIDE = tuple(rate for rate in RATES if 0.0 < rate < 1.0)
_SIZES = {"zero-signal": (4, 8, 16, 32, 64)}


class Column(msgspec.Struct, frozen=True):
    """One objective at one group size."""

    objective: str
    group_size: int
    rows: list[Factor] | list[Silence] | list[EffectiveBeta] | EffectiveBatch


class Table(msgspec.Struct, frozen=True):
    """What was calculated, one column per objective and group size, and for what."""

    kind: str
    columns: list[Column]
    objectives: int
    """How many objectives were named; 0: the numbers hold for any."""
    rewards: list[tuple[float, float]]
    """Values and probabilities, where rewards are not 0 and 1."""


def calculate(
    kind: str,
    objectives: Sequence[Objective],
    sizes: Sequence[int] = (),
    rates: Sequence[float] | None = None,
    rewards: Sequence[tuple[float, float]] = (),
) -> Table:
    """Calculate one kind of numbers for every objective at every group size.

    Parameters
    ----------
    kind : str
        ``factor``, ``zero-signal``, ``effective-batch`` or ``effective-beta``.
    rates : sequence of float, optional
        Success rates; default: :data:`RATES`, without the limits where they say nothing.
    rewards : sequence of (value, probability)
        For ``factor``: the distribution of the reward, instead of success rates.

    Raises
    ------
    AuditError
        No objective where one is needed, or numbers that are out of range.
    """
    if not objectives and kind != "zero-signal":
        msg = f"--{kind} needs an objective, as in rlaudit objectives grpo --{kind}."
        raise AuditError(msg)
    sizes = sizes or _SIZES.get(kind, (8,))
    if rates is None:
        rates = RATES if kind in ("factor", "effective-beta") else _INSIDE
    columns = [
        Column(objective.name, size, _rows(kind, objective, size, rates, rewards))
        for objective in objectives or [named("grpo")]
        for size in sizes
    ]
    return Table(kind, columns, len(objectives), list(rewards))


def titles_of(columns: Sequence[Column], table: Table) -> list[str]:
    """Name columns by what tells those of a table apart: objective, group size, or both."""
    names = {column.objective for column in table.columns}
    sizes = {column.group_size for column in table.columns}
    if len(sizes) == 1:
        return [column.objective for column in columns]
    if len(names) == 1:
        return [f"G = {column.group_size}" for column in columns]
    return [f"{column.objective}, G = {column.group_size}" for column in columns]


def _rows(
    kind: str,
    objective: Objective,
    size: int,
    rates: Sequence[float],
    rewards: Sequence[tuple[float, float]],
) -> list[Factor] | list[Silence] | list[EffectiveBeta] | EffectiveBatch:
    if kind == "zero-signal":
        return silences(objective, size, rates)
    if kind == "effective-batch":
        return effective_batch(objective, size, rates)
    if kind == "effective-beta":
        return effective_betas(objective, size, rates)
    if rewards:
        values, share = zip(*rewards, strict=True)
        return [reward_factor(objective, size, values, share)]
    return prompt_factors(objective, size, rates)

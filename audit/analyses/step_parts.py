"""Which responses of a step carry the gradient: by length, sign of the advantage, and difficulty."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from audit.analyses.outcomes import correctness
from audit.analyses.skips import Skips
from audit.facts.step_rows import StepRows
from audit.stats import Estimate, bootstrap, cluster_sums, estimate

TENTHS = 10
SIGNS = (("advantage > 0", 1), ("advantage < 0", -1))
RATES = (("none right", 0.0, 0.0), ("up to 1/3 right", 0.0, 1 / 3), ("up to 2/3 right", 1 / 3, 2 / 3))
"""Groups by their own success rate, (low, high]; heuristic."""


class Weighed(NamedTuple):
    """What one objective puts on the H responses of a step; arrays of shape (H,), float64."""

    amount: np.ndarray
    """|sum of the policy weights of the response's tokens|."""
    tokens: np.ndarray
    """Loss tokens."""
    advantage: np.ndarray
    """0 where the response takes no loss."""
    cluster: np.ndarray
    """Dense code of the prompt, int64."""


class StepPart(msgspec.Struct, frozen=True):
    """Some responses of the step under two objectives."""

    name: str
    a: Estimate
    """Share of the gradient (sum of |policy weight|) under a; n counts the responses of the part."""
    b: Estimate
    change: Estimate
    """b - a, from the same resamples."""
    per_token_a: Estimate
    """Weight of a loss token of the part, with that of the whole step as 1."""
    per_token_b: Estimate


def compared_parts(step: StepRows, a: Weighed, b: Weighed, skips: Skips) -> dict[str, list[StepPart]]:
    """Shares of each part under two objectives, with intervals by prompt."""
    found = {"length": _by_length(step)}
    found["sign"] = [
        (name, np.sign(a.advantage) == sign, np.sign(b.advantage) == sign) for name, sign in SIGNS
    ]
    difficulty = _by_difficulty(step)
    if difficulty is None:
        skips.add("difficulty", "group_id and a reward")
    else:
        found["difficulty"] = difficulty
    return {kind: compared(a, b, parts) for kind, parts in found.items()}


def compared(a: Weighed, b: Weighed, parts: Sequence[tuple[str, np.ndarray, np.ndarray]]) -> list[StepPart]:
    """Compare parts; each is a name and its responses, bool of shape (H,), under a and under b."""
    held = [part for part in parts if part[1].any() or part[2].any()]
    if not held:
        return []
    count = len(held)
    columns = []
    for at, side in enumerate((a, b)):
        amount = np.where(np.isfinite(side.amount), side.amount, 0.0)
        columns += [amount * part[1 + at] for part in held]
        columns += [side.tokens * part[1 + at] for part in held]
        columns += [amount, side.tokens]

    @np.errstate(divide="ignore", invalid="ignore")
    def statistic(totals: np.ndarray) -> np.ndarray:
        made = []
        for first in (0, 2 * count + 2):
            part, size = (totals[..., first + count * k : first + count * (k + 1)] for k in range(2))
            whole, all_tokens = (totals[..., first + 2 * count + k, None] for k in range(2))
            made.append((part / whole, (part / size) / (whole / all_tokens)))
        return np.concatenate([made[0][0], made[1][0], made[1][0] - made[0][0], made[0][1], made[1][1]], -1)

    found = bootstrap(cluster_sums(np.column_stack(columns), a.cluster), statistic)
    return [
        StepPart(
            name,
            *(
                estimate(found, n, at + k * count)
                for k, n in enumerate((int(in_a.sum()), int(in_b.sum()), len(in_a), *_sizes(in_a, in_b)))
            ),
        )
        for at, (name, in_a, in_b) in enumerate(held)
    ]


def _sizes(in_a: np.ndarray, in_b: np.ndarray) -> tuple[int, int]:
    return int(in_a.sum()), int(in_b.sum())


def _by_length(step: StepRows) -> list[tuple[str, np.ndarray, np.ndarray]]:
    """Tenths of the responses by length; equal lengths stay together, so that few lengths make few parts."""
    length = step.rows.length[step.here]
    known = np.isfinite(length)
    if not known.any():
        return []
    _, code, counts = np.unique(length[known], return_inverse=True, return_counts=True)
    middle = (np.cumsum(counts) - 0.5 * counts) / counts.sum()
    tenth = np.full(len(length), -1)
    tenth[known] = np.minimum((middle * TENTHS).astype(int), TENTHS - 1)[code]
    made = []
    for at in np.unique(tenth[known]):
        inside = tenth == at
        low, high = int(length[inside].min()), int(length[inside].max())
        made.append((f"{low:,}" if low == high else f"{low:,}–{high:,}", inside, inside))
    return made


def _by_difficulty(step: StepRows) -> list[tuple[str, np.ndarray, np.ndarray]] | None:
    """Groups by the share of their responses that are right, the step's own responses among them."""
    rows = step.rows
    side = correctness(step.of_run)[0][step.at]
    known = np.isfinite(side) & rows.grouped & ~rows.greedy
    if not known.any():
        return None
    size = int(rows.sample.max()) + 1
    right = np.bincount(rows.sample[known], weights=side[known], minlength=size)
    with np.errstate(invalid="ignore"):
        rate = (right / np.bincount(rows.sample[known], minlength=size))[rows.sample][step.here]
    parts = [(RATES[0][0], rate == 0.0)]
    parts += [(name, (rate > low) & (rate <= high)) for name, low, high in RATES[1:]]
    parts += [("over 2/3 right", (rate > 2 / 3) & (rate < 1.0)), ("all right", rate == 1.0)]
    return [(name, inside, inside) for name, inside in parts]

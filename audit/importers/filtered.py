"""Groups that a trainer dropped before it wrote its log: those without signal ought to be there."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa

LEAST = 7.0
"""Expected number of silent groups from which none at all is no chance: e^-7 is 0.1 %."""
STEEPEST = 0.8
"""Largest ratio at which expectations are carried on; beyond it they hang on few groups."""


class Silent:
    """Watches the groups of a log whose reward has two values.

    With Z_n the share of groups of n samples whose rewards are all equal, D_n = Z_{n-1} - Z_n follows from
    the groups that are not: D_n = P(all but one of n are equal) / n, D_{n-1} from random subsets of n - 1.
    Z_n is a mixture of powers of success rates, so that D falls ever more slowly, and
    Z_n >= D_n r / (1 - r) with r = D_n / D_{n-1}.
    """

    def __init__(self) -> None:
        self._groups: dict[str, list[int]] = {}
        self._values: list[float] = []
        self._many = False

    def add(self, batch: pa.RecordBatch) -> None:
        """Count the rewards of a batch."""
        if self._many:
            return
        rewards = np.asarray(batch["reward"].to_numpy(zero_copy_only=False), dtype=float)
        for value in np.unique(rewards[np.isfinite(rewards)]).tolist():
            if value not in self._values:
                self._values.append(value)
        if len(self._values) > 2:
            self._many = True
            self._groups.clear()
            return
        for group, reward in zip(batch["group_id"].to_pylist(), rewards.tolist(), strict=True):
            if group is not None and reward in self._values:
                self._groups.setdefault(group, [0, 0])[self._values.index(reward)] += 1

    def note(self) -> str | None:
        """Return what to say where no group is silent and many ought to be; None elsewhere."""
        counts = [tuple(each) for each in self._groups.values() if sum(each) > 2]
        if self._many or len(self._values) < 2 or not counts or any(0 in each for each in counts):
            return None
        size = Counter(map(sum, counts)).most_common(1)[0][0]
        whole = [each for each in counts if sum(each) == size]
        ones = sum(each.count(1) for each in whole)
        twos = sum(each.count(2) for each in whole)
        steep = ones / size
        before = (ones * (size - 1) / size + twos * 2 / size) / (size - 1)
        ratio = min(steep / before, STEEPEST) if before else 0.0
        expected = steep * ratio / (1.0 - ratio)
        if expected < LEAST:
            return None
        return (
            f"none of {len(counts)} groups has equal rewards, where {expected:.0f} or more would be "
            "expected: groups without signal were dropped before they were logged (filtering, dynamic "
            "sampling)"
        )

"""Counts of what a trust region removed, token by token: where facts of factors do not tell."""

from __future__ import annotations

import numpy as np

from audit.analyses.clipping_counts import Counts, bounds_of
from audit.analyses.token_parts import edges_of
from audit.facts.rows import RunRows
from audit.facts.tokenpass.breakdowns import Dimension
from audit.facts.weigh import WeighedBatch, coefficients_of, weigh
from audit.objectives.objective import Objective
from audit.objectives.ratios import policy_ratio


class Walked:
    """Token by token, for objectives with an advantage per token or a surrogate that ranks its batch."""

    def __init__(self, rows: RunRows, objective: Objective) -> None:
        c = coefficients_of(rows, objective)
        self._rows = rows
        active = c.kept & ~c.masked
        size = rows.num_rows
        self._parts: dict[Dimension, tuple[np.ndarray, np.ndarray]] = {}
        tokens, zeroed, upper, lower, kept = (np.zeros(size) for _ in range(5))
        finite = np.ones(size, dtype=bool)
        bounds = bounds_of(objective)
        for batch in weigh(rows, objective, coefficients=c):
            layout, mask = batch.tokens.layout, batch.tokens.mask
            here = slice(batch.first, batch.first + layout.num_rows)
            rho = policy_ratio(batch.tokens, objective.ratio)
            finite[here] = ~np.isnan(layout.sum(rho.masked_fill(~mask, 0.0)).numpy())
            gone = batch.weights.zeroed & mask
            rises, falls = gone & (rho > 1.0), gone & (rho <= 1.0)
            counted = [(tokens, mask), (zeroed, gone), (upper, rises), (lower, falls)]
            if bounds is not None:
                pulled = (batch.weights.policy != 0) & ~gone
                counted.append((kept, pulled & ((rho < bounds[0]) | (rho > bounds[1]))))
            for made, which in counted:
                made[here] = layout.sum(which.double()).numpy()
            self._add_parts(batch, here, mask.numpy(), gone.numpy())
        use = active & finite
        advantage = c.advantage
        self._use = use
        self.counts = Counts(
            use=use,
            lost=int((active & ~use).sum()),
            advantage=advantage,
            multiple=np.where(use, c.nu * advantage, 0.0),
            tokens=np.where(use, tokens, 0.0),
            zeroed=np.where(use, zeroed, 0.0),
            upper=np.where(use, upper, 0.0),
            lower=np.where(use, lower, 0.0),
            capped=np.zeros(size),
            kept_outside=None if bounds is None else np.where(use, kept, 0.0),
        )

    def parts(self, by: Dimension) -> tuple[list[np.ndarray], list[np.ndarray]]:
        zeroed, tokens = self._parts[by]
        kept = self._use[:, None]
        return list(np.where(kept, zeroed, 0.0).T), list(np.where(kept, tokens, 0.0).T)

    def _add_parts(self, batch: WeighedBatch, here: slice, mask: np.ndarray, gone: np.ndarray) -> None:
        lengths = batch.tokens.layout.lengths.numpy()
        row = np.repeat(np.arange(len(lengths)), lengths)
        place = np.arange(len(row)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        x: dict[Dimension, np.ndarray] = {"position": place, "tenth": 10.0 * place / lengths[row]}
        if batch.tokens.logp_old is not None:
            x["logp"] = batch.tokens.logp_old.numpy()
        for by, values in x.items():
            edges = edges_of(self._rows, by)
            count = len(edges) - 1
            shape = (self._rows.num_rows, count)
            zeroed, tokens = self._parts.setdefault(by, (np.zeros(shape), np.zeros(shape)))
            inner = np.array(edges[1:-1], dtype=np.float64)
            cell = row * count + np.searchsorted(inner, values, side="right")
            known = ~np.isnan(values)
            for made, which in ((zeroed, gone), (tokens, mask)):
                held = which & known
                made[here] += np.bincount(cell[held], minlength=len(lengths) * count).reshape(-1, count)

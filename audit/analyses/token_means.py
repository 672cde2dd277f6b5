"""Means over loss tokens of chosen responses: log ratio, mismatch with the sampler, clipped share."""

from __future__ import annotations

import numpy as np

from audit.analyses.shares import share_of
from audit.analyses.skips import Skips
from audit.facts.rows import RunRows
from audit.facts.weight_sums import weight_sums
from audit.objectives.objective import Objective
from audit.stats import Estimate, bootstrap, cluster_sums, estimate, ratio_of_sums

NOISE = 1e-4
"""|log ratio| up to this is rounding, not another policy; heuristic."""


class TokenMeans:
    """Means per loss token over a choice of responses, each None where its columns were not logged.

    n counts responses. What is missing is named once, when this is made.
    """

    def __init__(self, rows: RunRows, objective: Objective | None, skips: Skips) -> None:
        self._rows = rows
        self._facts = rows.facts
        self._zeroed: np.ndarray | None = None
        if self._facts is None:
            skips.add("shares of tokens", "token_ids or length, in tokens")
        self._has_ratio = not skips.lacks("log ratio", "logp_theta", "logp_old")
        self._has_sampler = not skips.lacks("mismatch with the sampler", "logp_old", "logp_sampler")
        if objective is None:
            skips.add("share that the trust region removed", "an objective: name one with --objective")
        elif self._facts is not None:
            check = f"share that the trust region of {objective.name} removed"
            self._zeroed = skips.attempt(check, lambda: weight_sums(rows, objective).zeroed)

    def share(self, here: np.ndarray, among: np.ndarray) -> Estimate | None:
        """Share of the loss tokens of ``among`` that is on ``here``."""
        if self._facts is None:
            return None
        tokens = self._facts["loss_tokens"].astype(float)
        return ratio_of_sums(tokens * (here & among), tokens * among, self._rows.prompt, int(among.sum()))

    def ratio(self, here: np.ndarray) -> Estimate | None:
        """Mean of pi_theta / pi_old."""
        return self._per_token("ratio", here) if self._has_ratio else None

    def mean_log_ratio(self, here: np.ndarray) -> Estimate | None:
        """Mean of log pi_theta - log pi_old, nats."""
        return self._per_token("log_ratio", here) if self._has_ratio else None

    def log_ratio(self, here: np.ndarray) -> Estimate | None:
        """Root mean square of log pi_theta - log pi_old, nats."""
        return self._per_token("log_ratio_square", here, root=True) if self._has_ratio else None

    def largest(self, here: np.ndarray) -> float | None:
        """Largest |log pi_theta - log pi_old| of a token, nats."""
        if not self._has_ratio or self._facts is None:
            return None
        held = self._facts["log_ratio_max"][here]
        held = held[np.isfinite(held)]
        return float(held.max()) if len(held) else None

    def moved(self, here: np.ndarray) -> Estimate | None:
        """Share of the responses with loss tokens in which a |log ratio| exceeds ``NOISE``."""
        if not self._has_ratio or self._facts is None:
            return None
        largest = self._facts["log_ratio_max"]
        held = here & ~np.isnan(largest) & (self._facts["loss_tokens"] > 0)
        return share_of(largest > NOISE, self._rows.prompt, held)

    def mismatch(self, here: np.ndarray) -> Estimate | None:
        """Mean of |log pi_old - log pi_sampler|, nats."""
        return self._per_token("mismatch", here) if self._has_sampler else None

    def zeroed(self, here: np.ndarray) -> Estimate | None:
        """Share of loss tokens that the trust region removed."""
        if self._zeroed is None:
            return None
        return self._mean(self._zeroed, here)

    def _per_token(self, fact: str, here: np.ndarray, *, root: bool = False) -> Estimate | None:
        if self._facts is None:
            return None
        return self._mean(self._facts[fact], here, root=root)

    def _mean(self, sums: np.ndarray, here: np.ndarray, *, root: bool = False) -> Estimate:
        assert self._facts is not None
        use = here & np.isfinite(sums)
        tokens = np.where(use, self._facts["loss_tokens"], 0).astype(float)
        columns = np.column_stack([np.where(use, sums, 0.0), tokens])

        @np.errstate(invalid="ignore", divide="ignore")
        def statistic(totals: np.ndarray) -> np.ndarray:
            made = totals[..., :1] / totals[..., 1:2]
            return np.asarray(np.sqrt(made) if root else made)

        return estimate(bootstrap(cluster_sums(columns, self._rows.prompt), statistic), int(use.sum()))

"""Loss tokens of whole updates, at most so many: what a loss is recomputed from.

The value of a surrogate is no fact: it depends on the clip that is looked for. So some updates are read.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from audit.errors import MissingColumn
from audit.facts.rows import RunRows
from audit.facts.tokenpass.lists import list_mask, list_values, row_lengths

MOST = 400_000
"""Tokens that are read at most; heuristic."""
_COLUMNS = ("logp_theta", "logp_old", "logp_ref", "token_advantage")


@dataclass(frozen=True)
class LossSample:
    """N loss tokens of the chosen rows; arrays of shape (N,), float64 unless said otherwise."""

    rows: np.ndarray
    """Rows that are in the sample, bool, shape (R,)."""
    row: np.ndarray
    """Row of each token, int64."""
    count: np.ndarray
    """Loss tokens of each row, float64, shape (R,)."""
    advantage: np.ndarray
    theta: np.ndarray
    """log pi_theta."""
    log_ratio: np.ndarray | None
    """log pi_theta - log pi_old, nats."""
    gap: np.ndarray | None
    """log pi_theta - log pi_ref, nats."""
    _held: dict[str, np.ndarray] = field(default_factory=dict)

    @property
    def num_rows(self) -> int:
        """Rows R of the run, in the sample or not."""
        return len(self.count)

    def per_row(self, values: np.ndarray) -> np.ndarray:
        """Sum over the tokens of each row, shape (R,)."""
        return np.asarray(np.bincount(self.row, weights=values, minlength=self.num_rows))

    @property
    def finite(self) -> np.ndarray:
        """bool, shape (N,): all that was logged of the token is a number."""
        logged = (self.advantage, self.theta, self.log_ratio, self.gap)
        return np.asarray(np.isfinite([values for values in logged if values is not None]).all(axis=0))

    @property
    def moved(self) -> bool:
        """Whether the policy ever left the old one: else no ratio is other than 1, and nothing is clipped."""
        return self.log_ratio is not None and bool(np.nanmax(np.abs(self.log_ratio), initial=0.0) > 1e-6)

    def ratio(self, level: str) -> np.ndarray:
        """The policy ratio: of the token, or of its response; shape (N,).

        ``sequence``: geometric mean (GSPO, arXiv:2507.18071 eq. 7); ``product``: of the whole response
        (RLOO); ``none``: ones, the denominator is the policy itself.
        """
        if level not in self._held:
            self._held[level] = self._ratio(level)
        return self._held[level]

    def _ratio(self, level: str) -> np.ndarray:
        if level == "none" or self.log_ratio is None:
            return np.ones(len(self.row))
        log = self.log_ratio
        if level == "sequence":
            log = (self.per_row(log) / np.maximum(self.count, 1.0))[self.row]
        elif level == "product":
            log = self.per_row(log)[self.row]
        with np.errstate(over="ignore"):
            return np.asarray(np.exp(log))


def loss_sample(rows: RunRows, window: np.ndarray) -> LossSample:
    """Read the loss tokens of the first windows, whole ones, up to :data:`MOST` tokens.

    Parameters
    ----------
    window : int64, shape (R,)
        Window of each row; -1: of none.

    Raises
    ------
    MissingColumn
        Advantages or log-probs of the policy were not logged.
    """
    if rows.facts is None or not rows.has("logp_theta"):
        raise MissingColumn.needed_for("logp_theta", "recomputing the loss")
    logged = rows.logged_advantage
    if logged is None:
        raise MissingColumn.needed_for("advantage", "recomputing the loss")
    chosen = _first_windows(rows, window)
    columns = [name for name in _COLUMNS if rows.has(name)]
    wanted = [*columns, "loss_mask"] if rows.has("loss_mask") else columns
    row: list[np.ndarray] = []
    held: dict[str, list[np.ndarray]] = {name: [] for name in columns}
    first, last = 0, int(np.flatnonzero(chosen).max(initial=-1))
    for batch in rows.run.batches(wanted):
        here = slice(first, first + batch.num_rows)
        if chosen[here].any():
            lengths = np.maximum(row_lengths(batch, wanted, first), 0)
            at = np.repeat(np.arange(here.start, here.stop), lengths)
            use = chosen[at]
            mask = list_mask(batch["loss_mask"], lengths) if "loss_mask" in wanted else None
            use = use if mask is None else use & mask
            row.append(at[use])
            for name in columns:
                held[name].append(np.asarray(list_values(batch[name], lengths), dtype=np.float64)[use])
        first += batch.num_rows
        if first > last:
            break
    at = _joined(row).astype(np.int64)
    values = {name: _joined(parts) for name, parts in held.items()}
    theta = values["logp_theta"]
    return LossSample(
        rows=chosen,
        row=at,
        count=np.bincount(at, minlength=rows.num_rows).astype(np.float64),
        advantage=values.get("token_advantage", logged[at]),
        theta=theta,
        log_ratio=theta - values["logp_old"] if "logp_old" in values else None,
        gap=theta - values["logp_ref"] if "logp_ref" in values else None,
    )


def _first_windows(rows: RunRows, window: np.ndarray) -> np.ndarray:
    """Rows of the first windows whose tokens fit in; at least one window."""
    assert rows.facts is not None
    use = (window >= 0) & ~rows.greedy
    tokens = np.bincount(window[use], weights=rows.facts["loss_tokens"][use].astype(np.float64))
    fits = np.cumsum(tokens) <= MOST
    fits[:1] = True
    return np.asarray(use & fits[np.where(use, window, 0)])


def _joined(parts: list[np.ndarray]) -> np.ndarray:
    return np.concatenate(parts) if parts else np.zeros(0)

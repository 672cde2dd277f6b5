"""Does the policy of one run move at all?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from audit.analyses.findings import Looked, finding
from audit.analyses.pair import Pair
from audit.facts.rows import RunRows, dense
from audit.facts.tokenpass.text_key import NO_TEXT

STILL = 1e-6
"""Change of the log-prob per token, nats, up to which nothing changed: rounding of float32."""
LEAST_TEXTS = 3
"""Texts that must come up in several steps; heuristic."""


@dataclass(frozen=True)
class Movement:
    """Changes of log-probs within a run, largest over its texts or tokens; None where nothing shows them."""

    of_texts: float | None
    """Of one text between steps, per token."""
    texts: int
    of_passes: float | None
    """max |log rho| in the later passes over a batch."""

    @property
    def still(self) -> bool | None:
        """Whether the policy is the same at every step; None where the log does not show it."""
        known = [value for value in (self.of_texts, self.of_passes) if value is not None]
        return max(known) <= STILL if known else None


def frozen_causes(pair: Pair) -> Looked:
    """Name a policy that never moves, where that of the other run does."""
    found = Looked()
    if pair.lacking("logp_old") or any(rows.facts is None for rows in pair.sides):
        return found
    moves = [_movement(rows, use) for rows, use in zip(pair.sides, pair.trained, strict=True)]
    still = [move.still for move in moves]
    if all(still):
        found.notes.append(
            "In neither run does the policy move: the learning rate is 0, or updates get lost."
        )
    if sorted(still, key=str) != [False, True]:
        return found
    side = still.index(True)
    seen = []
    if moves[side].of_texts is not None:
        seen.append(f"{moves[side].texts} texts have the same log-probs in every step that they came up in")
    if moves[side].of_passes is not None:
        seen.append("the policy ratio stays 1 in the later passes over a batch")
    summary = (
        f"{'AB'[side]}'s policy never moves ({'; '.join(seen)}), the other run's does: a learning rate of 0, "
        "frozen weights, or updates that get lost."
    )
    evidence = {
        "kind": "frozen",
        "texts": [move.texts for move in moves],
        "change_of_texts": [move.of_texts for move in moves],
        "change_in_passes": [move.of_passes for move in moves],
    }
    # A recorder that writes logp_theta twice makes ratios of 1 as well; texts that come up again settle it.
    confidence = 0.85 if moves[side].of_texts is not None else 0.6
    found.causes.append(finding("optimiser", confidence, summary, evidence))
    return found


def _movement(rows: RunRows, use: np.ndarray) -> Movement:
    assert rows.facts is not None
    tokens = rows.facts["loss_tokens"].astype(np.float64)
    later = ~rows.greedy & (rows.epoch > rows.epoch.min(initial=0)) & (tokens > 0)
    passes = None
    if rows.has("logp_theta"):
        largest = rows.facts["log_ratio_max"][later]
        largest = largest[np.isfinite(largest)]
        passes = float(largest.max()) if len(largest) else None
    of_texts, texts = _of_texts(rows, use & (tokens > 0), tokens)
    return Movement(of_texts, texts, passes)


def _of_texts(rows: RunRows, use: np.ndarray, tokens: np.ndarray) -> tuple[float | None, int]:
    """Median range of the log-prob per token of the texts that came up in several steps, and their number."""
    assert rows.facts is not None
    if not rows.has("token_ids"):
        return None, 0
    keys, logp = rows.facts["text_key"], rows.facts["logp_old"]
    at = np.flatnonzero(use & (keys != NO_TEXT) & np.isfinite(logp))
    if not len(at):
        return None, 0
    text = dense(rows.prompt[at], keys[at], tokens[at])
    value, step = logp[at] / tokens[at], rows.step[at].astype(np.float64)
    ranges = []
    for values in (value, step):
        low, high = np.full(text.max() + 1, np.inf), np.full(text.max() + 1, -np.inf)
        np.minimum.at(low, text, values)
        np.maximum.at(high, text, values)
        ranges.append(high - low)
    again = ranges[1] > 0
    if int(again.sum()) < LEAST_TEXTS:
        return None, int(again.sum())
    return float(np.median(ranges[0][again])), int(again.sum())

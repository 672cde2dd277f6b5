"""Does a gap between sampler and trainer begin only once the policy has moved? Then the sampler lags."""

from __future__ import annotations

import numpy as np

from audit.analyses.findings import Cause, Effect, Looked, evidence_of, finding
from audit.analyses.outcomes import first_pass
from audit.analyses.pair import Pair, sure
from audit.analyses.version_lag import lags_of
from audit.facts.rows import RunRows

FACTOR = 1.5
"""Between the gaps of two runs, over all steps, from which one is larger; heuristic."""
RISE = 2.0
"""Factor between the gap of the later steps and that of the first one; heuristic."""
LEAST = 1e-3
"""Mean |g|, nats per token, below which a gap moves nothing that matters; heuristic."""
MOVES = 0.1
"""Movement of the policy in one update, as a part of the gap, that a lag of few updates needs; heuristic."""


def late_gap(pair: Pair, use: tuple[np.ndarray, np.ndarray], level: Effect) -> Looked:
    """Name a gap that is larger in one run, but not at its first step.

    A temperature, a cut support or another engine are there from the first step on. A sampler with old
    weights agrees with the trainer at the first step, where the weights are still the same; its gap comes
    with the movement of the policy.

    Parameters
    ----------
    use : two ndarrays of bool, shapes (R_a,) and (R_b,)
        Responses with both log-probs.
    level : Effect
        Mean |g|, g = log pi_old - log pi_sampler, over all of them.
    """
    found = Looked()
    if pair.first is None or not sure(level, least=LEAST, factor=FACTOR):
        return found
    first = (use[0] & (pair.a.step == pair.first), use[1] & (pair.b.step == pair.first))
    sides = [(_of(rows, "mismatch"), _of(rows, "loss_tokens")) for rows in pair.sides]
    begin = pair.share("sampler mismatch at the first step, mean |g|", (sides[0], sides[1]), first)
    if begin is None or begin.a is None or begin.b is None:
        return found
    found.measured.append(begin)
    over, start = (level.a or 0.0, level.b or 0.0), (begin.a, begin.b)
    worse = int(over[1] > over[0])
    began_alike = start[worse] <= FACTOR * max(start[1 - worse], LEAST)
    if not began_alike or over[worse] < RISE * max(start[worse], LEAST):
        return found
    found.causes.append(_cause(pair, use, worse, level, begin))
    return found


def _cause(pair: Pair, use: tuple[np.ndarray, np.ndarray], worse: int, level: Effect, begin: Effect) -> Cause:
    name, rows = "AB"[worse], pair.sides[worse]
    over, start = ((e.a, e.b)[worse] or 0.0 for e in (level, begin))
    other = (level.a, level.b)[1 - worse] or 0.0
    summary = (
        f"The gap between {name}'s sampler and trainer is {start:.2g} nats per token at the first step, as "
        f"in the other run, and {over:.2g} over all steps ({other:.2g} in the other): "
    )
    moved = _movement(rows, use[worse])
    evidence = evidence_of(level, first_step=[begin.a, begin.b], movement=moved)
    if _fresh(rows):
        summary += "its versions say that the sampler is up to date, so the engine drifts."
        return finding("numerics.mismatch", 0.7, summary, evidence)
    if moved is not None and moved < MOVES * (over - start):
        summary += f"the policy moves by {moved:.2g} an update only, too little for a lag: the engine drifts."
        return finding("numerics.mismatch", 0.7, summary, evidence)
    summary += "it comes with the policy's movement, as from a sampler whose weights are old."
    return finding("staleness", 0.6 if moved is None else 0.75, summary, evidence)


def _fresh(rows: RunRows) -> bool:
    """Whether logged versions exclude a lag."""
    if not (rows.has("policy_version") and rows.has("sampler_version")):
        return False
    lags = lags_of(rows)[first_pass(rows)]
    known = lags[np.isfinite(lags)]
    return bool(len(known)) and float(np.abs(known).mean()) < MOVES


def _movement(rows: RunRows, use: np.ndarray) -> float | None:
    """How far the policy moves in an update, rms log-ratio per token; None where the log does not show it.

    From the later passes over a batch, else from the distance to the reference: what the last third of the
    steps has gained on the first step, a step.
    """
    assert rows.facts is not None
    tokens = _of(rows, "loss_tokens")
    if rows.has("logp_theta") and rows.epoch.max() > rows.epoch.min():
        later = ~rows.greedy & (rows.epoch > rows.epoch.min()) & np.isfinite(rows.facts["log_ratio_square"])
        if tokens[later].sum() > 0:
            return float(np.sqrt(rows.facts["log_ratio_square"][later].sum() / tokens[later].sum()))
    if not rows.has("logp_ref"):
        return None
    away = rows.facts["kl_old_ref_abs"]
    known = use & np.isfinite(away)
    steps = np.unique(rows.step[known])
    if len(steps) < 3:
        return None
    begin, end = known & (rows.step == steps[0]), known & (rows.step >= steps[-(len(steps) // 3)])
    if not tokens[begin].sum() or not tokens[end].sum():
        return None
    gained = away[end].sum() / tokens[end].sum() - away[begin].sum() / tokens[begin].sum()
    # A walk that turns leaves less of it than it took: the square root of the number of steps, at least.
    return float(max(gained, 0.0) / np.sqrt(len(steps)))


def _of(rows: RunRows, name: str) -> np.ndarray:
    assert rows.facts is not None
    return rows.facts[name].astype(np.float64)

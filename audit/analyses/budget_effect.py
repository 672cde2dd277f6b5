"""Are responses cut at one budget in both runs, and were those that are called truncated cut at all?"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from audit.analyses.findings import Cause, finding
from audit.analyses.outcomes import truncated
from audit.analyses.pair import Pair
from audit.analyses.skipped import Skipped
from audit.facts.rows import RunRows

LEAST = 5
"""Truncated responses that each run must have; heuristic."""
AT_ONE = 0.5
"""Share of them that must end at one length for that to be the budget; heuristic."""
ENDS = 0.9
"""Share of the whole responses that must end with one token for it to be the end token; heuristic."""
WRONGLY = 0.5
"""Difference in the share of truncated responses that end with it; heuristic."""


def budget_causes(pair: Pair) -> tuple[list[Cause], list[Skipped]]:
    """Compare where truncated responses end: that is the generation budget, whatever the config says."""
    ended = [truncated(rows) for rows in pair.sides]
    if ended[0] is None or ended[1] is None or any(rows.facts is None for rows in pair.sides):
        return [], [Skipped("truncation", "finish_reason and token lengths")]
    cut = (ended[0] == 1.0, ended[1] == 1.0)
    if min(int(c.sum()) for c in cut) < LEAST:
        return [], []
    wrong = _not_cut(pair, cut)
    if wrong is not None:
        return [wrong], []
    for what, lengths in (("tokens", _lengths), ("tokens, prompt included,", _totals)):
        budgets = [_one_length(lengths(rows)[c]) for rows, c in zip(pair.sides, cut, strict=True)]
        if budgets[0] is None or budgets[1] is None:
            continue
        if budgets[0] == budgets[1]:
            return [], []
        shares = [float(np.nanmean(e)) for e in ended if e is not None]
        summary = (
            f"Responses are cut at {budgets[0]:g} {what} in A ({shares[0]:.1%} of them) and at "
            f"{budgets[1]:g} in B ({shares[1]:.1%})."
        )
        evidence = {"budget": budgets, "truncated_share": shares}
        return [finding("data.truncation", 0.95, summary, evidence)], []
    needs = "truncated responses of one length, or prompt_length, in both runs"
    return [], [Skipped("generation budget", needs)]


def _not_cut(pair: Pair, cut: tuple[np.ndarray, np.ndarray]) -> Cause | None:
    """Responses of one run that are called truncated, and end as whole ones do."""
    if pair.lacking("token_ids"):
        return None
    last = [rows.facts["last_token"] for rows in pair.sides if rows.facts is not None]
    whole = np.concatenate([ids[~c & (ids >= 0)] for ids, c in zip(last, cut, strict=True)])
    if not len(whole):
        return None
    ids, counts = np.unique(whole, return_counts=True)
    if counts.max() < ENDS * len(whole):
        return None
    end = int(ids[counts.argmax()])
    shares = [float((ids[c] == end).mean()) for ids, c in zip(last, cut, strict=True)]
    if abs(shares[1] - shares[0]) < WRONGLY:
        return None
    side = int(shares[1] > shares[0])
    summary = (
        f"{shares[side]:.0%} of {'AB'[side]}'s {int(cut[side].sum()):,} responses that are called truncated "
        f"end with token {end}, as whole responses do, and {shares[1 - side]:.0%} of the other run's: they "
        "stopped, and finish_reason is wrong."
    )
    evidence = {"kind": "finish_reason", "a": shares[0], "b": shares[1], "difference": shares[1] - shares[0]}
    return finding("logging", 0.8, summary, evidence | {"n": [int(c.sum()) for c in cut], "end_token": end})


def _one_length(lengths: np.ndarray) -> float | None:
    """The length at which most end; None where they scatter."""
    lengths = lengths[np.isfinite(lengths)]
    if len(lengths) < LEAST:
        return None
    values, counts = np.unique(lengths, return_counts=True)
    return float(values[counts.argmax()]) if counts.max() >= AT_ONE * len(lengths) else None


def _lengths(rows: RunRows) -> np.ndarray:
    return rows.length


def _totals(rows: RunRows) -> np.ndarray:
    """Tokens of prompt and response, NaN where not logged."""
    if not rows.has("prompt_length"):
        return np.full(rows.num_rows, np.nan)
    prompt = rows.run.responses(["prompt_length"])["prompt_length"].cast(pa.float64()).to_numpy()
    return np.asarray(rows.length + prompt)

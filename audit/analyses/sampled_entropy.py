"""Were the tokens drawn from the policy that was logged? For logs without the sampler's log-probs."""

from __future__ import annotations

import numpy as np

from audit.analyses.findings import Effect, Looked, Unseen, evidence_of, finding
from audit.analyses.pair import STRONG, Pair
from audit.facts.rows import RunRows
from audit.stats import Estimate, ratio_of_sums

LEAST = 0.03
"""Part of the entropy by which the surprisal must be off; heuristic."""
LEAST_PROMPTS = 10
"""Prompts without which an interval is too rough to test against 0; heuristic."""
NAME = "surprisal of the samples minus the policy's entropy"


def sampled_entropy(pair: Pair, lacking: str) -> Looked:
    """Compare E[-log pi_old] of the tokens that were drawn with the entropy of the policy, in each run.

    Parameters
    ----------
    lacking : str
        What the logs lack of the sampler's own log-probs, which would show more.

    Notes
    -----
    Over tokens drawn from pi, -log pi(token) - H(pi) has expectation 0 at every place whatever came before,
    so its sum over a response has too. A sampler that cuts the unlikely tokens (top-k, top-p, min-p) or is
    colder makes it negative, a hotter one positive.
    """
    found = Looked()
    without = pair.lacking("entropy", "logp_old")
    if not without and any(rows.facts is None for rows in pair.sides):
        without = "token lists"
    if without:
        found.unseen.append(Unseen("sampling.support", f"{lacking}; or {without}"))
        return found
    estimates = [_off(rows, use) for rows, use in zip(pair.sides, pair.trained, strict=True)]
    effect = _compared(pair)
    if effect is None or None in estimates:
        needs = f"{lacking}; or entropy on {LEAST_PROMPTS} prompts in each run"
        found.unseen.append(Unseen("sampling.support", needs))
        return found
    found.measured.append(effect)
    entropies = [_entropy(rows, use) for rows, use in zip(pair.sides, pair.trained, strict=True)]
    off = [e is not None and _is_off(e, h) for e, h in zip(estimates, entropies, strict=True)]
    if all(off):
        found.notes.append(
            f"In both runs the {NAME} is not 0 ({effect.a or 0:+.3g} and {effect.b or 0:+.3g} nats per "
            "token): tokens were drawn otherwise than from the policy that was logged."
        )
    elif any(off) and effect.low is not None and effect.high is not None and effect.low * effect.high > 0:
        side = off.index(True)
        value = (effect.a, effect.b)[side] or 0.0
        summary = (
            f"{'AB'[side]}'s tokens were not drawn from the policy that was logged: the {NAME} must be 0 and "
            f"is {effect.a or 0:+.3g} nats per token in A, {effect.b or 0:+.3g} in B (entropy "
            f"{entropies[0]:.3g} and {entropies[1]:.3g}). "
        )
        if value < 0:
            id_ = "sampling.support"
            summary += (
                "Unlikely tokens are cut (top-k, top-p, min-p), or the sampler is colder: this cannot tell."
            )
        else:
            id_ = "sampling.temperature"
            summary += "The sampler is hotter than the policy."
        found.causes.append(finding(id_, 0.7, summary, evidence_of(effect, entropy=entropies)))
    return found


def _is_off(estimate: Estimate, entropy: float) -> bool:
    """Whether the estimate is beyond noise, and a part of the entropy that matters."""
    value, low, high = estimate.value, estimate.low, estimate.high
    if value is None or low is None or high is None:
        return False
    return abs(value) >= STRONG * (high - low) / 2 and abs(value) >= LEAST * entropy


def _off(rows: RunRows, use: np.ndarray) -> Estimate | None:
    gap, tokens = _columns(rows)
    use = use & np.isfinite(gap)
    prompt = np.unique(rows.prompt[use], return_inverse=True)[1]
    if int(prompt.max(initial=-1)) + 1 < LEAST_PROMPTS:
        return None
    return ratio_of_sums(gap[use], tokens[use], prompt, int(use.sum()))


def _compared(pair: Pair) -> Effect | None:
    columns = [_columns(rows) for rows in pair.sides]
    return pair.share(NAME, (columns[0], columns[1]), pair.trained)


def _columns(rows: RunRows) -> tuple[np.ndarray, np.ndarray]:
    assert rows.facts is not None
    gap = -rows.facts["logp_old"] - rows.facts["entropy"]
    return gap, rows.facts["loss_tokens"].astype(np.float64)


def _entropy(rows: RunRows, use: np.ndarray) -> float:
    assert rows.facts is not None
    known = use & np.isfinite(rows.facts["entropy"])
    return float(rows.facts["entropy"][known].sum() / max(rows.facts["loss_tokens"][known].sum(), 1))

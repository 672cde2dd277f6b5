"""Does being cut off pay alike in both runs?"""

from __future__ import annotations

import numpy as np

from audit.analyses.findings import Looked, Unseen, evidence_of, finding
from audit.analyses.pair import Pair, sure

LEAST_ROWS = 10
"""Truncated, scored responses that each run must have; heuristic."""
LEAST = 0.1
"""Difference in their mean reward, as a share of the spread of rewards, that is a cause; heuristic."""


def truncation_causes(pair: Pair) -> Looked:
    """Compare the reward of truncated responses, where one run at least gives them all the same.

    What a policy has learned moves the reward of truncated responses too; only where a run gives them all one
    value is that a rule, and another value in the other run is another rule.
    """
    found = Looked()
    cut = [rows.truncated for rows in pair.sides]
    if cut[0] is None or cut[1] is None:
        found.unseen.append(Unseen("data.truncation", pair.lacking("finish_reason")))
        return found
    rewards = [rows.numpy("reward") for rows in pair.sides]
    use = [t & c & np.isfinite(r) for t, c, r in zip(pair.trained, (cut[0], cut[1]), rewards, strict=True)]
    counts = [int(u.sum()) for u in use]
    if min(counts) < LEAST_ROWS:
        if max(counts):
            needs = f"{LEAST_ROWS} truncated responses in each run ({counts[0]} and {counts[1]} here)"
            found.unseen.append(Unseen("data.truncation", needs))
        return found
    ones = [np.ones_like(reward) for reward in rewards]
    of = ((rewards[0], ones[0]), (rewards[1], ones[1]))
    effect = pair.share("reward of truncated responses", of, (use[0], use[1]))
    if effect is None:
        return found
    found.measured.append(effect)
    ruled = [np.ptp(reward[u]) == 0 for reward, u in zip(rewards, use, strict=True)]
    pooled = np.concatenate([reward[np.isfinite(reward)] for reward in rewards])
    spread = float(np.ptp(pooled)) if len(pooled) else 0.0
    if any(ruled) and sure(effect, least=max(LEAST * spread, 1e-9)):
        who = "both runs give" if all(ruled) else "AB"[ruled.index(True)] + " gives"
        summary = (
            f"A truncated response earns {effect.a or 0:.3g} in A and {effect.b or 0:.3g} in B on average "
            f"({counts[0]:,} and {counts[1]:,} of them); {who} them all one value."
        )
        found.causes.append(finding("data.truncation", 0.85, summary, evidence_of(effect)))
    return found

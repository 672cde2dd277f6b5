"""Were the responses of one run sampled by older policies than those of the other?"""

from __future__ import annotations

import numpy as np

from audit.analyses.evidence_rows import evidence_rows
from audit.analyses.findings import Looked, Unseen, evidence_of, finding
from audit.analyses.pair import Pair, sure
from audit.analyses.version_lag import lags_of

LEAST = 0.1
"""Difference in mean lag, versions, from which it is a cause; heuristic."""


def staleness_causes(pair: Pair) -> Looked:
    """Compare the version lag of two runs, over every inner pass."""
    found = Looked()
    lacking = pair.lacking("policy_version", "sampler_version")
    if lacking:
        found.unseen.append(Unseen("staleness", lacking))
        return found
    lags = [lags_of(rows) for rows in pair.sides]
    use = [~rows.greedy & (rows.step <= pair.last) for rows in pair.sides]
    ones = [np.ones_like(lag) for lag in lags]
    both = (use[0], use[1])
    mean = pair.share("version lag", ((lags[0], ones[0]), (lags[1], ones[1])), both)
    stale = [np.where(np.isfinite(lag), (lag > 0).astype(float), np.nan) for lag in lags]
    share = pair.share("share of stale responses", ((stale[0], ones[0]), (stale[1], ones[1])), both)
    if mean is None or share is None:
        found.unseen.append(Unseen("staleness", "a response with both versions in each run"))
        return found
    found.measured += [mean, share]
    if sure(mean, least=LEAST):
        side = int((mean.difference or 0.0) > 0)
        summary = (
            f"Responses are {mean.a or 0:.3g} versions old in A and {mean.b or 0:.3g} in B on average "
            f"({share.a or 0:.0%} and {share.b or 0:.0%} of them stale)."
        )
        evidence = evidence_of(mean, rows=evidence_rows(pair.sides[side], lags[side], use[side]))
        found.causes.append(finding("staleness", 0.9, summary, evidence))
    elif mean.a and mean.b and min(mean.a, mean.b) > LEAST:
        found.notes.append(f"Both runs train on stale responses ({mean.a:.2g} and {mean.b:.2g} versions).")
    return found

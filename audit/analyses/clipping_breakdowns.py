"""The clip-zeroed fraction in parts: by side, sign, length, place, probability, inner epoch and update."""

from __future__ import annotations

import numpy as np

from audit.analyses.bucket_shares import Bucket, by_code, by_rank, parts
from audit.analyses.clipping_counts import Source
from audit.analyses.inner_updates import inner_update
from audit.analyses.skips import Skips
from audit.analyses.token_parts import part_names
from audit.facts.rows import RunRows
from audit.facts.tokenpass.breakdowns import Dimension


def breakdowns(rows: RunRows, source: Source, skips: Skips) -> dict[str, list[Bucket]]:
    """Return the clip-zeroed fraction in the parts of each breakdown, by its name."""
    counts = source.counts
    use, prompt = counts.use, rows.prompt[counts.use]
    zeroed, tokens = counts.zeroed[use], counts.tokens[use]
    found: dict[str, list[Bucket]] = {}
    sides = [("above the band, A > 0", counts.upper), ("below the band, A < 0", counts.lower)]
    if counts.capped.any():
        sides.append(("far above the band, A < 0", counts.capped))
    found["side"] = parts(
        [name for name, _ in sides], [v[use] for _, v in sides], [tokens] * len(sides), prompt
    )
    sign = np.sign(np.nan_to_num(counts.advantage[use]))
    code = np.where(sign > 0, 0, np.where(sign < 0, 1, 2))
    found["sign"] = by_code(["A > 0", "A < 0", "A = 0"], code, zeroed, tokens, prompt)
    names, code = _length_tenths(rows.length[use])
    found["length"] = by_code(names, code, zeroed, tokens, prompt)
    dimensions: tuple[Dimension, ...] = ("position", "tenth", "logp")
    for by in dimensions:
        if by == "logp" and skips.lacks("by probability of the token", "logp_old"):
            continue
        above, below = source.parts(by)
        buckets = parts(part_names(rows, by), [v[use] for v in above], [v[use] for v in below], prompt)
        found[by] = [bucket for bucket in buckets if bucket.tokens]
    found["epoch"] = by_rank("inner epoch", rows.epoch[use], zeroed, tokens, prompt)
    inner = skips.attempt("by inner update", lambda: inner_update(rows))
    if inner is not None:
        found["update"] = by_rank("inner update", inner[use] + 1, zeroed, tokens, prompt)
    return found


def _length_tenths(length: np.ndarray) -> tuple[list[str], np.ndarray]:
    """Names of the deciles of length, and the decile of each response; fewer where many lengths are equal."""
    edges = np.unique(np.quantile(length, np.linspace(0, 1, 11)[1:-1], method="inverted_cdf"))
    code = np.searchsorted(edges, length, side="left")
    names = []
    for at in range(len(edges) + 1):
        inside = length[code == at]
        span = (int(inside.min()), int(inside.max())) if len(inside) else (0, 0)
        names.append(f"{span[0]}–{span[1]} tokens" if span[0] != span[1] else f"{span[0]} tokens")
    kept = [at for at in range(len(names)) if (code == at).any()]
    return [names[at] for at in kept], np.searchsorted(kept, code)

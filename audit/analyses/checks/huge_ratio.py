"""Log-ratios whose exponential blows up, on loss tokens and on masked ones."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

import numpy as np

from audit.analyses.checks.look import Entry, Look, problem
from audit.analyses.checks.token_batch import TokenBatch
from audit.schema import Problem

LARGE = 20.0
"""exp(20) = 5e8: no two policies of one run differ by that on a sampled token; heuristic."""
PAIRS = tuple(combinations(("theta", "old", "ref", "sampler"), 2))


def _measure(tokens: TokenBatch) -> dict[str, np.ndarray]:
    made: dict[str, np.ndarray] = {}
    for name in ("theta", "old", "ref", "sampler"):
        if tokens.has(f"logp_{name}") and tokens.masked is not None:
            logged = np.repeat(tokens.logged(f"logp_{name}"), tokens.lengths)
            bad = ~np.isfinite(tokens.values(f"logp_{name}")) & tokens.masked & logged
            made[f"masked_bad_{name}"] = tokens.count(bad)
    for a, b in PAIRS:
        if tokens.has(f"logp_{a}", f"logp_{b}"):
            gap = np.abs(tokens.gap(a, b))
            large = (gap > LARGE) & np.isfinite(gap)
            made[f"huge_{a}_{b}"] = tokens.count(large)
            hidden = large & tokens.masked if tokens.masked is not None else large & False
            made[f"huge_masked_{a}_{b}"] = tokens.count(hidden)
    return made


def _find(look: Look) -> Iterator[Problem]:
    for a, b in PAIRS:
        if not look.tokens.has(f"huge_{a}_{b}"):
            continue
        found, hidden = look.tokens[f"huge_{a}_{b}"], look.tokens[f"huge_masked_{a}_{b}"]
        total, masked = int(found.sum()), int(hidden.sum())
        if not total:
            continue
        said = f"{total} {'token has' if total == 1 else 'tokens have'} |log pi_{a} - log pi_{b}| > {LARGE:g}"
        said += f", {masked} of them masked: where the ratio overflows, 0 · inf is NaN." if masked else ":"
        if total > masked:
            said += (
                f" Their ratio is beyond {np.exp(LARGE):.0e}." if masked else " their ratio is beyond 5e8."
            )
        yield problem(
            look,
            "logp.ratio-huge",
            found > 0,
            said,
            "error" if total > masked else "warning",
            column=f"logp_{a}",
            hint="Mask before exp, not after; bound the log-ratio. A placeholder in one list does this too.",
        )
    for name in ("theta", "old", "ref", "sampler"):
        if look.tokens.has(f"masked_bad_{name}") and (bad := look.tokens[f"masked_bad_{name}"]).any():
            yield problem(
                look,
                "logp.non-finite-masked",
                bad > 0,
                f"'logp_{name}' is NaN or infinite for {int(bad.sum())} masked tokens of "
                f"{int((bad > 0).sum())} responses: multiplied by a mask of 0 they stay NaN.",
                "info",
                column=f"logp_{name}",
                hint="Where masks are applied by a product, one such token makes the loss NaN.",
            )


CHECK = Entry(
    "ratios that blow up",
    {
        "logp.ratio-huge": "log-ratios above 20, on loss tokens or masked ones",
        "logp.non-finite-masked": "NaN or infinite log-probs on masked tokens",
    },
    _find,
    ("logp_theta|logp_old|logp_ref|logp_sampler",),
    _measure,
)

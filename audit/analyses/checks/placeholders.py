"""Log-probs that were filled in: exactly 0, or another constant, where another policy says otherwise."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from audit.analyses.checks.look import Entry, Look, problem
from audit.analyses.checks.token_batch import TokenBatch
from audit.schema import Problem

UNLIKELY = -1.0
"""Below this log-prob of another policy, an exact 0 is no probability of 1; heuristic."""
FAR = -50.0
"""No sampled token has such a log-prob; engines write it for "not available"."""
POLICIES = ("theta", "old", "sampler", "ref")


def _other(tokens: TokenBatch, name: str) -> str | None:
    return next((p for p in POLICIES if p != name and tokens.has(f"logp_{p}")), None)


def _measure(tokens: TokenBatch) -> dict[str, np.ndarray]:
    made: dict[str, np.ndarray] = {}
    for name in POLICIES:
        if not tokens.has(f"logp_{name}"):
            continue
        values = tokens.values(f"logp_{name}")
        loss = ~tokens.masked if tokens.masked is not None else np.ones(len(values), dtype=bool)
        other = _other(tokens, name)
        zero = values == 0.0
        if other is not None:
            zero &= tokens.values(f"logp_{other}") < UNLIKELY
            made[f"filled_{name}"] = tokens.count(zero & loss)
        made[f"far_{name}"] = tokens.count((values <= FAR) & loss)
    return made


def _find(look: Look) -> Iterator[Problem]:
    for name in POLICIES:
        if look.tokens.has(f"filled_{name}") and (found := look.tokens[f"filled_{name}"]).any():
            other = next(p for p in POLICIES if p != name and look.rows.has(f"logp_{p}"))
            yield problem(
                look,
                "logp.filled",
                found > 0,
                f"{int(found.sum())} tokens have logp_{name} exactly 0.0 where logp_{other} < {UNLIKELY:g}, "
                f"in {int((found > 0).sum())} responses: missing values were filled in.",
                "error",
                column=f"logp_{name}",
                hint="A ratio against a filled value is far from 1: leave such tokens out, or write null.",
            )
        if look.tokens.has(f"far_{name}") and (found := look.tokens[f"far_{name}"]).any():
            yield problem(
                look,
                "logp.far",
                found > 0,
                f"{int(found.sum())} tokens have logp_{name} at or below {FAR:g}: no sampled token has, "
                "they stand for 'not available'.",
                "error",
                column=f"logp_{name}",
                certainty="likely",
            )


CHECK = Entry(
    "log-probs that were filled in",
    {
        "logp.filled": "log-probs of exactly 0 where another policy is far below",
        "logp.far": "log-probs at or below -50",
    },
    _find,
    ("logp_theta|logp_old|logp_ref|logp_sampler",),
    _measure,
)

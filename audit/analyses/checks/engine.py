"""The sampler's log-probs against the trainer's: one copied from the other, a temperature."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from audit.analyses.checks.look import Entry, Look, problem
from audit.analyses.checks.token_batch import TokenBatch
from audit.schema import Problem

SLANT = 0.5
"""Correlation of the gap with the log-prob from which it is no noise; heuristic."""
CLEAR = 0.02
"""Root mean square gap, nats, below which its shape is left alone; heuristic."""
PAIRS = (("old", "sampler"), ("theta", "sampler"), ("theta", "old"))


def _measure(tokens: TokenBatch) -> dict[str, np.ndarray]:
    made: dict[str, np.ndarray] = {}
    for a, b in PAIRS:
        if not tokens.has(f"logp_{a}", f"logp_{b}"):
            continue
        x, y = (tokens.values(f"logp_{p}").astype(np.float64) for p in (a, b))
        loss = np.isfinite(x) & np.isfinite(y)
        if tokens.masked is not None:
            loss &= ~tokens.masked
        gap, middle = np.where(loss, x - y, 0.0), np.where(loss, 0.5 * (x + y), 0.0)
        name = f"{a}_{b}"
        made[f"n_{name}"] = tokens.count(loss)
        made[f"equal_{name}"] = tokens.count(loss & (x == y))
        for what, values in {
            "gap": gap,
            "middle": middle,
            "gap_gap": gap * gap,
            "middle_middle": middle * middle,
            "gap_middle": gap * middle,
        }.items():
            made[f"{what}_{name}"] = tokens.total(values)
    return made


def _find(look: Look) -> Iterator[Problem]:
    yield from _copied(look)
    for a, b in PAIRS:
        yield from _slanted(look, a, b)


def _copied(look: Look) -> Iterator[Problem]:
    if not look.tokens.has("n_old_sampler"):
        return
    tokens, equal = look.tokens["n_old_sampler"], look.tokens["equal_old_sampler"]
    whole = int(tokens.sum())
    if not whole or equal.sum() < whole:
        return
    said = f"logp_old = logp_sampler on 100% of {whole} tokens: old log-probs come from the inference engine."
    if look.tokens.has("out_of_band"):
        out = look.tokens["out_of_band"][look.first].sum() / max(tokens[look.first].sum(), 1)
        said += f" In the first inner pass {out:.1%} of tokens have a ratio outside 0.9..1.1 by that alone."
    yield problem(
        look,
        "logp.old-is-sampler",
        tokens > 0,
        said,
        "info",
        column="logp_old",
        hint="Clip fractions and KL to the old policy hold the engine's noise: compare with such runs only.",
    )


def _slanted(look: Look, a: str, b: str) -> Iterator[Problem]:
    """Whether the gap follows the log-prob, as when one side was divided by a temperature."""
    name = f"{a}_{b}"
    if not look.tokens.has(f"n_{name}"):
        return
    use = look.first
    n, *sums = (
        look.tokens[f"{what}_{name}"][use].sum()
        for what in ("n", "gap", "middle", "gap_gap", "middle_middle", "gap_middle")
    )
    if n < 50:
        return
    gap, middle, square, power, both = (value / n for value in sums)
    variance, spread = square - gap**2, power - middle**2
    if variance <= CLEAR**2 or spread <= 1e-12:
        return
    slope = (both - gap * middle) / spread
    r = slope * np.sqrt(spread / variance)
    if abs(r) < SLANT:
        return
    # log pi_a = m + g/2, log pi_b = m - g/2, with g = slope m: the ratio of their slopes in m.
    factor = (1 + slope / 2) / (1 - slope / 2) if abs(slope) < 2 else float("nan")
    yield problem(
        look,
        "logp.temperature",
        use & (look.tokens[f"n_{name}"] > 0),
        f"log pi_{a} - log pi_{b} follows the token's log-prob (r = {r:.2f}, {int(n)} tokens): the two are "
        f"at different temperatures; logp_{a} moves {factor:.2g} times as far as logp_{b}.",
        column=f"logp_{a}",
        certainty="likely",
        hint="Divide the logits by the sampling temperature on both sides, or on neither.",
    )


CHECK = Entry(
    "log-probs of trainer and engine",
    {
        "logp.old-is-sampler": "old log-probs are the engine's own",
        "logp.temperature": "two log-probs of the same tokens are at different temperatures",
    },
    _find,
    ("logp_old|logp_theta", "logp_sampler|logp_old"),
    _measure,
)

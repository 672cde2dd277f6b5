"""KL estimates in words: what each estimator is, and what tells one from another."""

from __future__ import annotations

from collections.abc import Sequence

from audit.analyses.kl_estimates_values import KLEstimate

MEANINGS = {
    "k1": "mean of d. Unbiased; a single sample may be far below 0.",
    "k2": "mean of d²/2. Biased, small variance; close to the KL while the two policies are close.",
    "k3": "mean of exp(-d) - 1 + d. Unbiased and never below 0; a heavy tail once they are far apart.",
}
"""d = log pi - log pi_ref on a sampled token; nats."""
CORRECTED = "weighted by pi_theta / pi_old, for the tokens were sampled from the old policy."
HELP = (
    "d = log pi - log pi_ref on a sampled token. "
    + " ".join(f"**{name}**: {said}" for name, said in MEANINGS.items())
    + f" **× ratio**: {CORRECTED}"
)
"""Markdown of ours."""


def named(e: KLEstimate) -> str:
    """Name an estimate, as ``k3 × ratio``."""
    return e.estimator + (" × ratio" if e.corrected else "")


def paired(estimates: Sequence[KLEstimate]) -> list[tuple[KLEstimate, dict[str, KLEstimate]]]:
    """Put estimates per token and per sequence of one kind together: the first, and each by ``per``."""
    found: dict[tuple[str, str], dict[str, KLEstimate]] = {}
    for e in estimates:
        found.setdefault((e.of, named(e)), {})[e.per] = e
    return [(next(iter(pers.values())), pers) for pers in found.values()]


def meanings() -> list[tuple[str, str, str]]:
    """Name, formula and meaning of each estimator, and of what is said beside its value."""
    formulas = {"k1": "d", "k2": "d²/2", "k3": "exp(-d) - 1 + d"}
    rows = [(name, formulas[name], said) for name, said in MEANINGS.items()]
    return [
        *rows,
        ("× ratio", "pi_theta / pi_old", CORRECTED[:1].upper() + CORRECTED[1:]),
        ("largest holds", "", "Share of the sum of absolute values on one response: near 1, it decides."),
    ]

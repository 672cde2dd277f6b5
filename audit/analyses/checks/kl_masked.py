"""KL on tokens without loss, and tool output that does take loss."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from audit.analyses.checks.look import Entry, Look, Severity, problem
from audit.analyses.checks.token_batch import TokenBatch
from audit.schema import Problem

NOTABLE = 0.05
"""Share of the summed KL on masked tokens from which it is said; heuristic."""


def _policy(tokens: TokenBatch) -> str | None:
    return next((p for p in ("theta", "old") if tokens.has(f"logp_{p}", "logp_ref")), None)


def _measure(tokens: TokenBatch) -> dict[str, np.ndarray]:
    policy = _policy(tokens)
    if policy is None:
        return {}
    gap = tokens.gap("ref", policy).astype(np.float64)
    k3 = np.nan_to_num(np.exp(gap) - 1.0 - gap, posinf=0.0)
    hidden = tokens.masked if tokens.masked is not None else np.zeros(len(k3), dtype=bool)
    return {
        "k3": tokens.total(k3),
        "k3_masked": tokens.total(np.where(hidden, k3, 0.0)),
        "k1_all": tokens.total(np.nan_to_num(-gap, posinf=0.0, neginf=0.0)),
        "k1_masked": tokens.total(np.where(hidden, np.nan_to_num(-gap, posinf=0.0, neginf=0.0), 0.0)),
        "masked": tokens.count(hidden),
    }


def _find(look: Look) -> Iterator[Problem]:
    if not look.tokens.has("k3"):
        return
    whole, hidden = look.tokens["k3"], look.tokens["k3_masked"]
    share = float(hidden.sum() / whole.sum()) if whole.sum() > 0 else 0.0
    if share < NOTABLE:
        return
    masked = look.tokens["masked"]
    tokens = look.rows.length[np.isfinite(look.rows.length)].sum()
    policy = "theta" if look.rows.has("logp_theta") else "old"
    said = (
        f"{share:.0%} of the summed KL (k3, {policy} to ref) lies on mask = 0 tokens, which are "
        f"{masked.sum() / max(tokens, 1):.0%} of all tokens."
    )
    verdict, severity = _reported(look, whole, hidden, masked)
    yield problem(
        look,
        "kl.masked-tokens",
        hidden > 0,
        said + verdict,
        severity,
        column="loss_mask",
        hint="Mask KL, returns and entropy as the loss is masked: tool output is no choice of the policy.",
    )


def _reported(look: Look, whole: np.ndarray, hidden: np.ndarray, masked: np.ndarray) -> tuple[str, Severity]:
    """Hold the logged KL against both sums, step by step."""
    logged = look.metric("kl", "kl_loss", "ppo_kl", "approx_kl", "mean_kl", "kl_mean")
    if logged is None:
        return " A KL over all tokens would be made of them; no metric 'kl' tells which was used.", "info"
    name, steps, values = logged
    use = look.first
    tokens = np.nan_to_num(look.rows.length)
    best = {}
    for what, total, count in (
        ("all", whole, tokens),
        ("loss", whole - hidden, tokens - masked),
    ):
        own = np.array([_mean(total, count, use & (look.rows.step == s)) for s in steps])
        known = np.isfinite(own) & np.isfinite(values)
        if known.any():
            best[what] = float(
                np.abs(own[known] - values[known]).sum() / max(np.abs(values[known]).sum(), 1e-12)
            )
    if best.get("all", 1.0) < min(0.02, best.get("loss", 1.0)):
        return f" {name} is the mean over all tokens, those without loss included.", "error"
    if best.get("loss", 1.0) < 0.02:
        return f" {name} is the mean over loss tokens: they were left out.", "info"
    return f" {name} fits neither sum.", "warning"


def _mean(total: np.ndarray, count: np.ndarray, rows: np.ndarray) -> float:
    n = float(count[rows].sum())
    return float(total[rows].sum()) / n if n else float("nan")


CHECK = Entry(
    "KL on masked tokens",
    {"kl.masked-tokens": "a share of the KL lies on tokens without loss"},
    _find,
    ("loss_mask", "logp_ref", "logp_theta|logp_old"),
    _measure,
)

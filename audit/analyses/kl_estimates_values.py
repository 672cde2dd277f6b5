"""KL estimates from the summed log-ratios of responses: per token and per response, plain and corrected."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import msgspec
import numpy as np

from audit.analyses.bucket_shares import prompt_sums, standard_error
from audit.analyses.pareto import effective_share, pareto_k, reliable_k
from audit.facts.rows import RunRows
from audit.facts.run_facts import RunFacts
from audit.objectives.part import Estimator
from audit.stats import Estimate, bootstrap, estimate, ratio_of_sums

FORMS: tuple[Estimator, ...] = ("k1", "k2", "k3")


class KLEstimate(msgspec.Struct, frozen=True):
    """One estimate of a KL to the reference, in nats."""

    of: Literal["theta", "old"]
    """Whose KL to the reference."""
    per: Literal["token", "sequence"]
    """Per loss token; or per response, of the log-ratio summed over its loss tokens."""
    estimator: Estimator
    corrected: bool
    """Weighted by pi_theta / pi_old (of the token, or of the response): the samples come from old."""
    value: Estimate
    standard_error: float | None
    """Monte-Carlo standard error, clustered by prompt."""
    heaviest: float | None
    """Share of the sum of absolute values that the largest response holds: near 1, one response decides."""


class CorrectionWeights(msgspec.Struct, frozen=True):
    """The weights pi_theta / pi_old of whole responses, on which corrected estimates per sequence rest."""

    ess: Estimate
    """(Σ W)² / (n Σ W²): the share of the responses that the weights leave."""
    pareto_k: float | None
    """Tail shape; None where the tail is too short or does not vary."""
    tail: int
    """Responses that it was fitted to."""
    reliable_k: float
    """Below this an average under the weights is reliable (Vehtari et al. 2024)."""


def correction_weights(rows: RunRows, use: np.ndarray) -> CorrectionWeights | None:
    """Measure the weights of the responses ``use``, bool, shape (R,); None where none has a finite one."""
    assert rows.facts is not None
    held = use & np.isfinite(rows.facts["log_ratio"]) & (rows.facts["loss_tokens"] > 0)
    if not held.any():
        return None
    log, prompt, n = rows.facts["log_ratio"][held], rows.prompt[held], int(held.sum())
    # A common factor cancels.
    weight = np.exp(log - log.max())
    sums = np.column_stack([prompt_sums(x, prompt) for x in (weight, np.square(weight), np.ones(n))])
    k, tail = pareto_k(log)
    return CorrectionWeights(estimate(bootstrap(sums, effective_share), n), k, tail, reliable_k(n))


def kl_to_reference(rows: RunRows, of: Literal["theta", "old"], use: np.ndarray) -> list[KLEstimate]:
    """Estimate KL(of ‖ ref) from the responses ``use``, bool, shape (R,).

    Notes
    -----
    With d = log pi - log pi_ref on a sampled token: k1 = d, k2 = d²/2, k3 = exp(-d) - 1 + d (Schulman 2020).
    Under samples of pi, k1 and k3 are unbiased for the KL of the next token at the sampled prefixes, and
    their sums over a response are unbiased for the KL of the response, as are k1 and k3 of the summed d, the
    last with a heavy tail; k2 is biased, little where d is small. pi_theta was not sampled from: rho corrects
    a token for its own probability (not for its prefix), prod rho a response, at the price of variance.
    """
    assert rows.facts is not None
    found = []
    # What one response overflows is told as a value that is not there.
    with np.errstate(over="ignore", invalid="ignore"):
        for per, estimator, corrected, part, whole in _sums(rows.facts, of):
            held = use & ~np.isnan(part) & (whole > 0)
            x, y, prompt = part[held], whole[held], rows.prompt[held]
            size = np.abs(x)
            finite = bool(np.isfinite(size).all())
            found.append(
                KLEstimate(
                    of=of,
                    per=per,
                    estimator=estimator,
                    corrected=corrected,
                    value=ratio_of_sums(x, y, prompt, int(held.sum())),
                    standard_error=standard_error(x, y, prompt) if finite else None,
                    heaviest=float(size.max() / size.sum()) if finite and size.sum() > 0 else None,
                )
            )
    return found


Sums = tuple[Literal["token", "sequence"], Estimator, bool, np.ndarray, np.ndarray]


def _sums(facts: RunFacts, of: str) -> Iterator[Sums]:
    """(per, estimator, corrected, numerator, denominator) of every estimate; arrays of shape (R,)."""
    tokens = facts["loss_tokens"].astype(np.float64)
    for form in FORMS:
        yield "token", form, False, facts[f"kl_{of}_ref_{form}"], tokens
    if of == "theta":
        for form in FORMS:
            yield "token", form, True, facts[f"kl_theta_ref_{form}_corrected"], tokens
    total, one = facts[f"kl_{of}_ref_k1"], (tokens > 0).astype(np.float64)
    for form in FORMS:
        yield "sequence", form, False, of_sum(total, form), one
    if of == "theta":
        weight = np.exp(facts["log_ratio"])
        for form in FORMS:
            yield "sequence", form, True, weight * of_sum(total, form), one


def of_sum(difference: np.ndarray, form: Estimator) -> np.ndarray:
    """k1, k2 or k3 of a log-ratio; shape kept."""
    if form == "k1":
        return difference
    if form == "k2":
        return np.asarray(0.5 * np.square(difference))
    return np.asarray(np.expm1(-difference) + difference)


def needed_facts(of: str) -> list[str]:
    """Facts that :func:`kl_to_reference` reads."""
    names = ["loss_tokens", *(f"kl_{of}_ref_{form}" for form in FORMS)]
    if of == "theta":
        names += ["log_ratio", *(f"kl_theta_ref_{form}_corrected" for form in FORMS)]
    return names

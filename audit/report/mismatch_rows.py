"""Mismatch of sampler and trainer in rows, for the terminal and for a page."""

from __future__ import annotations

from audit.analyses.mismatch_gap import Gap
from audit.analyses.mismatch_tail import Tail
from audit.analyses.mismatch_weights import Weights
from audit.report import format as fmt
from audit.stats import Estimate


def gap_rows(gap: Gap) -> list[tuple[str, Estimate]]:
    """Name what is measured per loss token."""
    return [
        ("mean |g|", gap.size),
        ("mean g", gap.mean),
        ("root mean square g", gap.rms),
        ("KL(sampler ‖ old), k3", gap.k3),
        ("correlation of log-probs", gap.correlation),
        ("correlation of g with log pi_old", gap.follows_logp),
    ]


def weight_rows(weights: Weights) -> list[tuple[str, str]]:
    """Say what the importance weights of whole responses leave."""
    rows = [
        ("mean weight of a response, 1 expected", fmt.estimate(weights.mean)),
        ("ESS of responses", fmt.percent_estimate(weights.ess)),
        ("ESS of tokens", fmt.percent_estimate(weights.token_ess)),
    ]
    if weights.update_ess_median is not None:
        median, least = fmt.percent(weights.update_ess_median), fmt.percent(weights.update_ess_least)
        rows.append(("ESS within an update", f"median {median}, least {least}"))
    k = f"{fmt.number(weights.pareto_k)} ({weights.state}; reliable below {weights.reliable_k:.2f})"
    return [
        *rows,
        ("Pareto k of responses", k),
        ("correlation of log W with length", fmt.estimate(weights.with_length)),
    ]


def tail_rows(tail: Tail) -> list[dict[str, str]]:
    """Quantiles over responses, one row a quantity."""
    rows = []
    for name, quantiles in (("mean |g|", tail.mean_quantiles), ("largest |g|", tail.max_quantiles)):
        shown = {level_name(level): fmt.number(value) for level, value in quantiles.items()}
        rows.append({"over responses": name, **shown})
    return rows


def tail_in_words(tail: Tail) -> str:
    """Say how much the worst responses hold."""
    said = f"Equal on every token: {fmt.percent(tail.identical, decimals=1)} of the responses."
    if tail.held is None:
        return said
    return (
        f"The {fmt.percent(tail.head)} of responses with the largest Σ|g| hold {fmt.percent(tail.held)} of "
        f"it; they are of {tail.prompts} of {fmt.plural(tail.all_prompts, 'prompt')}. {said}"
    )


def level_name(level: str) -> str:
    """Return a level of a quantile, as ``0.99``, in words."""
    return {"0.5": "median", "1": "largest"}.get(level, f"{100 * float(level):g} %")

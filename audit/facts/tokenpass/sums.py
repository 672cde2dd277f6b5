"""Facts that no objective enters: sums over the loss tokens of each response, and what they mean.

A fact is a function of a chunk; adding one is a line in :func:`_make`. With theta the policy, "old" the
trainer's policy before the update, "ref" the reference, "sampler" the inference engine; logs are natural.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple, get_args

from audit.facts.tokenpass.arrays import Array
from audit.facts.tokenpass.chunk import Chunk, Policy

KLForm = Literal["k1", "k2", "k3", "abs"]
OfChunk = Callable[[Chunk], Array]


class Sum(NamedTuple):
    """One fact."""

    needs: tuple[str, ...]
    """Token columns; the fact is NaN where one of them was not logged."""
    of: OfChunk
    """Shape (R,) from a chunk."""
    meaning: str


def _gap(upper: Policy, lower: Policy) -> OfChunk:
    return lambda chunk: chunk.gap(upper, lower)


def _ratio(upper: Policy, lower: Policy) -> OfChunk:
    return lambda chunk: chunk.loss_only(chunk.ratio(upper, lower))


def _column(name: str) -> OfChunk:
    return lambda chunk: chunk.once(("loss", name), lambda: chunk.loss_only(chunk.column(name)))


def _times(a: OfChunk, b: OfChunk) -> OfChunk:
    return lambda chunk: a(chunk) * b(chunk)


def _total(name: str, values: OfChunk) -> OfChunk:
    """Sum of values per token, formed once a chunk."""
    return lambda chunk: chunk.sum_of((name,), lambda: values(chunk))


def _logp(policy: Policy) -> OfChunk:
    return _total(f"logp_{policy}", _column(f"logp_{policy}"))


def _log_ratio(upper: Policy, lower: Policy) -> OfChunk:
    """Σ log pi_upper - log pi_lower, of which both halves are facts already."""
    a, b = _logp(upper), _logp(lower)
    return lambda chunk: a(chunk) - b(chunk)


def _ratios(upper: Policy, lower: Policy) -> OfChunk:
    return _total(f"ratio_{upper}_{lower}", _ratio(upper, lower))


def _kl(upper: Policy, lower: Policy, form: KLForm) -> OfChunk:
    """Σ k(upper ‖ lower), from d = log pi_upper - log pi_lower; the estimators of audit/objectives/kl.py.

    Σ k3 = Σ exp(-d) - n + Σ d: what it loses by cancellation is 1e-16 per token.
    """
    name, d = f"kl_{upper}_{lower}_{form}", _gap(upper, lower)
    if form == "k1":
        return _log_ratio(upper, lower)
    if form == "abs":
        return _total(name, lambda chunk: abs(d(chunk)))
    if form == "k2":
        square = _total(name, _times(d, d))
        return lambda chunk: 0.5 * square(chunk)
    back, log = _ratios(lower, upper), _log_ratio(upper, lower)
    return lambda chunk: back(chunk) - chunk.loss_tokens + log(chunk)


def _corrected(form: KLForm) -> OfChunk:
    """Σ rho k(theta ‖ ref): samples come from the old policy, which rho = theta / old corrects for.

    rho exp(-d) = pi_ref / pi_old, so the sum for k3 needs no product of its own.
    """
    d, rho = _gap("theta", "ref"), _ratio("theta", "old")

    def weighted(chunk: Chunk) -> Array:
        return chunk.once(("rho_d",), lambda: rho(chunk) * d(chunk))

    first = _total("rho_d", weighted)
    if form == "k1":
        return first
    if form == "k2":
        second = _total("rho_dd", _times(weighted, d))
        return lambda chunk: 0.5 * second(chunk)
    back, weights = _ratios("ref", "old"), _ratios("theta", "old")
    return lambda chunk: back(chunk) - weights(chunk) + first(chunk)


def _largest(values: OfChunk) -> OfChunk:
    return lambda chunk: chunk.segments.max(abs(values(chunk)))


def _mean(name: str) -> OfChunk:
    column = _column(name)

    total = _total(name, column)
    return lambda chunk: total(chunk) / chunk.loss_tokens.clip(1.0, None)


def _make() -> dict[str, Sum]:
    made = {
        "tokens": Sum((), lambda c: c.segments.lengths, "tokens, masked ones included"),
        "loss_tokens": Sum((), lambda c: c.loss_tokens, "tokens that take loss"),
    }

    def add(name: str, policies: tuple[Policy, ...], of: OfChunk, meaning: str) -> None:
        made[name] = Sum(tuple(f"logp_{policy}" for policy in policies), of, meaning)

    for policy in get_args(Policy):
        add(f"logp_{policy}", (policy,), _logp(policy), f"Σ log pi_{policy}")

    pair: tuple[Policy, Policy] = ("theta", "old")
    drift, rho = _gap(*pair), _ratio(*pair)
    add("log_ratio", pair, _log_ratio(*pair), "Σ log rho, rho = pi_theta / pi_old")
    add("log_ratio_square", pair, _total("drift_square", _times(drift, drift)), "Σ (log rho)²")
    add("log_ratio_max", pair, _largest(drift), "max |log rho|; 0 without loss tokens")
    add("ratio", pair, _ratios(*pair), "Σ rho")
    add("ratio_square", pair, _total("ratio_theta_old itself", _times(rho, rho)), "Σ rho²")

    sampled: tuple[Policy, ...] = ("theta", "old", "sampler")
    for policy in sampled:
        for form in get_args(KLForm):
            add(
                f"kl_{policy}_ref_{form}",
                (policy, "ref"),
                _kl(policy, "ref", form),
                f"Σ {form}({policy} ‖ ref)",
            )
    corrected: tuple[KLForm, ...] = ("k1", "k2", "k3")
    for form in corrected:
        name = f"kl_theta_ref_{form}_corrected"
        add(name, ("theta", "ref", "old"), _corrected(form), f"Σ rho {form}(theta ‖ ref)")

    pair = ("old", "sampler")
    gap, weight = _gap(*pair), _ratio(*pair)
    old, sampler = _column("logp_old"), _column("logp_sampler")
    old_square = _total("old_square", _times(old, old))
    sampler_square = _total("sampler_square", _times(sampler, sampler))
    gap_square = _total("gap_square", _times(gap, gap))
    add("mismatch", pair, _kl("old", "sampler", "abs"), "Σ |g|, g = log pi_old - log pi_sampler")
    add("sampler_gap", pair, _log_ratio(*pair), "Σ g")
    add("sampler_gap_square", pair, gap_square, "Σ g²")
    add("sampler_gap_max", pair, _largest(gap), "max |g|; 0 without loss tokens")
    add("sampler_ratio", pair, _ratios(*pair), "Σ pi_old / pi_sampler")
    add(
        "sampler_ratio_square",
        pair,
        _total("weight_square", _times(weight, weight)),
        "Σ (pi_old / pi_sampler)²",
    )
    add("old_square", ("old",), old_square, "Σ (log pi_old)²")
    add("sampler_square", ("sampler",), sampler_square, "Σ (log pi_sampler)²")

    def product(chunk: Chunk) -> Array:
        return 0.5 * (old_square(chunk) + sampler_square(chunk) - gap_square(chunk))

    add("old_times_sampler", pair, product, "Σ log pi_old · log pi_sampler")

    entropy = _total("entropy", _column("entropy"))
    made["entropy"] = Sum(("entropy",), entropy, "Σ entropy of the policy")
    made["token_advantage"] = Sum(
        ("token_advantage",),
        _mean("token_advantage"),
        "mean of the logged per-token advantage over loss tokens; 0 without any",
    )
    return made


SUMS: dict[str, Sum] = _make()

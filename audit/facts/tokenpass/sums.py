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


def _kl(upper: Policy, lower: Policy, form: KLForm) -> OfChunk:
    """k(upper ‖ lower) on tokens, from d = log pi_upper - log pi_lower (audit/objectives/kl.py)."""

    def values(chunk: Chunk) -> Array:
        d = chunk.gap(upper, lower)
        if form == "k1":
            return d
        if form == "k2":
            return 0.5 * (d * d)
        if form == "abs":
            return abs(d)
        return chunk.ratio(lower, upper) - 1.0 + d

    return lambda chunk: chunk.once(("kl", upper, lower, form), lambda: values(chunk))


def _largest(values: OfChunk) -> OfChunk:
    return lambda chunk: chunk.segments.max(abs(values(chunk)))


def _mean(name: str) -> OfChunk:
    column = _column(name)

    def made(chunk: Chunk) -> Array:
        return chunk.sum_of((name,), lambda: column(chunk)) / chunk.loss_tokens.clip(1.0, None)

    return made


def _make() -> dict[str, Sum]:
    made = {
        "tokens": Sum((), lambda c: c.segments.lengths, "tokens, masked ones included"),
        "loss_tokens": Sum((), lambda c: c.loss_tokens, "tokens that take loss"),
    }

    def add(name: str, policies: tuple[Policy, ...], values: OfChunk, meaning: str) -> None:
        needs = tuple(f"logp_{policy}" for policy in policies)
        made[name] = Sum(needs, lambda c: c.sum_of((name,), lambda: values(c)), meaning)

    for policy in get_args(Policy):
        add(f"logp_{policy}", (policy,), _column(f"logp_{policy}"), f"Σ log pi_{policy}")

    drift = _gap("theta", "old")
    rho = _ratio("theta", "old")
    add("log_ratio", ("theta", "old"), drift, "Σ log rho, rho = pi_theta / pi_old")
    add("log_ratio_square", ("theta", "old"), _times(drift, drift), "Σ (log rho)²")
    add("ratio", ("theta", "old"), rho, "Σ rho")
    add("ratio_square", ("theta", "old"), _times(rho, rho), "Σ rho²")
    made["log_ratio_max"] = Sum(
        ("logp_theta", "logp_old"), _largest(drift), "max |log rho|; 0 without loss tokens"
    )

    sampled: tuple[Policy, ...] = ("theta", "old", "sampler")
    for policy in sampled:
        for form in get_args(KLForm):
            k = _kl(policy, "ref", form)
            add(f"kl_{policy}_ref_{form}", (policy, "ref"), k, f"Σ {form}({policy} ‖ ref)")
            if policy == "theta" and form != "abs":
                # Samples come from the old policy: rho corrects for that.
                name = f"kl_theta_ref_{form}_corrected"
                add(name, ("theta", "ref", "old"), _times(rho, k), f"Σ rho {form}(theta ‖ ref)")

    gap = _gap("old", "sampler")
    weight = _ratio("old", "sampler")
    old, sampler = _column("logp_old"), _column("logp_sampler")
    add(
        "mismatch", ("old", "sampler"), _kl("old", "sampler", "abs"), "Σ |g|, g = log pi_old - log pi_sampler"
    )
    add("sampler_gap", ("old", "sampler"), gap, "Σ g")
    add("sampler_gap_square", ("old", "sampler"), _times(gap, gap), "Σ g²")
    add("sampler_ratio", ("old", "sampler"), weight, "Σ pi_old / pi_sampler")
    add("sampler_ratio_square", ("old", "sampler"), _times(weight, weight), "Σ (pi_old / pi_sampler)²")
    made["sampler_gap_max"] = Sum(
        ("logp_old", "logp_sampler"), _largest(gap), "max |g|; 0 without loss tokens"
    )
    add("old_square", ("old",), _times(old, old), "Σ (log pi_old)²")
    add("sampler_square", ("sampler",), _times(sampler, sampler), "Σ (log pi_sampler)²")
    add("old_times_sampler", ("old", "sampler"), _times(old, sampler), "Σ log pi_old · log pi_sampler")
    entropy = _column("entropy")
    made["entropy"] = Sum(
        ("entropy",), lambda c: c.sum_of(("entropy",), lambda: entropy(c)), "Σ entropy of the policy"
    )
    made["token_advantage"] = Sum(
        ("token_advantage",),
        _mean("token_advantage"),
        "mean of the logged per-token advantage over loss tokens; 0 without any",
    )
    return made


SUMS: dict[str, Sum] = _make()

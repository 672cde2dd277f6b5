"""What the trust regions of the catalogue would have removed from the same tokens."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from audit.analyses.clipping_counts import Counts
from audit.analyses.clipping_facts import bare_factor
from audit.analyses.skips import Skips
from audit.facts.rows import RunRows
from audit.facts.run_facts import RunFacts
from audit.facts.tokenpass import factor_facts
from audit.facts.tokenpass.factors import Factors, PolicyFactor, factors_of
from audit.facts.tokens import token_batches
from audit.facts.weigh import coefficients_of
from audit.objectives.catalogue import CATALOGUE, CORE
from audit.objectives.needs import needs
from audit.objectives.objective import KL, Objective
from audit.objectives.surrogates import DPPO, SAPO, CISPOClip, NoClip, PPOClip
from audit.objectives.weights import token_weights
from audit.stats import Estimate, ratio_of_sums

_COMPARED = (PPOClip, CISPOClip, DPPO, SAPO)
"""Trust regions of rho A alone, so that leaving them out leaves rho A."""


class Bounds(msgspec.Struct, frozen=True):
    """One trust region of the catalogue on the run's own tokens, advantages and aggregation."""

    objective: str
    also: list[str]
    """Catalogue entries with the same ratio and trust region."""
    unit: str
    """``token`` or ``response``: what is removed at once."""
    zeroed: int
    share: Estimate
    """Removed loss tokens over loss tokens."""
    lost: Estimate | None
    """1 - Σ |w| / Σ |w without the trust region|: gradient weight removed, or trimmed where none is removed.
    None where the trust region is more than a factor on rho A."""


def catalogue_bounds(rows: RunRows, own: Objective, counts: Counts, skips: Skips) -> list[Bounds]:
    """Apply every trust region of the catalogue to the run's tokens.

    Parameters
    ----------
    own : Objective
        Whose advantages, aggregation and corrections are kept; only ratio and clip change.
    counts : Counts
        Which responses take loss.
    skips : Skips
        Told of entries that this log cannot carry.
    """
    chosen: list[tuple[str, list[str], Objective]] = []
    for name, also, candidate in _candidates(own):
        missing = [c for c, part in needs(candidate).items() if part == "ratio" and not rows.has(c)]
        if missing:
            skips.add(f"trust region of {name}", missing[0])
        elif candidate.batch_wide:
            skips.add(f"trust region of {name}", "weights of its own: it ranks the tokens of a batch")
        elif not candidate.clip.proportional:
            skips.add(f"trust region of {name}", "a trust region: it pulls back instead of removing")
        else:
            chosen.append((name, also, candidate))
    objectives = [candidate for _, _, candidate in chosen]
    factors = [factors_of(o, token_advantages=rows.has("token_advantage")) for o in objectives]
    known = [f for f in factors if f is not None]
    if rows.facts is not None and len(known) == len(factors):
        sums = _from_facts(rows.facts, objectives, known, counts)
    else:
        sums = _walked(rows, objectives)
    found = []
    for (name, also, candidate), (zeroed, held, bare) in zip(chosen, sums, strict=True):
        use = counts.use & np.isfinite(held) & np.isfinite(bare)
        gone, prompt = zeroed[use], rows.prompt[use]
        lost = None
        if isinstance(candidate.clip, _COMPARED):
            cut = np.abs(bare[use]) - np.abs(held[use])
            lost = ratio_of_sums(cut, np.abs(bare[use]), prompt, int(use.sum()))
        found.append(
            Bounds(
                objective=name,
                also=also,
                unit="token" if candidate.ratio.level == "token" else "response",
                zeroed=int(gone.sum()),
                share=ratio_of_sums(gone, counts.tokens[use], prompt, int(use.sum())),
                lost=lost,
            )
        )
    return found


def _candidates(own: Objective) -> list[tuple[str, list[str], Objective]]:
    """Distinct trust regions of the catalogue, the best known name of each first."""
    found: dict[tuple[object, object], list[str]] = {}
    for name in (*CORE, *CATALOGUE):
        objective = CATALOGUE[name].objective
        if objective.ratio.denominator == "theta":
            continue
        ratio = msgspec.structs.replace(objective.ratio, corrections=own.ratio.corrections)
        names = found.setdefault((ratio, objective.clip), [])
        if name not in names:
            names.append(name)
    return [
        (names[0], names[1:], own.replace(name=names[0], ratio=ratio, clip=clip, kl=KL(reward=own.kl.reward)))
        for (ratio, clip), names in found.items()
    ]


Sums = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Removed tokens, Σ w, and Σ w without the trust region, of each response; shape (R,)."""


def bound_facts(rows: RunRows, own: Objective) -> list[str]:
    """Facts that :func:`catalogue_bounds` will need, where they tell."""
    names: list[str] = []
    for _, _, candidate in _candidates(own):
        factors = factors_of(candidate, token_advantages=rows.has("token_advantage"))
        if factors is not None and all(
            rows.has(c) for c, part in needs(candidate).items() if part == "ratio"
        ):
            names += _names(candidate, factors)
    return names


def _names(objective: Objective, factors: Factors) -> list[str]:
    names = [factor_facts.total(_uncorrected(objective)).name]
    for factor in factors.policy:
        names += [factor_facts.zeroed(factor).name, factor_facts.total(factor).name]
    return names


def _from_facts(
    facts: RunFacts, objectives: Sequence[Objective], factors: Sequence[Factors], counts: Counts
) -> list[Sums]:
    bare = [_uncorrected(o) for o in objectives]
    facts.read(name for o, f in zip(objectives, factors, strict=True) for name in _names(o, f))
    negative, weighed = counts.advantage < 0, counts.multiple != 0

    def by_sign(positive: str, other: str) -> np.ndarray:
        return np.where(weighed, np.where(negative, facts[other], facts[positive]), 0.0)

    return [
        (
            by_sign(factor_facts.zeroed(f.positive).name, factor_facts.zeroed(f.negative).name),
            _times(counts, by_sign(factor_facts.total(f.positive).name, factor_facts.total(f.negative).name)),
            _times(counts, facts[factor_facts.total(plain).name]),
        )
        for f, plain in zip(factors, bare, strict=True)
    ]


def _times(counts: Counts, fact: np.ndarray) -> np.ndarray:
    # 0 times a fact that is not finite is NaN, and not taken.
    with np.errstate(invalid="ignore"):
        return np.where(counts.multiple != 0, counts.multiple * fact, 0.0)


def _uncorrected(objective: Objective) -> PolicyFactor:
    """The ratio with the run's own corrections, and without a trust region."""
    return PolicyFactor(objective.ratio, NoClip()) if objective.ratio.corrections else bare_factor(objective)


def _walked(rows: RunRows, objectives: Sequence[Objective]) -> list[Sums]:
    """The same token by token, in one pass over the log; Σ |w| where advantages differ by token."""
    coefficients = [coefficients_of(rows, o).tensors() for o in objectives]
    made = [tuple(np.zeros(rows.num_rows) for _ in range(3)) for _ in objectives]
    first = 0
    for tokens in token_batches(rows.run):
        stop = first + tokens.layout.num_rows
        for sums, objective, whole in zip(made, objectives, coefficients, strict=True):
            part = whole.slice(first, stop)
            with_it = token_weights(tokens, part, objective)
            without = token_weights(tokens, part, objective.replace(clip=NoClip()))
            for values, into in zip(
                (with_it.zeroed.double(), with_it.policy.abs(), without.policy.abs()), sums, strict=True
            ):
                into[first:stop] = tokens.layout.sum(values).numpy()
        first = stop
    return [(a, b, c) for a, b, c in made]

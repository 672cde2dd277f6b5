"""What KL estimators do as a loss on this run's tokens, and how much of the gradient the run's own KL is."""

from __future__ import annotations

from typing import NamedTuple

import msgspec
import numpy as np

from audit.analyses.bucket_shares import prompt_sums
from audit.facts.rows import RunRows
from audit.facts.run_facts import RunFacts
from audit.facts.tokenpass.factor_facts import dot, total
from audit.facts.tokenpass.factors import Factors, KLFactor, factors_of
from audit.facts.weigh import coefficients_of, weigh
from audit.objectives.objective import Objective
from audit.objectives.parts import LossKL, Ratio
from audit.stats import Estimate, bootstrap, estimate, ratio_of_sums


class Pull(msgspec.Struct, frozen=True):
    """An estimator in the loss, by its gradient: d(k) / d(log pi_theta) = h on each token."""

    form: str
    h: str
    """Formula; d = log pi_theta - log pi_ref."""
    effect: str
    """What its expected gradient is, where tokens are sampled from the policy itself."""
    mean: Estimate
    """Mean h per token: 1 pushes every sampled token down alike, 0 on average neither way."""
    alignment: Estimate
    """Cosine with d, the reverse-KL pull, over the tokens of the run."""


_FORMS = (
    ("k1", "pathwise", "1", "zero mean: no regularisation, only noise"),
    ("k2", "pathwise", "d", "reverse KL(theta ‖ ref)"),
    ("k3", "pathwise", "1 - exp(-d)", "forward KL(ref ‖ theta)"),
    ("k3", "ratio", "rho d", "reverse KL(theta ‖ ref), corrected for samples from old"),
)


class GradientShare(msgspec.Struct, frozen=True):
    """The KL part of the weights against the policy part, over all tokens: norms of the weight vectors."""

    ratio: Estimate
    """|w_kl| / |w_policy|."""
    share: Estimate
    """|w_kl|² / (|w_kl|² + |w_policy|²)."""
    cosine: Estimate
    """Of the two parts: below 0 they work against each other."""


def pulls(rows: RunRows, use: np.ndarray) -> list[Pull]:
    """Describe each estimator as a loss; needs logp_theta and logp_ref, for the last form logp_old too."""
    assert rows.facts is not None
    forms = [form for form in _FORMS if form[1] == "pathwise" or rows.has("logp_old")]
    factors = [_factor(estimator, gradient) for estimator, gradient, _, _ in forms]
    reverse = _factor("k2", "pathwise")
    rows.facts.read(pull_facts(rows))
    tokens = rows.facts["loss_tokens"].astype(np.float64)
    # The slope of k1 needs no log-prob, its cosine with d does.
    logged = use & (tokens > 0) & np.isfinite(rows.facts[total(reverse).name])
    found = []
    for (estimator, gradient, h, effect), factor in zip(forms, factors, strict=True):
        first = rows.facts[total(factor).name]
        held = logged & np.isfinite(first)
        prompt, n = rows.prompt[held], int(held.sum())
        columns = [rows.facts[dot(a, b).name][held] for a, b in _pairs(factor, reverse)]
        sums = np.column_stack([prompt_sums(column, prompt) for column in columns])
        found.append(
            Pull(
                form=estimator if gradient == "pathwise" else f"rho {estimator}",
                h=h,
                effect=effect,
                # A factor is minus the slope.
                mean=ratio_of_sums(-first[held], tokens[held], prompt, n),
                alignment=estimate(bootstrap(sums, _cosine), n),
            )
        )
    return found


def pull_facts(rows: RunRows) -> list[str]:
    """Facts that :func:`pulls` reads."""
    reverse, names = _factor("k2", "pathwise"), ["loss_tokens"]
    for estimator, gradient, _, _ in _FORMS:
        if gradient == "pathwise" or rows.has("logp_old"):
            factor = _factor(estimator, gradient)
            names += [total(factor).name, *(dot(a, b).name for a, b in _pairs(factor, reverse))]
    return names


def _factor(estimator: str, gradient: str) -> KLFactor:
    kl = msgspec.convert({"coefficient": 1.0, "estimator": estimator, "gradient": gradient}, LossKL)
    return KLFactor(kl, Ratio(denominator="old") if gradient == "ratio" else Ratio())


def _pairs(a: KLFactor, b: KLFactor) -> tuple[tuple[KLFactor, KLFactor], ...]:
    return (a, b), (a, a), (b, b)


class _Squares(NamedTuple):
    """Sums over the tokens of each response, shape (R,)."""

    policy: np.ndarray
    kl: np.ndarray
    cross: np.ndarray


@np.errstate(over="ignore", invalid="ignore")
def gradient_share(rows: RunRows, objective: Objective) -> GradientShare | None:
    """Compare the KL part of the weights with the policy part; None where neither pulls on anything.

    Raises
    ------
    MissingColumn, BadLog
        The log lacks what the objective needs.
    """
    factors = factors_of(objective, token_advantages=rows.has("token_advantage"))
    if rows.facts is None or factors is None:
        made = _walked(rows, objective)
    else:
        made = _from_facts(rows, rows.facts, objective, factors)
    held = np.isfinite(made.policy) & np.isfinite(made.kl) & np.isfinite(made.cross)
    prompt = rows.prompt[held]
    sums = np.column_stack(
        [prompt_sums(column[held], prompt) for column in (made.cross, made.policy, made.kl)]
    )
    if not sums[:, 1:].any():
        return None
    intervals = bootstrap(sums, _compared)
    n = int((held & ((made.policy > 0) | (made.kl > 0))).sum())
    return GradientShare(*(estimate(intervals, n, at) for at in range(3)))


def _from_facts(rows: RunRows, facts: RunFacts, objective: Objective, factors: Factors) -> _Squares:
    c = coefficients_of(rows, objective)
    active = c.kept & ~c.masked
    advantage = c.advantage
    p = np.where(active, c.nu * advantage, 0.0)
    k = np.where(active, c.nu_kl * factors.kl_coefficient, 0.0)
    made = _Squares(*(np.zeros(rows.num_rows) for _ in range(3)))
    signs = (
        (advantage >= 0, factors.positive, factors.kl_positive),
        (advantage < 0, factors.negative, factors.kl_negative),
    )
    facts.read(
        name
        for _, policy, kl in signs
        for name in (
            dot(policy, policy).name,
            *([] if kl is None else [dot(kl, kl).name, dot(policy, kl).name]),
        )
    )
    for rows_of, policy, kl in signs:
        parts = [(made.policy, p * p, dot(policy, policy))]
        if kl is not None:
            parts += [(made.kl, k * k, dot(kl, kl)), (made.cross, p * k, dot(policy, kl))]
        for into, multiple, fact in parts:
            here = rows_of & (multiple != 0)
            into[here] = (multiple * facts[fact.name])[here]
    return made


def _walked(rows: RunRows, objective: Objective) -> _Squares:
    made = _Squares(*(np.zeros(rows.num_rows) for _ in range(3)))
    for batch in weigh(rows, objective):
        layout, w = batch.tokens.layout, batch.weights
        here = slice(batch.first, batch.first + layout.num_rows)
        for into, values in zip(made, (w.policy.square(), w.kl.square(), w.policy * w.kl), strict=True):
            into[here] = layout.sum(values).numpy()
    return made


def _cosine(totals: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(totals[..., :1] / np.sqrt(totals[..., 1:2] * totals[..., 2:3]))


def _compared(totals: np.ndarray) -> np.ndarray:
    cross, policy, kl = (totals[..., at] for at in range(3))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.stack([np.sqrt(kl / policy), kl / (kl + policy), cross / np.sqrt(kl * policy)], axis=-1)

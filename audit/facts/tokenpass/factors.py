"""What an objective does to a token, free of what it assigns to the response.

The weight of a token is w = nu · A · c + nu_kl · beta · k. The coefficients nu, A, nu_kl belong to the
response and may span a whole run; c and k belong to the token, and c depends on A by its sign alone. So
objectives that differ in baseline, scale, shaping or aggregation share their factors, and sums over tokens
of factors and of products of two factors are all that their weights' sums, norms and inner products need.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import msgspec

from audit.objectives.needs import varies_by_token
from audit.objectives.objective import KL, Objective
from audit.objectives.parts import LossKL, Ratio
from audit.objectives.surrogates import AnySurrogate

Sign = Literal[-1, 0, 1]
"""Sign of the advantage that a factor is for; 0: the same for both."""


class PolicyFactor(msgspec.Struct, frozen=True, tag_field="factor", tag="policy", omit_defaults=True):
    """c of a token: ratio, clip, and corrections for the sampler."""

    ratio: Ratio
    clip: AnySurrogate
    sign: Sign = 0


class KLFactor(msgspec.Struct, frozen=True, tag_field="factor", tag="kl", omit_defaults=True):
    """k of a token: minus the slope of the KL in the loss, for a coefficient of 1."""

    kl: LossKL
    ratio: Ratio = Ratio()
    """Only where the KL carries the policy ratio or a correction; else the default."""
    sign: Sign = 0


Factor = PolicyFactor | KLFactor


class Factors(NamedTuple):
    """The factors of one objective."""

    positive: PolicyFactor
    """Where A >= 0."""
    negative: PolicyFactor
    kl_positive: KLFactor | None
    kl_negative: KLFactor | None
    kl_coefficient: float

    @property
    def policy(self) -> tuple[PolicyFactor, ...]:
        """The distinct factors of the policy's part."""
        return tuple(dict.fromkeys((self.positive, self.negative)))

    @property
    def kl(self) -> tuple[KLFactor, ...]:
        """The distinct factors of the KL's part."""
        found = (self.kl_positive, self.kl_negative)
        return tuple(dict.fromkeys(factor for factor in found if factor is not None))


def factors_of(objective: Objective, *, token_advantages: bool = False) -> Factors | None:
    """Return the factors of an objective, or None where its weights are not of this form.

    Not of this form: one advantage per token (GAE, a KL paid token by token, logged token advantages), a
    surrogate that ranks the tokens of its batch or adds a term without A, an entropy filter.

    Parameters
    ----------
    token_advantages : bool
        The log holds ``token_advantage``, which an objective on logged advantages then uses.
    """
    logged_by_token = token_advantages and objective.baseline.kind == "logged"
    if logged_by_token or varies_by_token(objective) or objective.batch_wide:
        return None
    if not objective.clip.proportional:
        return None
    by_sign = any(correction.keep_nonnegative for correction in objective.ratio.corrections)
    signs: tuple[Sign, Sign] = (1, -1) if by_sign or not objective.clip.sign_blind else (0, 0)
    positive, negative = (
        PolicyFactor(objective.ratio, objective.clip.for_sign(sign) if sign else objective.clip, sign)
        for sign in signs
    )
    kl = objective.kl.loss
    if kl is None or kl.coefficient == 0.0:
        return Factors(positive, negative, None, None, 0.0)
    shape = msgspec.structs.replace(kl, coefficient=1.0, aggregation=None)
    if kl.gradient == "ratio" or kl.ratio_cap is not None:
        ratio = objective.ratio
    elif any(correction.weighs_kl for correction in objective.ratio.corrections):
        weighing = tuple(c for c in objective.ratio.corrections if c.weighs_kl)
        ratio = Ratio(corrections=weighing)
    else:
        ratio = Ratio()
    kl_signs: tuple[Sign, Sign] = (1, -1) if any(c.keep_nonnegative for c in ratio.corrections) else (0, 0)
    of_kl = [KLFactor(shape, ratio, sign) for sign in kl_signs]
    return Factors(positive, negative, of_kl[0], of_kl[1], kl.coefficient)


def alone(factor: Factor) -> Objective:
    """The objective whose token weights are the factor, where nu = nu_kl = 1 and A is the factor's sign."""
    if isinstance(factor, PolicyFactor):
        return Objective(ratio=factor.ratio, clip=factor.clip)
    return Objective(ratio=factor.ratio, kl=KL(loss=factor.kl))

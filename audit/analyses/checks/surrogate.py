"""What the tokens of each response add to the loss that an objective minimises, from facts."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from audit.analyses.checks.look import Look
from audit.errors import AuditError
from audit.facts.weigh import as_applied, coefficients_of
from audit.facts.weight_sums import weight_sums
from audit.objectives.objective import KL, Aggregation, Objective
from audit.objectives.surrogates.clip import NoClip, PPOClip


class Losses(NamedTuple):
    """Sums over the loss tokens of each response, float64, shape (R,)."""

    total: np.ndarray
    """Σ_t of the surrogate, negative, plus coefficient x KL where it is part of what was logged."""
    size: float
    """Mean |advantage|: what a loss is small against."""
    kept: np.ndarray
    """bool: the row enters the loss."""


def losses(look: Look, *, whole: bool) -> Losses | None:
    """PPO's clipped surrogate -min(rho A, clip(rho) A) of each response; None where it is another one.

    Parameters
    ----------
    whole : bool
        Add the declared KL.

    Notes
    -----
    A token inside the clip adds -rho A, which is minus its weight; one that the clip removed adds the
    constant -(1 + epsilon_high) A for A > 0 and -(1 - epsilon_low) A for A < 0.
    """
    declared = look.declared
    if declared is None or look.rows.facts is None or look.rows.logged_advantage is None or _other(declared):
        return None
    plain = as_applied(look.rows, declared).replace(aggregation=Aggregation(kind="token-sum"), kl=KL())
    try:
        sums = weight_sums(look.rows, plain)
        coefficients = coefficients_of(look.rows, plain)
    except AuditError:
        return None
    kept = np.asarray(coefficients.kept & ~coefficients.masked)
    advantage = np.where(kept, np.asarray(coefficients.advantage), 0.0)
    total = -np.where(kept, sums.policy, 0.0)
    if isinstance(declared.clip, PPOClip):
        high, low = declared.clip.epsilon_high or 0.0, declared.clip.epsilon_low or 0.0
        bound = np.where(advantage > 0, 1 + high, 1 - low)
        total -= np.where(kept, advantage * bound * sums.zeroed, 0.0)
    part = declared.kl.loss
    if whole and part is not None and part.coefficient > 0:
        name = f"kl_theta_ref_{part.estimator}"
        if part.estimator not in ("k1", "k2", "k3") or part.aggregation is not None:
            return None
        if not look.rows.has("logp_ref"):
            return None
        total += np.where(kept, part.coefficient * look.rows.facts[name], 0.0)
    if not np.isfinite(total).all():
        return None
    return Losses(total, float(np.mean(np.abs(advantage))), kept)


def _other(objective: Objective) -> bool:
    """Whether a token's part of the loss is not its clipped ratio times the advantage.

    A ratio of the whole response is one term of the loss, and a factor of the weight of every token.
    """
    ratio, clip = objective.ratio, objective.clip
    if isinstance(clip, PPOClip) and (clip.delta is not None or clip.dual is not None):
        return True
    return bool(
        ratio.level != "token"
        or not isinstance(clip, NoClip | PPOClip)
        or ratio.corrections
        or ratio.clamp is not None
        or objective.batch_wide
    )

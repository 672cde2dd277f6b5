"""Where the run's KL to the reference stands, and how strong it is next to the reward."""

from __future__ import annotations

from typing import Literal

import msgspec
import numpy as np

from audit.analyses.effective_beta import EffectiveBeta, effective_betas
from audit.analyses.groups import groups_of
from audit.analyses.outcomes import first_pass
from audit.analyses.skips import Skips
from audit.facts.declared import declared_objective
from audit.facts.rows import RunRows
from audit.objectives.arrays import silent
from audit.objectives.objective import KL, Objective
from audit.stats import Estimate, mean, ratio_of_sums

RATES = (0.02, 0.1, 0.25, 0.5, 0.75, 0.9, 0.98)
"""Success rates of a prompt at which the effective beta is told."""


class Penalty(msgspec.Struct, frozen=True):
    """KL taken off the reward, per response."""

    mean: Estimate
    """coefficient · Σ k of the response."""
    spread: float | None
    """Its standard deviation within groups over that of the logged reward, where an advantage is what differs
    there: which of the two drives the advantages. None where no reward differs within its group."""


class Placement(msgspec.Struct, frozen=True):
    """The KL of the objective."""

    where: Literal["loss", "reward", "both", "none"]
    coefficient: float | None
    """In the loss, else in the reward."""
    form: str
    """Estimator, gradient and stage in words."""
    effect: str
    """What it pulls towards."""
    group_std: Estimate | None
    """Mean standard deviation of the reward over groups with signal, where the advantage is divided by it."""
    effective_beta: Estimate | None
    """coefficient · group_std: the KL's weight next to the reward's, in units of the reward."""
    by_rate: list[EffectiveBeta]
    """The same exactly, for success-or-failure rewards of a prompt with each success rate."""
    penalty: Penalty | None


_EFFECTS = {
    ("k1", "pathwise"): "nothing on average: a push down on every sampled token, whose expectation is 0",
    ("k2", "pathwise"): "reverse KL(theta ‖ ref), on tokens sampled from the policy",
    ("k3", "pathwise"): "forward KL(ref ‖ theta), though its value estimates reverse KL",
    ("abs", "pathwise"): "the reference by the same step on every token",
    ("k3", "ratio"): "reverse KL(theta ‖ ref), corrected for samples from the old policy",
}


def placement(rows: RunRows, objective: Objective, skips: Skips) -> Placement:
    """Say where the KL of an objective stands and what that makes of its coefficient.

    Parameters
    ----------
    objective : Objective
        Where it takes its advantages from the log, the scale is that of the declaration.
    skips : Skips
        Told what cannot be said.
    """
    loss, reward = objective.kl.loss, objective.kl.reward
    in_loss = loss is not None and loss.coefficient > 0
    in_reward = reward is not None and reward.coefficient > 0
    where: Literal["loss", "reward", "both", "none"] = "both" if in_loss and in_reward else "none"
    coefficient, form, effect, penalty = None, "", "", None
    if in_reward and reward is not None:
        where, coefficient = ("both" if in_loss else "reward"), reward.coefficient
        form = f"{reward.estimator} of {reward.policy} in the reward, {reward.stage.replace('_', ' ')}"
        effect = "reverse KL, as part of the reward: it enters the advantage"
        check = "size of the KL in the reward"
        if not skips.lacks(check, f"logp_{reward.policy}", "logp_ref"):
            penalty = _penalty(rows, f"kl_{reward.policy}_ref_{reward.estimator}", reward.coefficient)
    if in_loss and loss is not None:
        where, coefficient = ("both" if in_reward else "loss"), loss.coefficient
        also = f"; {form}" if form else ""
        against = f" against {loss.against}" if loss.against else ""
        form = f"{loss.estimator} in the loss{against}, {loss.gradient.replace('_', ' ')} gradient{also}"
        default = "reverse KL(theta ‖ ref)" if loss.gradient != "pathwise" else "its own slope"
        effect = _EFFECTS.get((loss.estimator, loss.gradient), default)
    scaled = _with_scale(rows, objective)
    std = beta = None
    by_rate: list[EffectiveBeta] = []
    if coefficient is not None:
        std, beta = _strength(rows, scaled, coefficient, skips)
        by_rate = skips.attempt("effective beta by success rate", lambda: _by_rate(rows, scaled)) or []
    return Placement(where, coefficient, form, effect, std, beta, by_rate, penalty)


def _with_scale(rows: RunRows, objective: Objective) -> Objective:
    """The objective as declared: one on logged advantages does not say what they were divided by."""
    declared = declared_objective(rows.run) if objective.baseline.kind == "logged" else None
    if declared is None:
        return objective
    return declared.objective.replace(kl=objective.kl)


def _strength(
    rows: RunRows, objective: Objective, coefficient: float, skips: Skips
) -> tuple[Estimate | None, Estimate | None]:
    after = objective.kl.reward is not None and objective.kl.reward.stage == "after_scale"
    if objective.scale.kind != "group_std" or not (objective.kl.loss is not None or after):
        return None, None
    if skips.lacks("effective beta of this run", "group_id"):
        return None, None
    groups = groups_of(rows)
    alive = (groups.size > 1) & ~groups.dead
    if not alive.any():
        skips.add("effective beta of this run", "a group with signal")
        return None, None
    std = _group_std(rows, objective.scale.ddof)[alive]
    found = mean(std, groups.prompt[alive])
    # A product with a constant: its interval is too.
    scaled = [None if x is None else coefficient * x for x in (found.value, found.low, found.high)]
    return found, Estimate(scaled[0], scaled[1], scaled[2], found.n)


@silent
def _group_std(rows: RunRows, ddof: int) -> np.ndarray:
    """Standard deviation of the reward in each group, shape (groups,)."""
    reward = rows.numpy("reward")
    use = first_pass(rows) & rows.grouped & np.isfinite(reward)
    count = int(rows.sample.max(initial=-1)) + 1
    code, value = rows.sample[use], reward[use]
    size = np.bincount(code, minlength=count).astype(float)
    centre = np.bincount(code, weights=value, minlength=count) / np.maximum(size, 1)
    squares = np.bincount(code, weights=np.square(value - centre[code]), minlength=count)
    return np.asarray(np.sqrt(squares / np.maximum(size - ddof, 1)))


def _by_rate(rows: RunRows, objective: Objective) -> list[EffectiveBeta]:
    size = rows.run.manifest.group_size or groups_of(rows).typical_size
    loss = objective.kl.loss
    if loss is not None and loss.coefficient > 0:
        objective = objective.replace(kl=KL(loss=loss))
    return effective_betas(objective, size, RATES)


def _penalty(rows: RunRows, fact: str, coefficient: float) -> Penalty:
    assert rows.facts is not None
    paid = coefficient * rows.facts[fact]
    reward = rows.numpy("reward")
    held = first_pass(rows) & np.isfinite(paid) & np.isfinite(reward)
    n = int(held.sum())
    size = ratio_of_sums(paid[held], np.ones(n), rows.prompt[held], n)
    code = rows.sample[held]
    spread = _within(code, reward[held])
    return Penalty(size, _within(code, paid[held]) / spread if spread > 0 else None)


@silent
def _within(code: np.ndarray, values: np.ndarray) -> float:
    """Standard deviation of values, shape (R,), about the means of their groups."""
    if not len(code):
        return 0.0
    centre = np.bincount(code, weights=values) / np.maximum(np.bincount(code), 1)
    return float(np.sqrt(np.mean(np.square(values - centre[code]))))

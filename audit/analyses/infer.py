"""Which baseline and scale made the logged advantages?"""

from __future__ import annotations

import itertools
from typing import Literal

import msgspec
import numpy as np
import torch

from audit.errors import AuditError
from audit.facts.rows import RunRows
from audit.facts.weigh import coefficients_of
from audit.objectives.advantages import advantages, advantages_under
from audit.objectives.batch import Responses
from audit.objectives.objective import KL, Baseline, Objective, RewardKL, Scale, Shaping

EXACT = 2e-5
"""A relative residual below this is float32 rounding of the trainer; heuristic."""
_BASELINES: tuple[Literal["group_mean", "leave_one_out", "none", "batch_mean"], ...]
_BASELINES = ("group_mean", "leave_one_out", "none", "batch_mean")
_STDS: tuple[Literal["group_std", "batch_std"], ...] = ("group_std", "batch_std")
_DDOFS: tuple[Literal[0, 1], ...] = (0, 1)
EPSILONS = (0.0, 1e-8, 1e-6, 1e-5, 1e-4, 1e-3)


class Candidate(msgspec.Struct, frozen=True):
    """One way to make advantages, with its misfit."""

    baseline: str
    scale: str
    ddof: int | None
    epsilon: float | None
    reward_kl: float | None
    residual: float
    """RMS(logged - recomputed) / RMS(logged)."""

    def describe(self) -> str:
        """One phrase for people: 'group_mean / (group_std, ddof 1, + 0.0001)'."""
        text = self.baseline
        if self.scale != "none":
            text += f" / ({self.scale}, ddof {self.ddof}, + {self.epsilon:g})"
        if self.reward_kl:
            text += f", KL in reward x {self.reward_kl:g}"
        return text


class Inference(msgspec.Struct, frozen=True):
    """What the logged advantages say about the objective."""

    status: str
    """``fits``: a candidate reproduces them; ``none_fits``; ``skipped``: the log cannot say."""
    reason: str
    best: Candidate | None = None
    equivalent: list[Candidate] = []
    """Every candidate that fits as well as the best: what this log cannot tell apart."""
    declared_residual: float | None = None
    agrees: bool | None = None
    """Whether the declared objective reproduces the advantages; None where nothing was declared."""
    n: int = 0


@np.errstate(over="ignore", invalid="ignore")
def infer(rows: RunRows, declared: Objective | None) -> Inference:
    """Recompute the advantages under every candidate and name the ones that fit.

    Candidates: baseline × scale × ddof × epsilon, with the declared reward shaping, plus KL in the reward
    (its coefficient by least squares) where log-probs under old and reference are logged.
    """
    logged = rows.logged_advantage
    if logged is None:
        return Inference(status="skipped", reason="needs column 'advantage'")
    use = ~rows.greedy & np.isfinite(logged) & np.isfinite(rows.numpy("reward"))
    n = int(use.sum())
    if n == 0 or not np.any(np.abs(logged[use]) > 0):
        return Inference(status="skipped", reason="every logged advantage is zero or missing", n=n)

    shaping = declared.shaping if declared is not None else Shaping()
    responses = rows.responses(Objective(shaping=shaping, kl=KL(reward=RewardKL(coefficient=1.0))))
    found: list[Candidate | None] = []
    try:
        grid = _grid()
        for (baseline, scale), candidate in zip(
            grid, advantages_under(responses, Objective(shaping=shaping), grid), strict=True
        ):
            objective = Objective(shaping=shaping, baseline=baseline, scale=scale)
            found.append(_named(objective, _residual(logged, candidate.numpy(), use)))
        found += _with_reward_kl(responses, shaping, logged, use)
    except AuditError as error:
        # The declared shaping cannot be applied to this log: its components were not logged.
        return Inference(status="skipped", reason=str(error), n=n)
    ranked = sorted((c for c in found if c is not None), key=lambda c: c.residual)
    best = ranked[0]

    declared_residual = agrees = None
    if declared is not None and declared.baseline.kind != "logged":
        try:
            made = coefficients_of(rows, declared).advantage.numpy()
            declared_residual = _residual(logged, made, use)
            agrees = declared_residual < max(EXACT, 1.5 * best.residual if best.residual < EXACT else 0.0)
        except AuditError as error:
            return Inference(status="skipped", reason=str(error), n=n)

    ceiling = max(2.0 * best.residual, EXACT)
    equivalent = [c for c in ranked if c.residual <= ceiling] if best.residual < EXACT else [best]
    fits = best.residual < EXACT or bool(
        agrees and declared_residual is not None and declared_residual < EXACT
    )
    reason = "" if fits else "no candidate reproduces the logged advantages; the closest is named"
    return Inference(
        status="fits" if fits else "none_fits",
        reason=reason,
        best=best,
        equivalent=equivalent,
        declared_residual=declared_residual,
        agrees=agrees,
        n=n,
    )


def _grid() -> list[tuple[Baseline, Scale]]:
    scales = [Scale()]
    for kind, ddof, epsilon in itertools.product(_STDS, _DDOFS, EPSILONS):
        scales.append(Scale(kind=kind, ddof=ddof, epsilon=epsilon))
    return [(Baseline(kind=kind), scale) for kind, scale in itertools.product(_BASELINES, scales)]


def _with_reward_kl(
    responses: Responses, shaping: Shaping, logged: np.ndarray, use: np.ndarray
) -> list[Candidate | None]:
    """Unscaled advantages are linear in the coefficient of the KL in the reward: solve for it."""
    kl = responses.reference_kl
    if kl is None or not bool(torch.isfinite(kl).all()):
        return []
    found: list[Candidate | None] = []
    for kind in _BASELINES[:3]:
        plain = Objective(shaping=shaping, baseline=Baseline(kind=kind))
        unit = plain.replace(kl=KL(reward=RewardKL(coefficient=1.0)))
        without = advantages(responses, plain).numpy()
        slope = advantages(responses, unit).numpy() - without
        power = float(np.sum(slope[use] ** 2))
        if power == 0.0:
            continue
        coefficient = float(np.sum(slope[use] * (logged - without)[use])) / power
        if coefficient <= 0.0:
            continue
        with_kl = plain.replace(kl=KL(reward=RewardKL(coefficient=float(f"{coefficient:.4g}"))))
        found.append(_named(with_kl, _residual(logged, without + coefficient * slope, use)))
    return found


def _named(objective: Objective, residual: float) -> Candidate | None:
    if not np.isfinite(residual):
        return None
    scaled = objective.scale.kind != "none"
    return Candidate(
        baseline=objective.baseline.kind,
        scale=objective.scale.kind,
        ddof=objective.scale.ddof if scaled else None,
        epsilon=objective.scale.epsilon if scaled else None,
        reward_kl=objective.kl.reward.coefficient if objective.kl.reward is not None else None,
        residual=residual,
    )


def _residual(logged: np.ndarray, made: np.ndarray, use: np.ndarray) -> float:
    power = float(np.sqrt(np.mean(logged[use] ** 2)))
    return float(np.sqrt(np.mean((logged - made)[use] ** 2))) / power

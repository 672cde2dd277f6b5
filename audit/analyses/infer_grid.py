"""Grids of baselines and scales: the usual ones, and the rarer ones."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Literal

import msgspec
import numpy as np

from audit.analyses.infer_linear import snapped
from audit.analyses.infer_problem import Choice, Problem
from audit.objectives.advantages import advantages_under
from audit.objectives.objective import Baseline, Objective, Scale, Whiten

EPSILONS = (0.0, 1e-8, 1e-6, 1e-5, 1e-4, 1e-3)
_BASELINES: tuple[Literal["group_mean", "leave_one_out", "none", "batch_mean"], ...]
_BASELINES = ("group_mean", "leave_one_out", "none", "batch_mean")
_STDS: tuple[Literal["group_std", "batch_std"], ...] = ("group_std", "batch_std")
_DDOFS: tuple[Literal[0, 1], ...] = (0, 1)
_OTHER_SCALES: tuple[
    Literal["leave_one_out_std", "group_mean", "alive_share", "nonzero_share", "pass_at_k_std"], ...
]
_OTHER_SCALES = ("leave_one_out_std", "group_mean", "alive_share", "nonzero_share", "pass_at_k_std")
MOST_K = 8


def usual() -> list[Choice]:
    """Four baselines × no scale, or the std of the group or batch with every ddof and epsilon."""
    return [(Baseline(kind=kind), scale) for kind, scale in itertools.product(_BASELINES, scales())]


def scales(kinds: tuple[Literal["group_std", "batch_std"], ...] = _STDS) -> list[Scale]:
    """No scale, and every std with every ddof and epsilon."""
    made = [Scale()]
    for kind, ddof, epsilon in itertools.product(kinds, _DDOFS, EPSILONS):
        made.append(Scale(kind=kind, ddof=ddof, epsilon=epsilon))
    return made


def raw_singletons() -> list[Choice]:
    """The usual ones with a group's own baseline, where a group of one has its raw reward."""
    kinds = _BASELINES[:2]
    return [
        (Baseline(kind=kind, singleton="raw"), scale) for kind, scale in itertools.product(kinds, scales())
    ]


def rarer(problem: Problem) -> list[Choice]:
    """Baselines and scales of a few published objectives, and the usual ones whitened over the batch."""
    baselines = [Baseline(kind="length_weighted"), Baseline(kind="runner_up")]
    if problem.responses.greedy is not None:
        baselines.append(Baseline(kind="greedy"))
    size = int(np.bincount(problem.group).max(initial=0))
    passing = [Baseline(kind="pass_at_k", k=k) for k in range(2, min(size, MOST_K) + 1)]
    made = [(baseline, scale) for baseline in baselines for scale in scales()]
    for baseline in passing:
        made += [(baseline, Scale())]
        made += [(baseline, Scale(kind="pass_at_k_std", epsilon=epsilon)) for epsilon in EPSILONS]
    usual_baselines = [Baseline(kind=kind) for kind in _BASELINES]
    for baseline, kind, ddof, epsilon in itertools.product(
        usual_baselines, _OTHER_SCALES[:4], _DDOFS, (0.0, 1e-6, 1e-4)
    ):
        if kind == "leave_one_out_std" or ddof == 0:
            made.append((baseline, Scale(kind=kind, ddof=ddof, epsilon=epsilon)))
    return made + _whitened(usual_baselines)


def _whitened(baselines: list[Baseline]) -> list[Choice]:
    levels: tuple[Literal["token", "sequence"], ...] = ("token", "sequence")
    made = []
    for baseline, level, ddof, epsilon, centre in itertools.product(
        baselines, levels, _DDOFS, (0.0, 1e-8, 1e-5), (True, False)
    ):
        whiten = Whiten(level=level, ddof=ddof, epsilon=epsilon, centre=centre)
        made.append((baseline, Scale(whiten=whiten)))
    return made


def with_solved_epsilon(problem: Problem, choices: list[Choice]) -> list[Choice]:
    """The choices, and for every std among them the epsilon that fits best, where it is not one of them.

    With c the centred reward and s its std, A = c / (s + epsilon) gives epsilon = Σ A (c - A s) / Σ A².
    """
    small = problem.sample
    if not small.informative:
        return choices
    plain = [choice for choice in choices if choice[1].epsilon == 0.0 and choice[1].kind != "none"]
    centred = dict(_made(small, [(baseline, Scale()) for baseline in {b for b, _ in plain}]))
    more = []
    for (baseline, scale), divided in _made(small, plain):
        solved = _epsilon(small, centred[baseline, Scale()], divided)
        if solved is not None and solved > 0.0:
            value = snapped(solved, 2e-3)
            if value not in EPSILONS:
                more.append((baseline, msgspec.structs.replace(scale, epsilon=value)))
    return [*choices, *more]


def _made(problem: Problem, choices: list[Choice]) -> Iterator[tuple[Choice, np.ndarray]]:
    made = advantages_under(problem.responses, Objective(shaping=problem.shaping), choices)
    for choice, advantage in zip(choices, made, strict=True):
        yield choice, np.asarray(advantage)


def _epsilon(problem: Problem, centred: np.ndarray, divided: np.ndarray) -> float | None:
    use = problem.use & (divided != 0) & np.isfinite(divided)
    # Dead groups are not divided: their epsilon is not in the log.
    use &= np.abs(centred) != np.abs(divided)
    logged, made = problem.logged[use], centred[use]
    power = float(np.sum(logged**2))
    if power == 0.0:
        return None
    std = made / divided[use]
    return float(np.sum(logged * (made - logged * std))) / power

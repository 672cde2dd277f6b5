"""The mean reward that the trainer logged: is it the mean of the reward that it trained on?"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from audit.analyses.checks.logged_scalars import by_update, of_evaluation, rounding
from audit.analyses.checks.look import Entry, Look, problem
from audit.schema import Problem

NAMES = ("reward", "reward_mean", "mean_reward", "rewards/mean", "reward/mean")
LEAST = 6
"""Logged values that are compared; heuristic."""
CLOSE = 1e-4
"""Difference of a logged mean that is that of the rows, relative to the spread of rewards; heuristic."""
APART = 0.02
"""The same of one that is another mean; heuristic."""
ONE_SIDED = 0.9
"""Share of steps that lie on one side where the logged mean is biased; heuristic."""


def _find(look: Look) -> Iterator[Problem]:
    spread = float(np.nanstd(look.reward)) if np.isfinite(look.reward).any() else 0.0
    if spread <= 0:
        return
    for name in look.metrics:
        ending = f"/{name.lower()}".endswith(tuple(f"/{known}" for known in NAMES))
        if ending and not of_evaluation(name):
            yield from _compared(look, name, spread)


def _compared(look: Look, name: str, spread: float) -> Iterator[Problem]:
    logged, own = by_update(look, name, _parts(look, look.reward))
    if len(logged) < LEAST:
        return
    slack = rounding(logged)
    apart = _apart(logged, own, slack) / spread
    if apart <= APART:
        return
    means = f"{np.mean(logged):.4g} against {np.mean(own):.4g} over {len(logged)} logged values"
    for words, values in _others(look):
        pair = by_update(look, name, _parts(look, values))
        if len(pair[0]) == len(logged) and _apart(*pair, slack) / spread <= CLOSE:
            yield problem(
                look,
                "reward.metric-differs",
                None,
                f"{name} is the mean of {words}, not of the column reward ({means}){_trained_on(look)}.",
                column="reward",
                hint="Plot the mean of the reward that made the advantages.",
            )
            return
    if look.declared is not None and look.declared.kl.reward is not None:
        return
    side = float(np.mean(np.sign(logged - own)))
    if abs(side) >= 2 * ONE_SIDED - 1:
        yield problem(
            look,
            "reward.metric-differs",
            None,
            f"{name} is {'above' if side > 0 else 'below'} the mean of the logged rewards nearly always "
            f"({means}): it is a mean of other rows, or of another reward.",
            "info",
            column="reward",
            certainty="likely",
            hint="Filtered or discarded rows count in one of them only; weights or penalties do too.",
        )


def _parts(look: Look, values: np.ndarray) -> np.ndarray:
    """What each row adds to the mean of its update."""
    use = ~look.rows.greedy & np.isfinite(values)
    count = np.bincount(look.rows.update, weights=use)
    return np.asarray(np.where(use, values, 0.0) / np.maximum(count, 1.0)[look.rows.update])


def _others(look: Look) -> Iterator[tuple[str, np.ndarray]]:
    parts = list(look.components.values())
    if len(parts) > 1:
        yield "the unweighted sum of reward_components", np.sum(parts, axis=0)
        yield "the mean of reward_components", np.mean(parts, axis=0)
    for name, values in look.components.items():
        yield f"component {name!r}", values
    if look.loss_tokens is not None:
        yield "reward over rows with a loss token", np.where(look.loss_tokens > 0, look.reward, np.nan)
    if look.rows.has("correct"):
        yield "correct", look.rows.numpy("correct")


def _trained_on(look: Look) -> str:
    best = None if look.inferred is None or look.inferred.status != "fits" else look.inferred.best
    return "" if best is None else f"; the advantages, made of the column: {best.describe()}"


def _apart(logged: np.ndarray, own: np.ndarray, slack: float) -> float:
    return float(np.sqrt(np.mean(np.maximum(np.abs(logged - own) - slack, 0.0) ** 2)))


CHECK = Entry(
    "the mean reward that the trainer logged",
    {"reward.metric-differs": "the logged mean reward is another one than that of the rows"},
    _find,
    ("reward",),
)

"""Every group that an objective can meet on one prompt, and the advantages that it gives there.

The prompt's rewards are independent draws from a finite distribution, so a group is a multiset of its values:
few enough to be listed, or drawn at random where they are not. What an analysis asks (prompt factor, share of
groups without signal, effective batch) is an expectation over them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from audit.errors import BadObjective
from audit.objectives.advantages import advantages
from audit.objectives.batch import Responses
from audit.objectives.objective import KL, Objective

MOST = 20_000
"""Groups that are listed one by one; with more, this many are drawn."""
_BATCH_SCALES = ("batch_std", "alive_share", "nonzero_share")

LARGEST_GROUP = 4096
"""Groups beyond this are refused: they would take minutes to count; no trainer uses them."""


@dataclass(frozen=True)
class PossibleGroups:
    """C groups of G responses whose rewards take V values; arrays of shape (C, V) unless said otherwise."""

    values: np.ndarray
    """The rewards, shape (V,)."""
    counts: np.ndarray
    """Responses of a group with each reward, int64."""
    advantage: np.ndarray
    """Sum of the advantages of those responses."""
    size: np.ndarray
    """Sum of |advantage|."""
    square: np.ndarray
    """Sum of advantage²."""
    exact: bool
    """Every group is listed; otherwise groups were drawn, and all weigh the same."""

    @property
    def group_size(self) -> int:
        """Responses of a group."""
        return int(self.counts[0].sum())

    @property
    def dead(self) -> np.ndarray:
        """Groups whose rewards are all equal, bool, shape (C,)."""
        alike: np.ndarray = (self.counts > 0).sum(axis=1) == 1
        return alike

    def probability(self, share: Sequence[float]) -> np.ndarray:
        """Probability of each group, shape (C,), where the reward takes each value with its ``share``."""
        if not self.exact:
            return np.full(len(self.counts), 1.0 / len(self.counts))
        factorial = np.array([math.lgamma(n + 1) for n in range(self.group_size + 1)])
        ways = factorial[-1] - factorial[self.counts].sum(axis=1)
        with np.errstate(divide="ignore"):
            log = np.log(np.asarray(share, dtype=float))
        # A value that cannot occur and does not: 0 · log 0 is 0.
        drawn = np.where(self.counts > 0, self.counts * np.where(self.counts > 0, log, 0.0), 0.0)
        made: np.ndarray = np.exp(ways + drawn.sum(axis=1))
        return made


def possible_groups(
    objective: Objective,
    group_size: int,
    values: Sequence[float] = (0.0, 1.0),
    *,
    share: Sequence[float] = (),
) -> PossibleGroups:
    """List the groups of G responses, and apply the objective to all of them in one call.

    Parameters
    ----------
    values : sequence of float
        Distinct rewards, shape (V,).
    share : sequence of float, shape (V,)
        Their probabilities: needed where there are too many groups to list, and then what they are drawn by.

    Raises
    ------
    BadObjective
        The advantage of one group depends on more than its own rewards, or the group is too small.

    Notes
    -----
    Responses are taken to be of one length, and KL in the reward to be 0: what is asked is how the objective
    treats the reward. A greedy response is there where the baseline needs one; its reward does not matter,
    for a baseline that does not depend on the response drops out of the expectation.
    """
    check_one_prompt(objective, group_size)
    many = math.comb(group_size + len(values) - 1, group_size)
    if many <= MOST:
        counts = np.array(_multisets(group_size, len(values)), dtype=np.int64)
    else:
        counts = np.random.default_rng(0).multinomial(group_size, np.asarray(share), size=MOST)
    made = _advantages(objective, np.asarray(values, dtype=float), counts)
    return PossibleGroups(
        values=np.asarray(values, dtype=float),
        counts=counts,
        advantage=_per_cell(counts, made),
        size=_per_cell(counts, np.abs(made)),
        square=_per_cell(counts, made**2),
        exact=many <= MOST,
    )


def check_one_prompt(objective: Objective, group_size: int) -> None:
    """Refuse objectives whose advantages are not a function of the rewards of one group.

    Raises
    ------
    BadObjective
    """
    if group_size < 2:
        msg = f"a group of {group_size} has no baseline: --group-size must be at least 2."
        raise BadObjective(msg)
    if group_size > LARGEST_GROUP:
        msg = f"--group-size {group_size} is beyond {LARGEST_GROUP}, up to which every group can be counted."
        raise BadObjective(msg)
    name, baseline, scale = objective.name, objective.baseline.kind, objective.scale
    if baseline in ("logged", "gae"):
        source = "the log" if baseline == "logged" else "a critic"
        msg = (
            f"{name}: advantages come from {source} (baseline.kind '{baseline}'), not from a group's rewards."
        )
        raise BadObjective(msg)
    if objective.shaping.weights is not None:
        msg = f"{name}: the reward is made of several components; one distribution does not describe them."
        raise BadObjective(msg)
    over_batch = [
        *(["scale.whiten"] if scale.whiten is not None else []),
        *([f"scale.kind '{scale.kind}'"] if scale.kind in _BATCH_SCALES else []),
        *(["baseline.kind 'batch_mean'"] if baseline == "batch_mean" else []),
    ]
    if over_batch:
        msg = (
            f"{name}: {' and '.join(over_batch)} is taken over the batch, so the weight of a prompt depends "
            "on the other prompts too: it is not a function of its own success rate and group size."
        )
        raise BadObjective(msg)


def _multisets(size: int, kinds: int) -> list[list[int]]:
    if kinds == 1:
        return [[size]]
    return [[first, *rest] for first in range(size + 1) for rest in _multisets(size - first, kinds - 1)]


def _per_cell(counts: np.ndarray, of_row: np.ndarray) -> np.ndarray:
    """Sum what each response has over the responses of a group with one reward, shape (C, V)."""
    total = np.zeros(counts.shape)
    np.add.at(total, _rows(counts), of_row)
    return total


def _rows(counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Group and value of each response, shape (C · G,)."""
    groups, kinds = counts.shape
    cell = np.repeat(np.arange(groups * kinds), counts.ravel())
    return cell // kinds, cell % kinds


def _advantages(objective: Objective, values: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Advantage of each response in the order of :func:`_rows`."""
    group, value = _rows(counts)
    greedy = objective.baseline.kind == "greedy"
    extra = np.arange(len(counts)) if greedy else np.arange(0)
    index = np.concatenate([group, extra])
    one, zero = np.ones_like(index), np.zeros_like(index)
    responses = Responses(
        reward=np.concatenate([values[value], np.full(len(extra), values[0])]),
        length=one,
        loss_tokens=one,
        group=index,
        update=zero,
        generation_batch=zero,
        greedy=np.arange(len(index)) >= len(group) if greedy else None,
    )
    made = advantages(responses, objective.replace(kl=KL()))
    return np.asarray(made[: len(group)], dtype=float)

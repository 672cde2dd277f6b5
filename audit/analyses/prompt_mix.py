"""Were two runs given one mix of prompts? A test that knows how evenly each of them draws.

Trainers draw prompts in shuffled epochs: every prompt once before any comes again. Their counts lie far
closer together than those of independent draws, for which Pearson's chi-square is made: a mix that differs
stays below its threshold. So the scatter of each run is taken from how it draws.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

EVEN = 1e-3
"""p-value of independent draws below which counts that differ by 1 at most are shuffled epochs; heuristic."""
MOST_BLOCKS = 8
"""Blocks of steps in which the scatter of a run is measured."""
LEAST_SCATTER = 0.05
"""Variance over mean of the counts that is assumed at least, as a group or two may be missing; heuristic."""
ALONE = 0.01
"""Tail probability of a scatter from which draws are called independent; heuristic."""
EXACT_CELLS = 2**24
"""Prompts times draws up to which the distribution under one mix is drawn; beyond, an approximation holds."""
DRAWN = 1999
"""Tables that are drawn under one mix."""
USUAL = 0.9
"""Share of a run's steps that must hold one number of groups for that to be its batch; heuristic."""
MISSING = 0.05
"""Share of the groups of a run from which they are called missing; heuristic."""


@dataclass(frozen=True)
class Draws:
    """The groups of one run: N of them, of K prompts that either run drew."""

    prompt: np.ndarray
    """Code of the prompt, below K, int64, shape (N,)."""
    step: np.ndarray
    """First step of the group, shape (N,)."""
    prompts: int
    """K."""

    @property
    def total(self) -> int:
        """Number of draws N."""
        return len(self.prompt)

    @cached_property
    def counts(self) -> np.ndarray:
        """Draws of each prompt, int64, shape (K,)."""
        return np.bincount(self.prompt, minlength=self.prompts)

    @cached_property
    def per_step(self) -> np.ndarray:
        """Draws in each step that has any, int64."""
        return np.unique(self.step, return_counts=True)[1]

    @property
    def batch(self) -> int | None:
        """Groups that nearly every step has; None where steps vary."""
        usual = int(np.bincount(self.per_step).argmax())
        return usual if (self.per_step == usual).mean() >= USUAL else None

    @cached_property
    def in_epochs(self) -> bool:
        """Whether every prompt was drawn equally often, give or take the epoch that the run ended in.

        Within the first epoch that cannot be told: how many prompts were still to come is not known.
        """
        from scipy.special import chdtr

        if self.prompts < 2 or np.ptp(self.counts) > 1 or not self.counts.all():
            return False
        mean = self.total / self.prompts
        return bool(chdtr(self.prompts - 1, ((self.counts - mean) ** 2).sum() / mean) < EVEN)


@dataclass(frozen=True)
class Mix:
    """How two mixes compare."""

    p_value: float
    """Of one mix: of a difference as large as this, or larger."""
    p_larger: float
    """Of a larger one alone. Counts are whole: where few values are possible the two lie apart, and a number
    drawn evenly between them is what is uniform under one mix."""
    distance: float
    """Total variation: the part of the draws that would have to move to another prompt."""
    scatter: tuple[float, float]
    """Variance over mean of the counts of A and of B; 1 for independent draws."""
    missing: tuple[float, float]
    """Share of the groups that the steps of A and of B lack, as far as that is known."""


def compare_mixes(a: Draws, b: Draws) -> Mix:
    """Test whether two runs draw their prompts from one mix.

    Notes
    -----
    The statistic is Pearson's. Where both runs draw in shuffled epochs, its distribution under one mix is
    drawn: the prompts of the last, partial epoch are a random subset. So it is where nothing tells a run's
    draws from independent ones: tables with these margins (Fisher's exact test, by simulation). Else, for
    counts of variance phi_A and phi_B times their mean, the expectation under one mix is
    (K - 1) (N_B phi_A + N_A phi_B) / N; with phi known the statistic is compared with chi-square, with phi
    measured with F, freedom after Satterthwaite (as quasi-Poisson: McCullagh & Nelder 1989, sec. 4.5).
    """
    table = np.stack([a.counts, b.counts]).astype(float)
    table = table[:, table.sum(axis=0) > 0]
    missing = _missing(a, b), _missing(b, a)
    if table.shape[1] < 2 or not a.total or not b.total:
        return Mix(1.0, 1.0, 0.0, (1.0, 1.0), missing)
    of_prompt = table.sum(axis=0)
    if a.in_epochs or b.in_epochs:
        # Then the one mix is known to be even: weights that follow the counts would follow their scatter.
        of_prompt = np.full_like(of_prompt, of_prompt.mean())
    scatter = _scatter(a, missing[0]), _scatter(b, missing[1])
    found = float(_statistic(table[:1], table[1:], of_prompt)[0])
    drawn = None if any(missing) else _drawn(a, b, table, scatter)
    if drawn is None:
        p = p_larger = _approximate(found, table.shape[1] - 1, (a.total, b.total), scatter)
    else:
        made = _statistic(*drawn, of_prompt)
        # Equal up to rounding is equal.
        p = (float((made >= found * (1 - 1e-9)).sum()) + 1) / (DRAWN + 1)
        p_larger = float((made > found * (1 + 1e-9)).sum()) / (DRAWN + 1)
    shares = table / table.sum(axis=1, keepdims=True)
    distance = float(np.abs(shares[0] - shares[1]).sum() / 2)
    return Mix(p, p_larger, distance, (scatter[0][0], scatter[1][0]), missing)


def _statistic(in_a: np.ndarray, in_b: np.ndarray, of_prompt: np.ndarray) -> np.ndarray:
    """Pearson's over 2 x K tables, shape (M,), of counts of shape (M, K)."""
    total_a, total_b = in_a.sum(axis=1, keepdims=True), in_b.sum(axis=1, keepdims=True)
    total = total_a + total_b
    off = in_a - (in_a + in_b) * (total_a / total)
    expected = of_prompt / of_prompt.sum() * total_a * total_b / total
    return np.asarray((off**2 / expected).sum(axis=1))


def _drawn(
    a: Draws, b: Draws, table: np.ndarray, scatter: tuple[tuple[float, float], tuple[float, float]]
) -> tuple[np.ndarray, np.ndarray] | None:
    """Counts of both runs under one mix, each of shape (DRAWN, K), where their distribution is known."""
    prompts = table.shape[1]
    if prompts * DRAWN > EXACT_CELLS:
        return None
    rng = np.random.default_rng(0)
    if a.in_epochs and b.in_epochs:
        return _epochs(a, prompts, rng), _epochs(b, prompts, rng)
    if a.in_epochs or b.in_epochs or not all(_alone(*each) for each in scatter):
        return None
    of_prompt = table.sum(axis=0).astype(np.int64)
    in_a = rng.multivariate_hypergeometric(of_prompt, a.total, size=DRAWN, method="marginals")
    return in_a, of_prompt - in_a


def _epochs(draws: Draws, prompts: int, rng: np.random.Generator) -> np.ndarray:
    whole, rest = divmod(draws.total, prompts)
    ones = np.ones(prompts, dtype=np.int64)
    return whole + rng.multivariate_hypergeometric(ones, rest, size=DRAWN, method="marginals")


def _alone(phi: float, freedom: float) -> bool:
    """Whether a measured scatter is that of independent draws, as far as it can be told."""
    from scipy.special import chdtr

    if np.isinf(freedom):
        return phi == 1.0
    below = float(chdtr(freedom, phi * freedom))
    return ALONE < below < 1 - ALONE


def _approximate(
    statistic: float,
    freedom: int,
    totals: tuple[int, int],
    scatter: tuple[tuple[float, float], tuple[float, float]],
) -> float:
    from scipy.special import chdtrc, fdtrc

    (phi_a, free_a), (phi_b, free_b) = scatter
    parts = np.array([totals[1] * phi_a, totals[0] * phi_b]) / sum(totals)
    phi = max(float(parts.sum()), LEAST_SCATTER)
    spread = float((parts**2 / np.array([free_a, free_b])).sum())
    if spread == 0:
        return float(chdtrc(freedom, statistic / phi))
    return float(fdtrc(freedom, phi**2 / spread, statistic / freedom / phi))


def _scatter(draws: Draws, missing: float) -> tuple[float, float]:
    """Variance over mean of the counts, and its degrees of freedom; inf where it is known, not measured."""
    if draws.in_epochs or missing:
        # Of k epochs the last is in part: f (1 - f) a prompt. What is missing at random adds a binomial's.
        full = draws.total / (1.0 - missing) / draws.prompts
        last = full - np.floor(full)
        return float(missing + (1.0 - missing) * last * (1.0 - last) / full), np.inf
    blocks = min(MOST_BLOCKS, draws.total // draws.prompts)
    if blocks < 2:
        return 1.0, np.inf
    rank = np.argsort(np.argsort(draws.step, kind="stable"), kind="stable")
    block = rank * blocks // draws.total
    kinds = np.bincount(block * draws.prompts + draws.prompt, minlength=blocks * draws.prompts)
    table = kinds.reshape(blocks, draws.prompts)[:, draws.counts > 0].astype(float)
    freedom = (blocks - 1) * (table.shape[1] - 1)
    if not freedom:
        return 1.0, np.inf
    expected = np.outer(table.sum(axis=1), table.sum(axis=0)) / draws.total
    return float(((table - expected) ** 2 / expected).sum() / freedom), float(freedom)


def _missing(draws: Draws, other: Draws) -> float:
    """Share of the groups that are missing from a run's steps, by those of another, which draws in epochs.

    A run whose steps all hold one number of groups has another batch size; one whose steps vary below the
    batch of the other has lost some.
    """
    if not draws.total or not other.total or not other.in_epochs or draws.in_epochs:
        return 0.0
    batch = other.batch
    if batch is None or draws.batch is not None or draws.per_step.max() > batch:
        return 0.0
    share = 1.0 - float(draws.per_step.mean()) / batch
    return share if share >= MISSING else 0.0

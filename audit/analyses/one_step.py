"""One step under two objectives: what each would have pulled on, side by side, and how far apart they are."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import msgspec
import numpy as np

from audit.analyses.effective_beta import EffectiveBeta, effective_betas
from audit.analyses.fitted import fitted
from audit.analyses.length_pressure import PER_TOKEN, Pressure, has_pressure, length_pressure
from audit.analyses.length_rows import LengthRows, length_rows
from audit.analyses.skipped import Skipped
from audit.analyses.skips import Skips
from audit.analyses.step_parts import StepPart, Weighed, compared_parts
from audit.facts.pair_sums import pair_sums
from audit.facts.step_rows import StepRows
from audit.facts.token_sums import WeightSums
from audit.objectives.coefficients import Coefficients
from audit.objectives.objective import Objective
from audit.stats import Estimate, bootstrap, cluster_sums, estimate

RATES = tuple(at / 20 for at in range(1, 20))
"""Success rates at which the effective beta is drawn."""
_BETA = "effective beta"
LATER_PASS = "a later inner pass: sampled before the policy moved, so the push on length is approximate"


class Under(msgspec.Struct, frozen=True):
    """What one objective does to the step."""

    objective: dict[str, Any]
    """Every field, as it was applied."""
    zeroed: Estimate
    """Share of loss tokens that the trust region removed; n counts responses."""
    pressure: Pressure | None
    """None where each token has its own advantage."""
    betas: list[EffectiveBeta]
    """Effective KL coefficient over success rates; empty without a KL to the reference."""
    silent: int
    """Responses on which nothing pulls: their advantage is 0, or they were filtered or masked."""


class OneStep(msgspec.Struct, frozen=True):
    """One step under the objective ``a`` and under ``b``; intervals resample prompts."""

    step: int
    responses: int
    tokens: int
    """Loss tokens."""
    a: Under
    b: Under
    distance: Estimate
    """1 - cosine between the weights of the step's tokens: 0 is the same direction; n counts responses."""
    scale: Estimate
    """Size of b's weights (root of the sum of squares) over that of a's."""
    zeroed_change: Estimate
    """Share removed under b less that under a."""
    parts: dict[str, list[StepPart]]
    """Shares of the gradient by ``length``, ``sign`` of the advantage, and ``difficulty``."""
    notes: list[str]
    skipped: list[Skipped]
    schema: str = "rlaudit.one_step.v1"


def one_step(step: StepRows, a: Objective, b: Objective) -> OneStep:
    """Apply two objectives to one step.

    Both make their advantages from the rewards, unless their baseline is ``logged``. Parts that the log
    cannot carry are taken out of an objective, and ``notes`` say so.

    Raises
    ------
    MissingColumn, BadLog
        The log lacks what an objective cannot do without, or has neither tokens nor lengths.
    BadObjective
        An objective cannot be applied.
    """
    (a, of_a), (b, of_b) = fitted(step.rows, a), fitted(step.rows, b)
    skips = Skips(step.rows)
    of_length = skips.attempt("length pressure", lambda: length_rows(step.rows))
    pair = pair_sums(step.rows, a, b)
    one, other = (
        _Applied(step, objective, sums, coefficients, of_length, skips)
        for objective, sums, coefficients in zip((a, b), pair.sums, pair.coefficients, strict=True)
    )
    distance, scale, n = _apart(one, other, pair.dot[step.here])
    zeroed = _zeroed(one, other)
    lost = int(step.here.sum()) - n
    notes = list(dict.fromkeys([*of_a, *of_b]))
    if of_length is not None and step.rows.epoch[step.here].min() > 0:
        notes.append(LATER_PASS)
    if lost:
        notes.append(f"responses left out, since a weight of theirs is NaN or infinite: {lost}")
    return OneStep(
        step=step.step,
        responses=int(step.here.sum()),
        tokens=int(one.tokens.sum()),
        a=one.under(zeroed[0]),
        b=other.under(zeroed[1]),
        distance=distance,
        scale=scale,
        zeroed_change=zeroed[2],
        parts=compared_parts(step, one.weighed, other.weighed, skips),
        notes=notes,
        skipped=list(dict.fromkeys(skips.found)),
    )


@dataclass(frozen=True)
class _Applied:
    """One objective on the H responses of the step."""

    step: StepRows
    objective: Objective
    whole: WeightSums
    """Of all rows, shape (R,)."""
    coefficients: Coefficients
    lengths: LengthRows | None
    skips: Skips

    @cached_property
    def sums(self) -> WeightSums:
        """Arrays of shape (H,)."""
        return WeightSums(*(values[self.step.here] for values in self.whole))

    @cached_property
    def tokens(self) -> np.ndarray:
        return np.asarray(self.step.loss_tokens[self.step.here])

    @cached_property
    def cluster(self) -> np.ndarray:
        return np.asarray(np.unique(self.step.rows.prompt[self.step.here], return_inverse=True)[1])

    @cached_property
    def weighed(self) -> Weighed:
        made = self.coefficients
        active = (made.kept & ~made.masked)[self.step.here]
        advantage = np.where(active, made.advantage[self.step.here], 0.0)
        return Weighed(np.abs(self.sums.policy), self.tokens, advantage, self.cluster)

    def under(self, zeroed: Estimate) -> Under:
        return Under(
            objective=self.objective.to_dict(),
            zeroed=zeroed,
            pressure=self._pressure(),
            betas=self.skips.attempt(_BETA, self._betas) or [],
            silent=int((self.sums.policy == 0).sum()),
        )

    def _pressure(self) -> Pressure | None:
        data = self.lengths
        if data is None:
            return None
        if not has_pressure(data, self.objective):
            self.skips.add("length pressure", PER_TOKEN)
            return None
        per_token = np.full(self.step.rows.num_rows, np.nan)
        with np.errstate(divide="ignore", invalid="ignore"):
            per_token[self.step.here] = self.sums.policy / self.tokens
        return length_pressure(replace(data, use=data.use & self.step.here), per_token)

    def _betas(self) -> list[EffectiveBeta]:
        if self.objective.kl.loss is None and self.objective.kl.reward is None:
            return []
        rows = self.step.rows
        trained = rows.sample[self.step.here & ~rows.greedy]
        size = int(np.median(np.bincount(trained)[np.unique(trained)])) if len(trained) else 0
        return effective_betas(self.objective, max(size, 2), RATES)


def _apart(a: _Applied, b: _Applied, dots: np.ndarray) -> tuple[Estimate, Estimate, int]:
    """1 - cosine, ratio of the norms, and the responses behind them."""
    columns = np.column_stack([a.sums.square, b.sums.square, dots])
    finite = np.isfinite(columns).all(axis=1)
    n = int(finite.sum())
    made = bootstrap(cluster_sums(np.where(finite[:, None], columns, 0.0), a.cluster), _distance_and_scale)
    return estimate(made, n), estimate(made, n, 1), n


@np.errstate(divide="ignore", invalid="ignore")
def _distance_and_scale(totals: np.ndarray) -> np.ndarray:
    aa, bb, ab = (totals[..., at] for at in range(3))
    # Each root by itself: the product of two small sums would vanish.
    cosine = ab / np.sqrt(aa) / np.sqrt(bb)
    return np.stack([np.clip(1.0 - cosine, 0.0, 2.0), np.sqrt(bb) / np.sqrt(aa)], axis=-1)


def _zeroed(a: _Applied, b: _Applied) -> list[Estimate]:
    """Share of loss tokens removed under a, under b, and the difference b - a."""
    columns = np.column_stack([a.sums.zeroed, b.sums.zeroed, a.tokens])
    made = bootstrap(cluster_sums(columns, a.cluster), _shares_removed)
    return [estimate(made, int((a.tokens > 0).sum()), at) for at in range(3)]


@np.errstate(divide="ignore", invalid="ignore")
def _shares_removed(totals: np.ndarray) -> np.ndarray:
    a, b = totals[..., 0] / totals[..., 2], totals[..., 1] / totals[..., 2]
    return np.stack([a, b, b - a], axis=-1)

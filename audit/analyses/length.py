"""Does the objective reward length by accident?"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
import numpy as np

from audit.analyses.outcomes import correctness, first_pass
from audit.errors import AuditError, MissingColumn
from audit.facts.declared import with_budget
from audit.facts.rows import RunRows
from audit.facts.weigh import coefficients_of
from audit.facts.weight_sums import weight_sums
from audit.objectives.catalogue import CATALOGUE, CORE
from audit.objectives.needs import reduced
from audit.objectives.objective import Objective
from audit.stats import FEW_CLUSTERS, Estimate, bootstrap, cluster_sums, estimate, ratio_of_sums


class Pressure(msgspec.Struct, frozen=True):
    """First-order change of mean length that the weights push for, in tokens per unit of mean |weight|."""

    correct: Estimate
    wrong: Estimate
    all: Estimate


class Slope(msgspec.Struct, frozen=True):
    """Slope of log |weight / advantage| per token on log length: -1 for 1/|o|, 0 for a shared divisor."""

    positive: Estimate
    negative: Estimate


class Drift(msgspec.Struct, frozen=True):
    """Observed change of length from the first step to the last, in tokens, within prompt."""

    correct: Estimate
    wrong: Estimate
    all: Estimate


class ObjectivePressure(msgspec.Struct, frozen=True):
    """Length pressure that another objective would have had on the same rollouts."""

    objective: str
    pressure: Pressure | None
    skipped: str = ""


class LengthBias(msgspec.Struct, frozen=True):
    """The contract of ``rlaudit length --json``."""

    run: str
    objective: str
    correct_is: str
    slope: Slope
    pressure: Pressure
    drift: Drift
    per_objective: list[ObjectivePressure]
    verdict: str
    doubts: list[str]
    schema: str = "rlaudit.length.v1"


def length_bias(rows: RunRows, objective: Objective, notes: Sequence[str] = ()) -> LengthBias:
    """Measure how the weights of a run depend on length, and how its lengths moved.

    Parameters
    ----------
    objective : Objective
        Usually the run's own, on the advantages that the trainer used.
    notes : sequence of str
        What was assumed about the objective; repeated among the doubts.

    Raises
    ------
    MissingColumn
        No lengths in tokens.
    """
    if rows.facts is None:
        raise MissingColumn.needed_for(
            "token_ids", "length bias", rows.run.columns, hint="Or length, in tokens."
        )
    doubts = [*notes, *(f"{skip.path.name} was left out: {skip.reason}" for skip in rows.run.skipped)]
    own, doubt = _fit(rows, objective)
    doubts += doubt
    side, how = correctness(rows)
    per_token = _policy_per_token(rows, own)
    lost = int(np.isnan(per_token).sum())
    if lost:
        doubts.append(f"{lost} responses left out: their rewards, advantages or log-probs are not finite")
    pressure = _pressure(rows, per_token, side)
    slope = _slopes(rows, per_token, own)
    drift = _drift(rows, side)
    prompts = len(np.unique(rows.prompt))
    if prompts < FEW_CLUSTERS:
        doubts.append(f"only {prompts} prompts: intervals by prompt are rough")
    return LengthBias(
        run=rows.run.run_id,
        objective=objective.name,
        correct_is=how,
        slope=slope,
        pressure=pressure,
        drift=drift,
        per_objective=[_under(rows, name, side) for name in CORE],
        verdict=_verdict(slope, pressure, drift),
        doubts=doubts,
    )


def _fit(rows: RunRows, objective: Objective) -> tuple[Objective, list[str]]:
    objective, missing = reduced(objective, rows.run.columns)
    # A missing budget is no doubt here: the constant cancels in the slope and in the pressure.
    objective, _ = with_budget(objective, rows)
    return objective, [f"{part} taken out: the log has no {column}" for part, column in missing]


def _policy_per_token(rows: RunRows, objective: Objective) -> np.ndarray:
    """Mean policy weight over the loss tokens of each response, shape (R,); the KL term is left out."""
    assert rows.facts is not None
    made = weight_sums(rows, objective).policy / np.maximum(rows.facts["loss_tokens"], 1)
    return np.where(np.isfinite(made), made, np.nan)


def _under(rows: RunRows, name: str, side: np.ndarray) -> ObjectivePressure:
    try:
        objective, _ = _fit(rows, CATALOGUE[name].objective)
        return ObjectivePressure(name, _pressure(rows, _policy_per_token(rows, objective), side))
    except AuditError as error:
        return ObjectivePressure(name, None, skipped=str(error))


@np.errstate(over="ignore", invalid="ignore")
def _pressure(rows: RunRows, weight: np.ndarray, side: np.ndarray) -> Pressure:
    """Cov(weight, length) within group among correct, wrong, and all responses, over mean |weight|.

    The tabular natural-gradient step changes E[length] by Cov_pi(w, length). Under 1/|o| and binary rewards
    it is A (1 - E[l] E[1/l]) among correct responses, <= 0 by Jensen, and >= 0 among wrong ones.
    """
    scale = np.abs(weight[first_pass(rows)])
    scale = scale[np.isfinite(scale) & (scale > 0)]
    unit = float(scale.mean()) if len(scale) else 1.0

    def among(chosen: np.ndarray) -> Estimate:
        use = chosen & first_pass(rows) & np.isfinite(weight) & np.isfinite(rows.length)
        return _covariance(weight[use] / unit, rows.length[use], rows.sample[use], rows.prompt[use])

    return Pressure(
        correct=among(side == 1.0), wrong=among(side == 0.0), all=among(np.ones(rows.num_rows, dtype=bool))
    )


def _covariance(x: np.ndarray, y: np.ndarray, group: np.ndarray, prompt: np.ndarray) -> Estimate:
    """Pooled unbiased within-group covariance, with an interval by prompt; n counts responses."""
    if not len(x):
        return Estimate(None, None, None, 0)
    _, code = np.unique(group, return_inverse=True)
    size = np.bincount(code)
    shared = size[code] >= 2
    centred_x, centred_y = (v - (np.bincount(code, weights=v) / size)[code] for v in (x, y))
    # Equal weights differ from their mean by rounding, and rounding must not pass for a push.
    centred_x[np.abs(centred_x) < 1e-12 * np.abs(x)] = 0.0
    freedom = np.where(shared, 1.0 - 1.0 / size[code], 0.0)
    _, cluster = np.unique(prompt, return_inverse=True)
    return ratio_of_sums(np.where(shared, centred_x * centred_y, 0.0), freedom, cluster, int(shared.sum()))


def _slopes(rows: RunRows, weight: np.ndarray, objective: Objective) -> Slope:
    advantage = coefficients_of(rows, objective).advantage.numpy()

    def fit(chosen: np.ndarray) -> Estimate:
        use = chosen & (weight != 0) & np.isfinite(weight) & (rows.length > 0)
        y = np.log(np.abs(weight[use] / advantage[use]))
        return _slope(np.log(rows.length[use]), y, rows.prompt[use])

    return Slope(positive=fit(advantage > 0), negative=fit(advantage < 0))


def _slope(x: np.ndarray, y: np.ndarray, cluster: np.ndarray) -> Estimate:
    """Least-squares slope with an interval that resamples clusters; None where x does not vary."""
    if len(x) < 3 or np.ptp(x) == 0:
        return Estimate(None, None, None, len(x))
    x, y = x - x.mean(), y - y.mean()
    _, code = np.unique(cluster, return_inverse=True)
    sums = cluster_sums(np.column_stack([np.ones(len(x)), x, y, x * y, x * x]), code)
    return estimate(bootstrap(sums, _slope_of_sums), len(x))


def _slope_of_sums(totals: np.ndarray) -> np.ndarray:
    n, x, y, xy, xx = (totals[..., i : i + 1] for i in range(5))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray((n * xy - x * y) / (n * xx - x * x))


def _drift(rows: RunRows, side: np.ndarray) -> Drift:
    step = rows.step.astype(float)
    span = max(float(np.ptp(step)), 1.0) if len(step) else 1.0

    def among(chosen: np.ndarray) -> Estimate:
        use = chosen & first_pass(rows) & np.isfinite(rows.length)
        x, y, prompt = step[use] / span, rows.length[use], rows.prompt[use]
        if len(x) < 3:
            return Estimate(None, None, None, len(x))
        _, code = np.unique(prompt, return_inverse=True)
        size = np.bincount(code)
        x, y = (v - (np.bincount(code, weights=v) / size)[code] for v in (x, y))
        return ratio_of_sums(x * y, x * x, code, len(x))

    return Drift(
        correct=among(side == 1.0), wrong=among(side == 0.0), all=among(np.ones(rows.num_rows, dtype=bool))
    )


def _verdict(slope: Slope, pressure: Pressure, drift: Drift) -> str:
    falls = [e.value for e in (slope.positive, slope.negative) if e.value is not None]
    if not falls:
        weighed = slope.positive.n + slope.negative.n
        if not weighed:
            return "No response has a policy weight: nothing pushes on length."
        return f"{weighed} responses have a policy weight, too alike in length to fit a slope."
    steep = float(np.mean(falls))
    if steep < -0.5:
        law = (
            f"Per-token weight falls with length as L^{steep:.2f}: short correct answers are pushed up more, "
        )
        law += "long wrong ones down less."
    elif steep > 0.5:
        law = f"Per-token weight grows with length as L^{steep:.2f}."
    else:
        law = f"Per-token weight does not depend on length (slope {steep:+.2f})."
    push = _clauses(pressure, "pushed", lambda e: f"{e.value:+.2f} tokens per unit of mean |weight|")
    move = _clauses(drift, "moved", lambda e: f"{e.value:+.2f} tokens over the run")
    return " ".join([law, push, move])


def _clauses(by_side: Pressure | Drift, verb: str, show: Callable[[Estimate], str]) -> str:
    parts = []
    for name, e in (("correct", by_side.correct), ("wrong", by_side.wrong)):
        if e.value is None or e.low is None:
            parts.append(f"{name}: not measurable (n = {e.n})")
        elif e.excludes(0.0):
            parts.append(f"{name}: {verb} {show(e)}")
        else:
            parts.append(
                f"{name}: no {verb.replace('pushed', 'push').replace('moved', 'drift')} beyond noise"
            )
    return f"Length, {'; '.join(parts)}."

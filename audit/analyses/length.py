"""Does the objective reward length by accident?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import msgspec
import numpy as np

from audit.analyses.length_catalogue import ObjectivePressure, fitted, per_objective
from audit.analyses.length_doubts import confound_doubts
from audit.analyses.length_drift import Drift, PromptMix, length_drift, prompt_mix
from audit.analyses.length_law import Law, Slope, Weights, is_biased, law_of, weight_slope, weights_of
from audit.analyses.length_pressure import PER_TOKEN, Pressure, has_pressure, length_pressure
from audit.analyses.length_push_drift import PushesAndDrifts, push_and_drift
from audit.analyses.length_remedy import Remedy, find_remedy
from audit.analyses.length_reward import RewardLength, reward_length
from audit.analyses.length_rows import NOTHING, LengthRows, length_rows
from audit.analyses.length_stops import Stops, stops
from audit.analyses.length_trend import Trends, length_trends
from audit.analyses.length_truncation import Truncation, truncation
from audit.analyses.length_verdict import reason_of, verdict
from audit.analyses.skipped import Skipped
from audit.errors import AuditError, MissingColumn
from audit.facts.rows import RunRows
from audit.objectives.catalogue import CATALOGUE
from audit.objectives.objective import Objective
from audit.stats import FEW_CLUSTERS

T = TypeVar("T")
_PUSH = "length pressure, push against drift"
_WEIGHTS = f"weight per token, {_PUSH}"


class LengthBias(msgspec.Struct, frozen=True):
    """The contract of ``rlaudit length --json``."""

    run: str
    objective: str | None
    correct_is: str
    slope: Slope
    pressure: Pressure
    drift: Drift
    per_objective: list[ObjectivePressure]
    verdict: str
    doubts: list[str]
    biased: bool | None
    """Whether the weight of a token depends on the length of its response; null: cannot tell (``reason``)."""
    law: Law
    reason: str
    """Why ``biased`` is what it is."""
    remedy: Remedy | None
    """The change of the objective that takes the length out; null without a bias, and where none is known."""
    trend: Trends
    push_and_drift: PushesAndDrifts | None
    prompt_mix: PromptMix
    truncation: Truncation | None
    reward_length: RewardLength
    stops: Stops | None
    unit: str
    """What lengths are counted in."""
    skipped: list[Skipped]
    schema: str = "rlaudit.length.v1"


def length_bias(
    rows: RunRows,
    objective: Objective | None,
    notes: Sequence[str] = (),
    *,
    others: Sequence[str] = tuple(CATALOGUE),
) -> LengthBias:
    """Measure how the weights of a run depend on length, what that pushes for, and how its lengths moved.

    Whether there is a bias is decided on the weights alone (:mod:`.length_law`): that is what the objective
    does, on any rollouts. What it did here is the pressure; the drift of lengths is no evidence of its own,
    since lengths also move for other reasons.

    Parameters
    ----------
    objective : Objective
        Usually the run's own, on the advantages that the trainer used; None where it declares none.
    notes : sequence of str
        What was assumed about the objective; repeated among the doubts.
    others : sequence of str
        Entries of the catalogue that are measured on the same rollouts for comparison.

    Raises
    ------
    MissingColumn
        The log has no lengths of any kind.
    """
    data = length_rows(rows)
    own, taken_out = (None, []) if objective is None else fitted(data, objective)
    known = [*notes, *(f"{skip.path.name} was left out: {skip.reason}" for skip in rows.run.skipped)]
    known += [*data.doubts, *taken_out]
    skipped: list[Skipped] = []
    weights = None if own is None else _weights(data, own, skipped)
    if own is None:
        skipped.append(Skipped(_WEIGHTS, "an objective in run.json, or --objective NAME"))
    drift = length_drift(data)
    mix = prompt_mix(data)
    slope = compared = remedy = None
    pressure = Pressure(NOTHING, NOTHING, NOTHING)
    law: Law = "unknown"
    if own is not None and weights is not None:
        known += _lost(data, weights)
        slope = weight_slope(data, weights)
        law = law_of(slope.all)
        if has_pressure(data, own):
            pressure = length_pressure(data, weights.per_token)
            compared = push_and_drift(data, weights.per_token, pressure, drift)
        else:
            skipped.append(Skipped(_PUSH, PER_TOKEN))
        remedy = find_remedy(data, own) if is_biased(law) else None
    reward = reward_length(data, None if weights is None else weights.advantage)
    cut, ends = truncation(data), stops(data)
    if cut is None:
        skipped.append(Skipped("truncation, how responses end", "finish_reason"))
    if not data.absolute:
        skipped.append(Skipped("drift by correctness, reward at equal correctness", "correct"))
    prompts = len(np.unique(data.cluster[data.use]))
    if prompts < FEW_CLUSTERS:
        known.append(f"only {prompts} prompt{'s' * (prompts != 1)}: intervals by prompt are rough")
    doubts = confound_doubts(
        slope=slope,
        pressure=pressure,
        compared=compared,
        cut=cut,
        reward=reward,
        mix=mix,
        ends=ends,
        unit=data.unit,
    )
    return LengthBias(
        run=rows.run.run_id,
        objective=None if objective is None else objective.name,
        correct_is=data.correct_is,
        slope=slope or Slope(NOTHING, NOTHING, NOTHING, NOTHING, within=""),
        pressure=pressure,
        drift=drift,
        per_objective=[] if rows.facts is None else per_objective(data, others),
        verdict=verdict(slope, law, pressure, remedy, doubts),
        doubts=[*known, *(doubt.text for doubt in doubts)],
        biased=is_biased(law),
        law=law,
        reason=reason_of(slope, law),
        remedy=remedy,
        trend=length_trends(data),
        push_and_drift=compared,
        prompt_mix=mix,
        truncation=cut,
        reward_length=reward,
        stops=ends,
        unit=data.unit,
        skipped=skipped,
    )


def _weights(data: LengthRows, objective: Objective, skipped: list[Skipped]) -> Weights | None:
    if data.rows.facts is None:
        skipped.append(Skipped(_WEIGHTS, "token_ids, or length in tokens"))
        return None
    return _attempt(_WEIGHTS, lambda: weights_of(data, objective), skipped)


def _attempt(check: str, make: Callable[[], T], skipped: list[Skipped]) -> T | None:
    try:
        return make()
    except MissingColumn as error:
        skipped.append(Skipped(check, error.column or str(error)))
    except AuditError as error:
        skipped.append(Skipped(check, str(error)))
    return None


def _lost(data: LengthRows, weights: Weights) -> list[str]:
    lost = int(np.isnan(weights.per_token[data.use]).sum())
    text = f"{lost} responses left out: their rewards, advantages or log-probs are not finite"
    return [text] if lost else []

"""The law and the length pressure that every objective of the catalogue would have on the same rollouts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import msgspec

from audit.analyses.length_law import (
    Law,
    Weights,
    is_biased,
    law_of,
    pooled_slope,
    weights_from,
    weights_of,
    without_loss_kl,
)
from audit.analyses.length_pressure import PER_TOKEN, Pressure, has_pressure, length_pressure
from audit.analyses.length_rows import LengthRows
from audit.errors import AuditError
from audit.facts.budget import with_budget
from audit.facts.columns import weight_facts
from audit.facts.run_facts import standard_facts
from audit.facts.step_sample import SampleSize, StepSample, step_sample
from audit.facts.token_sums import token_sums
from audit.facts.tokenpass.factors import factors_of
from audit.objectives.catalogue import CATALOGUE
from audit.objectives.coefficients import needs_token_pass, row_coefficients
from audit.objectives.needs import reduced
from audit.objectives.objective import Objective
from audit.stats import Estimate

_FIXED = ("baseline", "shaping")
"""Parts that nothing can stand in for: an objective whose parts lack their column is skipped."""


SAMPLE_TOKENS = 1_000_000
"""Of so many tokens, about, is the sample of a longer run."""


class ObjectivePressure(msgspec.Struct, frozen=True):
    """What another objective would have done on the same rollouts."""

    objective: str
    pressure: Pressure | None
    skipped: str = ""
    """Why there is none: the column that is missing, or what else."""
    slope: Estimate | None = None
    law: Law = "unknown"
    biased: bool | None = None
    reduced: list[str] = []
    """Parts that the log cannot carry, with the missing column; taken out."""
    sample: SampleSize | None = None
    """The steps that were weighed token by token; null: the whole run."""


def fitted(data: LengthRows, objective: Objective) -> tuple[Objective, list[str]]:
    """An objective without what a log cannot carry, with its budget; and what was taken out.

    A budget that is assumed is no doubt here: the constant cancels in the law and in the pressure.
    """
    objective, missing = reduced(without_loss_kl(objective), data.rows.run.columns)
    objective, _ = with_budget(objective, data.rows)
    gone = [(part, column) for part, column in missing if part not in _FIXED]
    return objective, [f"{part} taken out: the log has no {column}" for part, column in gone]


def per_objective(data: LengthRows, names: Sequence[str]) -> list[ObjectivePressure]:
    """Measure entries of the catalogue; one that cannot be measured says why.

    Weights that follow from the facts that are stored of every run are those of the whole run. Others need a
    look at every token, and where the run has more than :data:`SAMPLE_TOKENS`, it is at those of a sample of
    its steps (:mod:`audit.facts.step_sample`): their intervals and n are of the sample.
    """
    fits = {name: fitted(data, CATALOGUE[name].objective) for name in names}
    standard = frozenset(standard_facts(data.rows.run))
    different = {_key(objective): objective for objective, _ in fits.values()}
    told = {key: o for key, o in different.items() if _told(data, o, standard)}
    found = {key: _told_by_facts(data, o) for key, o in told.items()}
    others = {key: o for key, o in different.items() if key not in told}
    found |= dict(zip(others, _by_token(data, list(others.values())), strict=True))
    return [
        msgspec.structs.replace(found[_key(objective)], objective=name, reduced=missing)
        for name, (objective, missing) in fits.items()
    ]


def _key(objective: Objective) -> bytes:
    return msgspec.json.encode(objective.replace(name=""))


def _told(data: LengthRows, objective: Objective, standard: frozenset[str]) -> bool:
    """Whether facts that are stored of every run tell the weights of an objective."""
    factors = factors_of(objective, token_advantages=data.rows.has("token_advantage"))
    return (
        factors is not None and not needs_token_pass(objective) and standard.issuperset(weight_facts(factors))
    )


def _by_token(data: LengthRows, objectives: list[Objective]) -> list[ObjectivePressure]:
    if not objectives:
        return []
    try:
        sample = step_sample(data.rows, data.use, SAMPLE_TOKENS)
    except AuditError as error:
        return [ObjectivePressure(o.name, None, skipped=str(error)) for o in objectives]
    size = None if sample is None else sample.size
    part = data if sample is None else _of_sample(data, sample)
    lacking = {_key(o): why for o in objectives if (why := _lacks(part, o))}
    carried = [o for o in objectives if _key(o) not in lacking]
    found = [_measured(part, o, w) for o, w in zip(carried, _weights(part, carried), strict=True)]
    weighed = {
        _key(o): msgspec.structs.replace(one, sample=size) for o, one in zip(carried, found, strict=True)
    }
    return [
        weighed.get(_key(o)) or ObjectivePressure(o.name, None, skipped=lacking[_key(o)]) for o in objectives
    ]


def _lacks(data: LengthRows, objective: Objective) -> str:
    """Why the log cannot carry an objective; empty where it can."""
    try:
        row_coefficients(data.rows.responses(objective), objective)
    except AuditError as error:
        return str(error)
    return ""


def _of_sample(data: LengthRows, sample: StepSample) -> LengthRows:
    """The rows of a sample, with what the whole run tells of them."""
    of_run = ("length", "use", "correct", "group", "cluster", "step")
    taken = {name: getattr(data, name)[sample.at] for name in of_run}
    taken["use"] = taken["use"] & sample.here
    return replace(data, rows=sample.rows, **taken)


def _weights(data: LengthRows, objectives: list[Objective]) -> list[Weights]:
    """Weigh all of them in one pass over the tokens."""
    facts = data.rows.facts
    assert facts is not None
    made = token_sums(data.rows, objectives)
    return [
        weights_from(facts, sums.policy, coefficients)
        for sums, coefficients in zip(made.sums, made.coefficients, strict=True)
    ]


def _told_by_facts(data: LengthRows, objective: Objective) -> ObjectivePressure:
    try:
        return _measured(data, objective, weights_of(data, objective))
    except AuditError as error:
        return ObjectivePressure(objective.name, None, skipped=str(error))


def _measured(data: LengthRows, objective: Objective, weights: Weights) -> ObjectivePressure:
    slope = pooled_slope(data, weights)
    law = law_of(slope)
    pressure = length_pressure(data, weights.per_token) if has_pressure(data, objective) else None
    skipped = f"length pressure needs {PER_TOKEN}." if pressure is None else ""
    return ObjectivePressure(objective.name, pressure, skipped, slope, law, is_biased(law))

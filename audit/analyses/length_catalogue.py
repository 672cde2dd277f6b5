"""The law and the length pressure that every objective of the catalogue would have on the same rollouts."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from audit.analyses.length_law import Law, is_biased, law_of, pooled_slope, weights_of, without_loss_kl
from audit.analyses.length_pressure import PER_TOKEN, Pressure, has_pressure, length_pressure
from audit.analyses.length_rows import LengthRows
from audit.errors import AuditError
from audit.facts.budget import with_budget
from audit.facts.columns import weight_facts
from audit.facts.tokenpass.factors import factors_of
from audit.objectives.catalogue import CATALOGUE
from audit.objectives.needs import reduced
from audit.objectives.objective import Objective
from audit.stats import Estimate

_FIXED = ("baseline", "shaping")
"""Parts that nothing can stand in for: an objective whose parts lack their column is skipped."""


MOST_TOKENS = 2_000_000
"""An objective that facts do not tell is weighed token by token only in logs of up to so many tokens."""
_BY_TOKEN = "its weights need a pass over every token, each time: rlaudit length RUN --objective"


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


def fitted(data: LengthRows, objective: Objective) -> tuple[Objective, list[str]]:
    """An objective without what a log cannot carry, with its budget; and what was taken out.

    A budget that is assumed is no doubt here: the constant cancels in the law and in the pressure.
    """
    objective, missing = reduced(without_loss_kl(objective), data.rows.run.columns)
    objective, _ = with_budget(objective, data.rows)
    gone = [(part, column) for part, column in missing if part not in _FIXED]
    return objective, [f"{part} taken out: the log has no {column}" for part, column in gone]


def per_objective(data: LengthRows, names: Sequence[str]) -> list[ObjectivePressure]:
    """Measure entries of the catalogue; one that cannot be measured says why."""
    fits = {name: fitted(data, CATALOGUE[name].objective) for name in names}
    _read_at_once(data, [objective for objective, _ in fits.values()])
    found: dict[bytes, ObjectivePressure] = {}
    listed = []
    for name, (objective, missing) in fits.items():
        same = msgspec.json.encode(objective.replace(name=""))
        if same not in found:
            found[same] = _measure(data, objective)
        listed.append(msgspec.structs.replace(found[same], objective=name, reduced=missing))
    return listed


def _read_at_once(data: LengthRows, objectives: list[Objective]) -> None:
    """One pass over the tokens computes what all of them need."""
    facts = data.rows.facts
    assert facts is not None
    made = [factors_of(o, token_advantages=data.rows.has("token_advantage")) for o in objectives]
    facts.read(name for factors in made if factors is not None for name in weight_facts(factors))


def _measure(data: LengthRows, objective: Objective) -> ObjectivePressure:
    facts = data.rows.facts
    by_token = factors_of(objective, token_advantages=data.rows.has("token_advantage")) is None
    if by_token and facts is not None and facts["tokens"].sum() > MOST_TOKENS:
        return ObjectivePressure(objective.name, None, skipped=f"{_BY_TOKEN} {objective.name}")
    try:
        weights = weights_of(data, objective)
        slope = pooled_slope(data, weights)
    except AuditError as error:
        return ObjectivePressure(objective.name, None, skipped=str(error))
    law = law_of(slope)
    pressure = length_pressure(data, weights.per_token) if has_pressure(data, objective) else None
    skipped = f"length pressure needs {PER_TOKEN}." if pressure is None else ""
    return ObjectivePressure(objective.name, pressure, skipped, slope, law, is_biased(law))

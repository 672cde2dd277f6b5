"""Which change of one field takes the length out of the weights, checked on the same rollouts."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from audit.analyses.length_catalogue import fitted
from audit.analyses.length_law import Law, law_of, pooled_slope, weights_of
from audit.analyses.length_pressure import Pressure, has_pressure, length_pressure
from audit.analyses.length_rows import NOTHING, LengthRows
from audit.errors import AuditError
from audit.objectives.objective import Objective
from audit.stats import Estimate

_CONSTANT = "seq-mean-token-sum-norm"


class Remedy(msgspec.Struct, frozen=True):
    """A change, and what the law and the pressure would then have been."""

    set: list[str]
    """As ``--set`` takes them."""
    slope: Estimate
    law: Law
    pressure: Pressure


def find_remedy(data: LengthRows, objective: Objective) -> Remedy | None:
    """The first change after which the weights do not depend on length; None where no such one is known."""
    for changes, changed in _candidates(objective):
        try:
            weights = weights_of(data, fitted(data, changed)[0])
            slope = pooled_slope(data, weights)
        except AuditError:
            continue
        if law_of(slope) == "none":
            pressure = Pressure(NOTHING, NOTHING, NOTHING)
            if has_pressure(data, changed):
                pressure = length_pressure(data, weights.per_token)
            return Remedy(changes, slope, law_of(slope), pressure)
    return None


def _candidates(objective: Objective) -> Iterator[tuple[list[str], Objective]]:
    aggregation, ratio = objective.aggregation, objective.ratio
    constant = msgspec.structs.replace(aggregation, kind=_CONSTANT)
    flat = objective.replace(ratio=msgspec.structs.replace(ratio, level="token"))
    if aggregation.scope == "micro_batch":
        update = msgspec.structs.replace(aggregation, scope="update")
        yield ["aggregation.scope=update"], objective.replace(aggregation=update)
    if aggregation.kind != _CONSTANT:
        yield [f"aggregation.kind={_CONSTANT}"], objective.replace(aggregation=constant)
    if ratio.level != "token":
        yield ["ratio.level=token"], flat
        if aggregation.kind != _CONSTANT:
            both = [f"aggregation.kind={_CONSTANT}", "ratio.level=token"]
            yield both, flat.replace(aggregation=constant)

"""The objective of each run as far as it is known: declared, shown by its loss, or the other run's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from audit.analyses.config_effect import gives_optimiser
from audit.analyses.findings import Unseen
from audit.analyses.loss_agreement import fits_part, meet
from audit.analyses.loss_fit import SHOWN_BY_LOSS, LossFit
from audit.analyses.loss_inference import LossInference
from audit.facts.rows import RunRows
from audit.logs.metrics import Metrics
from audit.objectives.objective import KL, Objective

NEEDS = {
    "filter": "loss_mask, or loss in metrics/",
    "ratio": "loss and clip fractions in metrics/",
    "clip": "clip fractions, or loss, in metrics/",
    "aggregation": "loss in metrics/",
    "kl": "loss in metrics/, with logp_ref",
}
MOVED = 1e-6
"""|log ratio| below which the policy is the old one, nats; float32 rounding."""
OR_DECLARED = "or an objective or config in run.json"


class Side(NamedTuple):
    """What is known of one run."""

    rows: RunRows
    declared: Objective | None
    loss: LossInference
    metrics: Metrics


class KnownPart(NamedTuple):
    """One part of one run: as declared, or whatever its log fits."""

    declared: Any
    options: list[LossFit]


def with_loss_parts(
    objectives: tuple[Objective | None, Objective | None], sides: tuple[Side, Side]
) -> tuple[Objective | None, Objective | None]:
    """Put in what the logged losses show; of several fits that one which makes the runs alike.

    A declared part stands unless the loss contradicts it. What is unknown of one run is taken from the other,
    so that it is not told as a difference.
    """
    a, b = objectives
    if a is None or b is None:
        return objectives
    for part in SHOWN_BY_LOSS:
        known = [known_part(side, part) for side in sides]
        if known[0] is None and known[1] is None:
            continue
        values = _values(part, known[0], known[1])
        a, b = with_part(a, part, values[0]), with_part(b, part, values[1])
    return a, b


def with_part(objective: Objective, part: str, value: Any) -> Objective:
    """Exchange a part; of the KL, what is in the loss: advantages show what is in the reward."""
    if part == "kl":
        value = KL(reward=objective.kl.reward, loss=value.loss)
    return objective.replace(**{part: value})


def known_part(side: Side, part: str) -> KnownPart | None:
    """One part of one run; None where it is neither declared nor shown by the loss."""
    if side.declared is not None and part not in side.loss.contradicted:
        return KnownPart(getattr(side.declared, part), [])
    options = side.loss.options(part)
    return KnownPart(None, options) if options else None


def _values(part: str, one: KnownPart | None, other: KnownPart | None) -> tuple[Any, Any]:
    if one is None or other is None:
        known = one if other is None else other
        assert known is not None
        value = known.options[0].part(part) if known.options else known.declared
        return value, value
    if one.options and other.options:
        for fit in one.options:
            if any(meet(fit, another, part) for another in other.options):
                return fit.part(part), fit.part(part)
        return one.options[0].part(part), other.options[0].part(part)
    return _settled(part, one, other), _settled(part, other, one)


def _settled(part: str, own: KnownPart, other: KnownPart) -> Any:
    """Value of a part where one side at most leaves a choice: the other's declared one, if it fits."""
    if not own.options:
        return own.declared
    if any(fits_part(fit, other.declared) for fit in own.options):
        return other.declared
    return own.options[0].part(part)


def unseen_parts(sides: tuple[Side, Side]) -> list[Unseen]:
    """Parts of the objective, and the optimiser, that a run neither declares nor shows in its log."""
    found = []
    for part, needs in NEEDS.items():
        lacking = [side.rows.run.run_id for side in sides if is_open(side, part)]
        if lacking:
            found.append(Unseen(f"objective.{part}", f"{needs}, {OR_DECLARED}, of {' and '.join(lacking)}"))
        elif choices := [words for side in sides if (words := several(side, part))]:
            more = "more steps, or more digits, of the scalars in metrics/"
            found.append(Unseen(f"objective.{part}", f"{more}: {'; '.join(choices)}"))
    lacking = [side.rows.run.run_id for side in sides if not gives_optimiser(side.rows.run, side.metrics)]
    if lacking:
        needs = f"learning_rate in metrics/, or config in run.json, of {' and '.join(lacking)}"
        found.append(Unseen("optimiser", needs))
    return found


def is_open(side: Side, part: str) -> bool:
    """Whether a part is unknown of a run, and may do something in its log."""
    if part == "filter" and side.rows.has("loss_mask"):
        return False
    if part in ("ratio", "clip") and on_policy(side.rows):
        # Every ratio is 1: whatever they are, they do nothing.
        return False
    return known_part(side, part) is None


def several(side: Side, part: str) -> str:
    """Values of a part that the scalars of a run fit alike; empty where there is one, or none is asked for.

    Scopes of one aggregation are one value here: what tells them apart is how many rows a micro-batch has.
    """
    if side.declared is not None:
        return ""
    fits = {_coarse(fit, part): fit.describe(part) for fit in side.loss.options(part)}
    return f"those of {side.rows.run.run_id} fit {' or '.join(fits.values())}" if len(fits) > 1 else ""


def _coarse(fit: LossFit, part: str) -> str:
    if part == "aggregation":
        return fit.aggregation.replace("seq-mean-token-sum", "sum").replace("token-sum", "sum")
    return fit.describe(part)


def on_policy(rows: RunRows) -> bool:
    """Whether every ratio of a log is 1, so that ratio and clip do nothing on it."""
    if rows.facts is None or not (rows.has("logp_theta") and rows.has("logp_old")):
        return False
    moved = rows.facts["log_ratio_max"]
    return bool(np.isfinite(moved).all()) and float(moved.max(initial=0.0)) < MOVED


def still_open(sides: Sequence[Side]) -> list[str]:
    """Ids of the runs whose loss and declaration leave some part of the objective open."""
    return [side.rows.run.run_id for side in sides if any(is_open(side, part) for part in SHOWN_BY_LOSS[1:])]

"""verl's loss_agg_mode, which changed its meaning three times:

- through 0.7.1 the actor worker (``use_legacy_worker_impl`` auto) averaged over the micro-batch and then over
  micro-batches; the workers of 0.8.0, in 0.7 on request, count tokens and rows of the whole mini-batch.
- rows without loss tokens: counted through 0.6.0, not counted in 0.6.1 to 0.7.1, counted again since 0.8.0.
- ``seq-mean-token-sum-norm`` divided by the width alone through 0.7.0, by rows and width since 0.7.1. The
  width is ``loss_scale_factor``, which the legacy worker does not pass on; by default the padded width: that
  is max_response_length, and in the trainer of 0.9 (``use_v1``) the longest response of the micro-batch.
- ``token-sum`` came with 0.9.0.
- ``sapo`` ignores the mode (row mean); so did ``gspo`` through 0.9.0; ``geo_mean`` is a row mean of the
  micro-batch in every version.
- verl adds 1e-8 to some token counts, which is left out here.

Read: core_algos.py ``agg_loss``, workers/actor/dp_actor.py ``update_policy``, workers/utils/losses.py
``ppo_loss``; versions as in :mod:`~audit.objectives.dialects.verl`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from audit.errors import BadObjective
from audit.objectives.dialects.verl_config import Version
from audit.objectives.objective import Aggregation

_MODES = ("token-mean", "token-sum", "seq-mean-token-sum", "seq-mean-token-mean", "seq-mean-token-sum-norm")
_ROW_MEAN: Literal["seq-mean-token-mean"] = "seq-mean-token-mean"


def legacy_worker(config: Mapping[str, Any], number: Version) -> bool:
    """Whether the actor worker before 0.8.0 runs, which normalises within one micro-batch."""
    return number < (0, 7) or (
        number < (0, 8) and config.get("trainer.use_legacy_worker_impl", "auto") != "disable"
    )


def policy_aggregation(
    mode: str, config: Mapping[str, Any], number: Version, notes: list[str]
) -> Aggregation:
    """Return how the policy loss of ``mode`` is averaged; what was assumed is added to ``notes``.

    Raises
    ------
    BadObjective
    """
    if mode == "geo_mean":
        if number >= (0, 8):
            notes.append(
                "geo_mean is averaged within a micro-batch but summed over micro-batches: all weights are "
                "the number of micro-batches times those given here."
            )
        return Aggregation(kind=_ROW_MEAN, scope="micro_batch")
    forced = mode == "sapo" or (mode == "gspo" and number < (0, 9, 1))
    asked = _asked(config, number)
    if forced and asked != _ROW_MEAN:
        notes.append(
            f"{mode} is averaged by row whatever loss_agg_mode says; a KL in the loss follows the mode."
        )
    return aggregation(_ROW_MEAN if forced else asked, config, number, notes)


def kl_aggregation(config: Mapping[str, Any], number: Version) -> Aggregation:
    """Return how the KL in the loss is averaged.

    Raises
    ------
    BadObjective
    """
    return aggregation(_asked(config, number), config, number, [])


def aggregation(kind: str, config: Mapping[str, Any], number: Version, notes: list[str]) -> Aggregation:
    """Return the aggregation that a mode stands for.

    Raises
    ------
    BadObjective
        The mode does not exist in this version.
    """
    if kind not in _MODES or (kind == "token-sum" and number < (0, 9)):
        raise BadObjective(f"verl {'.'.join(map(str, number))} has no actor.loss_agg_mode {kind!r}.")
    legacy = legacy_worker(config, number)
    scope: Literal["micro_batch", "update"] = "micro_batch" if legacy else "update"
    if legacy and config.get("actor.use_dynamic_bsz"):
        notes.append("use_dynamic_bsz weighs each micro-batch by its rows; here all weigh alike.")
    rows: Literal["all", "nonempty"] = "nonempty" if legacy and number >= (0, 6, 1) else "all"
    if kind == "token-mean":
        return Aggregation(kind="token-mean", scope=scope)
    if kind == "token-sum":
        return Aggregation(kind="token-sum")
    if kind == "seq-mean-token-sum":
        return Aggregation(kind="seq-mean-token-sum", scope=scope, rows=rows)
    if kind == _ROW_MEAN:
        return Aggregation(kind=_ROW_MEAN, scope=scope, rows=rows)
    made = Aggregation(kind="seq-mean-token-sum-norm", scope=scope, rows=rows)
    if number < (0, 7, 1):
        made = Aggregation(kind="token-sum-norm", scope=scope)
    return msgspec.structs.replace(made, constant=_width(config, number, notes, legacy=legacy))


def _asked(config: Mapping[str, Any], number: Version) -> str:
    return "token-mean" if number < (0, 4) else str(config["actor.loss_agg_mode"])


def _width(
    config: Mapping[str, Any], number: Version, notes: list[str], *, legacy: bool
) -> float | Literal["longest"]:
    factor = config.get("actor.loss_scale_factor")
    if factor and not legacy:
        return float(factor)
    if factor:
        notes.append(f"loss_scale_factor={factor} does not reach the loss of this version's actor worker.")
    if number >= (0, 9) and config.get("trainer.use_v1", True):
        notes.append(
            "Without loss_scale_factor the width is that of the micro-batch, and here that of the longest "
            "response of the update."
        )
        return "longest"
    return float(config["data.max_response_length"])

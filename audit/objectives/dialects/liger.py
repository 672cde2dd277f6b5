"""Liger: the arguments of its fused GRPO loss (LigerFusedLinearGRPOLoss) to an objective.

The loss takes advantages as given: the baseline is ``logged``. Where it departs from TRL's own loss:

- ``beta`` is 0.04 by default; the k3 is multiplied by the ratio only with ``use_bias_correction_kl``, which
  is off; ``epsilon_high`` has a default of its own, 0.2, and is an absolute cap for ``cispo``.
- ``dapo``, ``cispo`` and ``vespo`` divide by ``num_items_in_batch`` where the caller passes one, which no
  argument says: here by the tokens of the micro-batch.
- ``luspo`` averages over the padded width as soon as the loss is per token.
- one ratio per response is refused with ``cispo``, ``sapo`` and ``vespo``.
- without old log-probs the ratio is 1.

Read: liger_kernel/chunked_loss/grpo_loss.py, fused_linear_ppo.py of 0.8.5.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from audit.errors import BadObjective, closest
from audit.objectives.dialects.declared import Declared, hints
from audit.objectives.dialects.kinds import check_kinds
from audit.objectives.dialects.tables import version_number
from audit.objectives.dialects.trl_grpo import surrogate
from audit.objectives.objective import KL, Aggregation, Baseline, LossKL, Objective, Ratio

READ = "0.8.5"
DEFAULTS: dict[str, Any] = {
    "beta": 0.04,
    "epsilon_low": 0.2,
    "epsilon_high": 0.2,
    "loss_type": "dapo",
    "max_completion_length": None,
    "importance_sampling_level": "token",
    "sapo_temperature_pos": 1.0,
    "sapo_temperature_neg": 1.05,
    "delta": None,
    "use_bias_correction_kl": False,
    "vespo_k_pos": 2.0,
    "vespo_lambda_pos": 3.0,
    "vespo_k_neg": 3.0,
    "vespo_lambda_neg": 2.0,
}
_UNRELATED = ("compiled", "use_ref_model", "chunk_size", "temperature")
_AGGREGATIONS = {
    "grpo": Aggregation(kind="seq-mean-token-mean", scope="micro_batch"),
    "sapo": Aggregation(kind="seq-mean-token-mean", scope="micro_batch"),
    "bnpo": Aggregation(kind="token-mean", scope="micro_batch"),
    "dapo": Aggregation(kind="token-mean", scope="micro_batch"),
    "cispo": Aggregation(kind="token-mean", scope="micro_batch"),
    "vespo": Aggregation(kind="token-mean", scope="micro_batch"),
    "luspo": Aggregation(kind="seq-mean-token-sum", scope="micro_batch"),
}


def versions() -> tuple[str, str]:
    """Return the oldest and the newest version read."""
    return READ, READ


def objective_from_config(config: Mapping[str, Any], version: str, trainer: str | None = None) -> Declared:
    """Read the arguments of LigerFusedLinearGRPOLoss.

    Parameters
    ----------
    config : Mapping
        Keyword arguments; absent ones take the defaults of 0.8.5.
    version : str
        Liger's version.
    trainer : str, optional
        Not used.

    Raises
    ------
    BadObjective
        A combination that Liger refuses, or that an objective cannot express.
    """
    del trainer
    notes = []
    if version_number(version, "Liger") != version_number(READ):
        notes.append(f"Liger was read at {READ}: its arguments are assumed to hold in {version}.")
    check_kinds("Liger", config, DEFAULTS)
    full = {**DEFAULTS, **config}
    loss, level = full["loss_type"], full["importance_sampling_level"]
    aggregation = _aggregation(full)
    if level == "sequence" and loss in ("cispo", "sapo", "vespo"):
        raise BadObjective(f"Liger refuses loss_type={loss!r} with importance_sampling_level='sequence'.")
    if loss == "luspo" and (level != "sequence" or full["beta"]):
        msg = (
            "Liger's loss_type='luspo' with token-level ratios or a KL is not expressible as an objective "
            "(a sum averaged over the padded width)."
        )
        raise BadObjective(msg)
    if loss in ("dapo", "cispo", "vespo"):
        notes.append(
            "The loss is divided by num_items_in_batch where the trainer passes it; here by the tokens of "
            "the micro-batch."
        )
    gradient: Literal["ratio", "pathwise"] = "ratio" if full["use_bias_correction_kl"] else "pathwise"
    objective = Objective(
        name=f"liger-{loss}" if level == "token" else f"liger-{loss}-{level}",
        baseline=Baseline(kind="logged"),
        ratio=Ratio(denominator="old", level=level),
        clip=surrogate(loss, full, full["epsilon_low"], full["epsilon_high"]),
        aggregation=aggregation,
        kl=KL(loss=LossKL(coefficient=full["beta"], gradient=gradient) if full["beta"] else None),
    )
    unknown = tuple(sorted(key for key in config if key not in DEFAULTS and key not in _UNRELATED))
    return Declared(objective, unknown, (*notes, *hints("Liger", unknown, DEFAULTS)))


def _aggregation(full: Mapping[str, Any]) -> Aggregation:
    loss, budget = full["loss_type"], full["max_completion_length"]
    if loss == "dr_grpo":
        if not budget:
            raise BadObjective("Liger's loss_type='dr_grpo' needs max_completion_length.")
        return Aggregation(kind="seq-mean-token-sum-norm", scope="micro_batch", constant=float(budget))
    if loss not in _AGGREGATIONS:
        raise BadObjective(f"Liger has no loss_type {loss!r}.{closest(str(loss), _AGGREGATIONS)}")
    return _AGGREGATIONS[loss]

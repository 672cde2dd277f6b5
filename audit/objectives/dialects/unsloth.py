"""Unsloth: a GRPOConfig of TRL, with Unsloth's own loss and defaults, to an objective.

Where it departs from the TRL that it patches (which the config must name as ``trl_version``):

- ``loss_type`` is ``dapo`` (before TRL 0.22 ``bnpo``); ``beta`` 0 with ``dapo`` and ``dr_grpo``, else 0.001.
- an explicit ``dapo`` gets ``epsilon_high`` 0.28 and ``mask_truncated_completions``; ``cispo`` gets
  ``epsilon_high`` 5; ``dr_grpo`` loses ``scale_rewards`` (None keeps the division).
- ``vllm_importance_sampling_correction`` is off; ``geometric_*`` modes exist; before 2026.7 sequence modes
  summed ratios instead of multiplying them.
- the log-ratio of the KL is clamped to ±20 and the KL term to 10.
- the normaliser of the generation batch follows accumulation, and ``luspo`` is a row sum, with every TRL.
- UNSLOTH_GRPO_ROLLOUT_LOGPROBS_AS_OLD (here ``rollout_logps_as_old``): the sampler stands in for the old
  policy, ``delta`` is 3 unless set. UNSLOTH_GRPO_ROLLOUT_RS and _THRESHOLD (here ``rollout_rs``,
  ``rollout_rs_threshold``): verl's rejection; rejected tokens stay in the normaliser.

Read: unsloth_zoo/rl_replacements.py and unsloth/models/rl.py, rl_replacements.py of 2026.10.9.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from audit.errors import BadObjective, UnknownName
from audit.objectives.dialects.declared import Declared, hints
from audit.objectives.dialects.tables import version_number
from audit.objectives.dialects.trl_config import check, complete, options, unknown_options
from audit.objectives.dialects.trl_corrections import uses_vllm_correction
from audit.objectives.dialects.trl_grpo import grpo
from audit.objectives.dialects.verl_windows import rejection_window
from audit.objectives.objective import KL, Correction, Objective

READ = "2026.10.9"
_LOSS_OF = (1, 10, 0)
"""TRL's first version whose loss Unsloth's equals, whatever the version installed."""
_OWN = ("trl_version", "rollout_logps_as_old", "rollout_rs", "rollout_rs_threshold")
_LEVELS: dict[str, Literal["token", "product", "sequence"]] = {
    "token": "token",
    "seq_sum": "product",
    "seq_mean": "sequence",
}


def versions() -> tuple[str, str]:
    """Return the oldest and the newest version read."""
    return READ, READ


def objective_from_config(config: Mapping[str, Any], version: str, trainer: str | None = None) -> Declared:
    """Read a GRPOConfig as Unsloth would.

    Parameters
    ----------
    config : Mapping
        Keys of GRPOConfig, and ``trl_version``; what Unsloth takes from its environment is listed above.
    version : str
        Unsloth's version, such as "2026.10.9".
    trainer : str, optional
        "GRPOTrainer" (also "grpo").

    Raises
    ------
    UnknownName
        Another trainer: Unsloth has a loss of its own for GRPO only.
    BadObjective
        ``trl_version`` is missing, or an option that an objective cannot express is in use.
    """
    if trainer is not None and trainer.lower().removesuffix("trainer") != "grpo":
        raise UnknownName.of("Unsloth trainer", trainer, ["GRPOTrainer"])
    number = version_number(version, "Unsloth")
    full = defaults_over(config)
    notes = []
    if number != version_number(READ):
        notes.append(f"Unsloth was read at {READ}: its patches are assumed to hold in {version}.")
    _refuse_summed_ratios(full, number)
    made = grpo(full, max(version_number(str(full["trl_version"])), _LOSS_OF), notes, geometric=True)
    objective = made.replace(name=made.name.replace("trl-", "unsloth-", 1), kl=_clamped(made.kl, notes))
    objective = _corrected(objective, full, notes)
    unknown = tuple(key for key in unknown_options(config, "GRPOConfig") if key not in _OWN)
    known = (*options("GRPOConfig"), *_OWN)
    return Declared(objective, unknown, (*notes, *hints("Unsloth", unknown, known)))


def defaults_over(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``config`` over the defaults that Unsloth gives to its TRL.

    Raises
    ------
    BadObjective
        No or an unusable ``trl_version``.
    """
    trl = config.get("trl_version")
    if not trl:
        raise BadObjective(
            "Unsloth patches the installed TRL, which this config does not name: add trl_version."
        )
    if version_number(str(trl)) < (0, 20):
        raise BadObjective(f"Unsloth needs TRL 0.20.0 or newer, not {trl}.")
    check(config, str(trl), "GRPOConfig", "Unsloth")
    loss = config.get("loss_type") or ("dapo" if version_number(str(trl)) >= (0, 22) else "bnpo")
    own: dict[str, Any] = {
        "gradient_accumulation_steps": 2,
        "vllm_importance_sampling_correction": False,
        "mask_truncated_completions": False,
        "beta": 0.0 if loss in ("dapo", "dr_grpo") else 0.001,
    }
    if loss == "dapo" and config.get("loss_type"):
        own |= {"epsilon_high": 0.28, "mask_truncated_completions": True}
    if loss == "cispo":
        own["epsilon_high"] = 5.0
    full = {**complete({}, str(trl), "GRPOConfig"), **own, **config, "loss_type": loss}
    full["beta"] = own["beta"] if full["beta"] is None else full["beta"]
    if loss == "dr_grpo":
        asked = full["scale_rewards"]
        full["scale_rewards"] = True if asked is None else (asked if asked == "batch" else False)
    return full


def defaults(config: Mapping[str, Any], version: str, trainer: str | None = None) -> dict[str, Any]:
    """Return the defaults of the keys that ``config`` leaves open.

    Raises
    ------
    BadObjective
    """
    del version, trainer
    return {key: value for key, value in defaults_over(config).items() if key not in config}


def _refuse_summed_ratios(full: Mapping[str, Any], number: tuple[int, int, int]) -> None:
    mode = full.get("vllm_importance_sampling_mode", "token_truncate")
    used = full.get("use_vllm") and full.get("vllm_importance_sampling_correction")
    if used and number < (2026, 7) and mode.startswith("sequence"):
        msg = (
            f"Unsloth's vllm_importance_sampling_mode={mode!r} before 2026.7 is not expressible as an "
            "objective (a sum of ratios)."
        )
        raise BadObjective(msg)


def _clamped(kl: KL, notes: list[str]) -> KL:
    if kl.loss is None:
        return kl
    if kl.loss.gradient == "ratio":
        notes.append("The bound of 10 on the KL holds in Unsloth for ratio · k3, here for k3 alone.")
    return KL(loss=msgspec.structs.replace(kl.loss, input_clamp=20.0, output_clamp=10.0))


def _corrected(objective: Objective, full: Mapping[str, Any], notes: list[str]) -> Objective:
    number = max(version_number(str(full["trl_version"])), _LOSS_OF)
    as_old = bool(full.get("rollout_logps_as_old"))
    if full.get("use_vllm") and "rollout_logps_as_old" not in full:
        notes.append(
            "UNSLOTH_GRPO_ROLLOUT_LOGPROBS_AS_OLD is no part of the config: where it was set the ratio is "
            "against the sampler, and delta is 3 unless given (rollout_logps_as_old)."
        )
    ratio, clip = objective.ratio, objective.clip
    found = ratio.corrections
    if as_old:
        found = tuple(each for each in found if each.keep_nonnegative)
        ratio = msgspec.structs.replace(ratio, denominator="sampler", clamp=20.0)
        if clip.kind == "ppo" and full.get("delta") is None:
            clip = msgspec.structs.replace(clip, delta=3.0)
    options = full.get("rollout_rs")
    if options and (as_old or uses_vllm_correction(full, number)):
        found += tuple(
            Correction(
                action="gate",
                level=_LEVELS[level],
                numerator="theta" if as_old else "old",
                low=low,
                high=high,
                weighs_kl=True,
            )
            for level, low, high in rejection_window(options, full.get("rollout_rs_threshold"))
        )
    return objective.replace(ratio=msgspec.structs.replace(ratio, corrections=found), clip=clip)

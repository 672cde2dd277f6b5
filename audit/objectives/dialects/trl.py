"""TRL: the config of a GRPO, RLOO or GMPO trainer to an objective.

Read: trl/trainer/grpo_trainer.py, grpo_config.py, rloo_trainer.py, rloo_config.py and
trl/experimental/gmpo; tagged sources 0.14.0 to 1.9.0 and released packages 1.9.0 to 1.16.0. Where TRL
departs from the papers is said in the file of each trainer, ``trl_grpo``, ``trl_rloo`` and ``trl_gmpo``;
corrections for vLLM are in ``trl_corrections``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from audit.errors import UnknownName
from audit.objectives.dialects.declared import Declared, hints
from audit.objectives.dialects.tables import version_number
from audit.objectives.dialects.trl_config import (
    check,
    complete,
    newest,
    of_other_versions,
    oldest,
    options,
    unknown_options,
)
from audit.objectives.dialects.trl_gmpo import gmpo
from audit.objectives.dialects.trl_grpo import grpo
from audit.objectives.dialects.trl_rloo import rloo
from audit.objectives.objective import Objective

Build = Callable[[Mapping[str, Any], tuple[int, int, int], list[str]], Objective]

NAME = "trl"
TRAINERS = ("GRPOTrainer", "RLOOTrainer", "GMPOTrainer")

_BUILD: dict[str, tuple[str, Build]] = {
    "grpo": ("GRPOConfig", grpo),
    "rloo": ("RLOOConfig", rloo),
    "gmpo": ("GRPOConfig", gmpo),
}
_RLOO_ONLY = ("normalize_advantages", "reward_clip_range")


def objective_from_config(config: Mapping[str, Any], version: str, trainer: str | None = None) -> Declared:
    """Read a recorded GRPOConfig, RLOOConfig or GMPOConfig as that version of TRL would.

    Parameters
    ----------
    config : Mapping
        Keys of the config class; absent keys take the defaults of ``version``.
    version : str
        TRL's version, 0.14.0 or newer (RLOOTrainer: 0.22.0 or newer).
    trainer : str, optional
        "GRPOTrainer", "RLOOTrainer" or "GMPOTrainer" (also "grpo", "rloo", "gmpo"). By default RLOO if a key
        that only RLOOConfig has is present, else GRPO.

    Raises
    ------
    UnknownName
        Another trainer.
    BadObjective
        An option that an objective cannot express is in use, or the version is older than those read.
    """
    notes: list[str] = []
    if trainer is None:
        trainer = inferred_trainer(config)
        notes.append(f"The config does not name its trainer: read as {trainer}'s.")
    name = trainer.lower().removesuffix("trainer")
    if name not in _BUILD:
        raise UnknownName.of("TRL trainer", trainer, TRAINERS)
    config_class, build = _BUILD[name]
    foreign = of_other_versions(config, version, config_class)
    notes += [f"{key} is not an option of TRL {version}: it has no effect." for key in foreign]
    own = {key: value for key, value in config.items() if key not in foreign}
    check(own, version, config_class)
    full = complete(own, version, config_class)
    if name == "gmpo" and "epsilon" not in config:
        full["epsilon"] = 0.4
    number = version_number(version)
    if number[:2] > version_number(newest())[:2]:
        notes.append(
            f"TRL {version} is newer than the last version read ({newest()}): its defaults are assumed."
        )
    if full.get("sync_ref_model"):
        notes.append("The reference is not frozen (sync_ref_model): logp_ref is what each step used.")
    objective = build(full, number, notes)
    unknown = unknown_options(config, config_class)
    return Declared(objective, unknown, (*notes, *hints("TRL", unknown, options(config_class))))


def inferred_trainer(config: Mapping[str, Any]) -> str:
    """Return the trainer whose config this looks like."""
    return "RLOOTrainer" if any(key in config for key in _RLOO_ONLY) else "GRPOTrainer"


def defaults(config: Mapping[str, Any], version: str, trainer: str | None = None) -> dict[str, Any]:
    """Return the defaults that ``version`` gives to the keys that ``config`` leaves open.

    Raises
    ------
    UnknownName, BadObjective
    """
    name = (trainer or inferred_trainer(config)).lower().removesuffix("trainer")
    if name not in _BUILD:
        raise UnknownName.of("TRL trainer", str(trainer), TRAINERS)
    own = complete({}, version, _BUILD[name][0])
    if name == "gmpo":
        own["epsilon"] = 0.4
    return {key: value for key, value in own.items() if key not in config}


def versions() -> tuple[str, str]:
    """Return the oldest and the newest version read."""
    return oldest(), newest()

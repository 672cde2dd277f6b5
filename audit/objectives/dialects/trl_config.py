"""TRL's config classes as data: defaults by version, and which keys are options of the objective."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from audit.objectives.dialects.kinds import check_kinds
from audit.objectives.dialects.tables import defaults_at, table

_TABLE = "trl_defaults"

# Words in the name of an objective option; looked for in keys that no version read has.
_TELLING = re.compile(
    r"(?:^|_)(?:advantages?|aggregation|baseline|beta|bonus|clip|cliprange|delta|entropy|epsilon|filter|"
    r"importance|kl|lambda|loss|mask|masking|normali[sz]e|normali[sz]ation|overlong|penalty|quantile|ratio|"
    r"rewards?|scale|scaling|surrogate)(?:_|$)"
)

# Options of transformers.TrainingArguments that were tabled while TRL gave them another default.
_INHERITED = ("gradient_accumulation_steps", "per_device_train_batch_size")

# Options without a tabled default, or with None, that are on or off.
_SWITCHES = ("use_adaptive_entropy", "use_liger_kernel", "use_liger_loss")

# A switch in old versions, a word in new ones, which take the switch too. The last is a number or bounds.
_MIXED = ("scale_rewards", "reward_clip_range")


def complete(config: Mapping[str, Any], version: str, config_class: str) -> dict[str, Any]:
    """Return ``config`` over the defaults that ``config_class`` had at ``version``.

    Raises
    ------
    BadObjective
        The version is not a version number, or older than those read.
    """
    entries = table(_TABLE)[config_class]
    return {**defaults_at(entries, version, framework="TRL", what=config_class), **config}


def check(config: Mapping[str, Any], version: str, config_class: str, framework: str = "TRL") -> None:
    """Refuse values of another kind than the option takes at ``version``.

    Raises
    ------
    BadObjective
    """
    kinds = dict.fromkeys(_SWITCHES, False) | complete({}, version, config_class)
    check_kinds(framework, config, kinds, mixed=_MIXED)


def of_other_versions(config: Mapping[str, Any], version: str, config_class: str) -> list[str]:
    """Return the keys of ``config`` that set an option which ``config_class`` lacks at ``version``."""
    entries = table(_TABLE)[config_class]
    tabled = {key for entry in entries for key in entry["set"]} - set(_INHERITED)
    own = complete({}, version, config_class)
    return sorted(key for key in config if key in tabled and key not in own)


def unknown_options(config: Mapping[str, Any], config_class: str) -> tuple[str, ...]:
    """Return the keys of ``config`` that look like objective options but are not known, sorted."""
    known = options(config_class) | set(table(_TABLE)["unrelated"]["names"])
    return tuple(sorted(key for key in config if key not in known and _TELLING.search(key)))


def options(config_class: str) -> set[str]:
    """Return the options of the objective that ``config_class`` has or had, and others of its tables."""
    tabled = table(_TABLE)
    return {key for entry in tabled[config_class] for key in entry["set"]} | set(tabled["options"]["names"])


def newest() -> str:
    """Return the newest version whose defaults were read."""
    version: str = table(_TABLE)["newest"]
    return version


def oldest() -> str:
    """Return the oldest version of GRPOConfig whose defaults were read."""
    version: str = table(_TABLE)["GRPOConfig"][0]["version"]
    return version

"""TRL's config classes as data: defaults by version, and which keys are options of the objective."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

import msgspec

from audit.errors import BadObjective

# Words in the name of an objective option; looked for in keys that no version read has.
_TELLING = re.compile(
    r"(?:^|_)(?:advantages?|aggregation|baseline|beta|bonus|clip|cliprange|delta|entropy|epsilon|filter|"
    r"importance|kl|lambda|loss|mask|masking|normali[sz]e|normali[sz]ation|overlong|penalty|quantile|ratio|"
    r"rewards?|scale|scaling|surrogate)(?:_|$)"
)

# Options of transformers.TrainingArguments that were tabled while TRL gave them another default.
_INHERITED = ("gradient_accumulation_steps", "per_device_train_batch_size")


def complete(config: Mapping[str, Any], version: str, config_class: str) -> dict[str, Any]:
    """Return ``config`` over the defaults that ``config_class`` had at ``version``.

    Raises
    ------
    BadObjective
        The version is not a version number, or older than those read.
    """
    asked = version_number(version)
    full: dict[str, Any] = {}
    entries = _defaults()[config_class]
    if asked < version_number(entries[0]["version"]):
        oldest = entries[0]["version"]
        raise BadObjective(f"TRL {version}: {config_class} is known from {oldest} on.")
    for entry in entries:
        if version_number(entry["version"]) > asked:
            break
        full.update(entry["set"])
        for key in entry.get("removed", ()):
            full.pop(key, None)
    return {**full, **config}


def of_other_versions(config: Mapping[str, Any], version: str, config_class: str) -> list[str]:
    """Return the keys of ``config`` that set an option which ``config_class`` lacks at ``version``."""
    entries = _defaults()[config_class]
    tabled = {key for entry in entries for key in entry["set"]} - set(_INHERITED)
    own = complete({}, version, config_class)
    return sorted(key for key in config if key in tabled and key not in own)


def unknown_options(config: Mapping[str, Any], config_class: str) -> tuple[str, ...]:
    """Return the keys of ``config`` that look like objective options but are not known, sorted."""
    table = _defaults()
    known = {key for entry in table[config_class] for key in entry["set"]}
    known.update(table["options"]["names"], table["unrelated"]["names"])
    return tuple(sorted(key for key in config if key not in known and _TELLING.search(key)))


def newest() -> str:
    """Return the newest version whose defaults were read."""
    version: str = _defaults()["newest"]
    return version


def oldest() -> str:
    """Return the oldest version of GRPOConfig whose defaults were read."""
    version: str = _defaults()["GRPOConfig"][0]["version"]
    return version


def version_number(version: str, framework: str = "TRL") -> tuple[int, int, int]:
    """Return (major, minor, micro) of a version such as "1.16.0" or "1.10.0.dev0".

    Raises
    ------
    BadObjective
        It does not start with a number.
    """
    match = re.match(r"v?(\d+)(?:\.(\d+))?(?:\.(\d+))?", version)
    if match is None:
        raise BadObjective(f"{framework} version {version!r} is not a version number.")
    major, minor, micro = (int(part or 0) for part in match.groups())
    return major, minor, micro


@cache
def _defaults() -> dict[str, Any]:
    text = files("audit.objectives.dialects").joinpath("trl_defaults.json").read_bytes()
    table: dict[str, Any] = msgspec.json.decode(text)
    return table

"""Dialects: from a framework's own config and version to an :class:`~audit.objectives.objective.Objective`.

One file per framework. Each reads only the config that the run recorded; keys that the config does not have
take the defaults of the version that ran.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, Protocol

from audit.errors import AuditError, BadObjective, UnknownName
from audit.objectives.dialects import (
    areal,
    liger,
    nemo_rl,
    oat,
    open_instruct,
    openrlhf,
    prime_rl,
    roll,
    skyrl,
    slime,
    tinker,
    trl,
    unsloth,
    verl,
)
from audit.objectives.dialects.blame import deeper_than, named
from audit.objectives.dialects.config import version_read
from audit.objectives.dialects.declared import Declared
from audit.objectives.dialects.tables import is_version
from audit.objectives.objective import from_dict

__all__ = [
    "DIALECTS",
    "Declared",
    "Dialect",
    "defaults",
    "from_framework",
    "refused_defaults",
    "same_framework",
    "versions_read",
]


_DEEPEST = 100
"""Levels of a config; a hostile one may have more than a reader can follow."""


class Dialect(Protocol):
    """Signature of every dialect."""

    def __call__(self, config: Mapping[str, Any], version: str, trainer: str | None = None) -> Declared:
        """Read ``config`` as ``trainer`` of the framework's ``version`` would."""
        ...


DIALECTS: dict[str, Dialect] = {
    "trl": trl.objective_from_config,
    "verl": verl.objective_from_config,
    "unsloth": unsloth.objective_from_config,
    "liger": liger.objective_from_config,
    "openrlhf": openrlhf.objective_from_config,
    "nemo-rl": nemo_rl.objective_from_config,
    "prime-rl": prime_rl.objective_from_config,
    "slime": slime.objective_from_config,
    "miles": slime.objective_from_config,
    "skyrl": skyrl.objective_from_config,
    "areal": areal.objective_from_config,
    "open-instruct": open_instruct.objective_from_config,
    "tinker": tinker.objective_from_config,
    "tinker-cookbook": tinker.objective_from_config,
    "oat": oat.objective_from_config,
    "roll": roll.objective_from_config,
}


def from_framework(
    name: str, version: str, config: Mapping[str, Any], *, trainer: str | None = None
) -> Declared:
    """Return the objective that a framework's config declares.

    Parameters
    ----------
    name, version : str
        As in run.json: ``framework.name``, ``framework.version``.
    config : Mapping
        The framework's own config, verbatim.
    trainer : str, optional
        The trainer class (``framework.trainer`` in run.json), for frameworks with several; by default
        the dialect infers it from the keys of ``config``.

    Raises
    ------
    UnknownName
        No dialect for this framework, or the framework has no such trainer.
    BadObjective
        The config uses an option that an objective cannot express, or a version that was not read.
    """
    if name.lower() not in DIALECTS:
        raise UnknownName.of("framework", name, DIALECTS)

    _check_version(name, version)
    if deeper_than(_DEEPEST, config):
        raise BadObjective(f"config of {name} {version}: nested more than {_DEEPEST} levels deep.")

    def refusal(part: Mapping[str, Any]) -> str | None:
        try:
            _read(name, version, part, trainer)
        except AuditError as error:
            return str(error)
        return None

    try:
        return _read(name, version, config, trainer)
    except BadObjective as error:
        raise BadObjective(named(str(error), config, refusal)) from None


def _read(name: str, version: str, config: Mapping[str, Any], trainer: str | None) -> Declared:
    try:
        declared = DIALECTS[name.lower()](config, version, trainer)
        from_dict(declared.objective.to_dict(), where="config")
    except AuditError:
        raise
    except (TypeError, ValueError, KeyError, AttributeError, ArithmeticError, IndexError) as error:
        msg = f"config of {name} {version}: a value has the wrong type or range ({error})."
        raise BadObjective(msg) from None
    return declared


def versions_read(name: str) -> tuple[str, str]:
    """Return the oldest and the newest version that a framework's dialect was written from.

    Raises
    ------
    UnknownName
    """
    module = _module(name)
    if hasattr(module, "versions"):
        oldest, newest = module.versions()
        return oldest, newest
    version = version_read(module.__name__.rpartition(".")[2])
    return version, version


def defaults(
    name: str, version: str, config: Mapping[str, Any], *, trainer: str | None = None
) -> dict[str, Any]:
    """Return the defaults that a version gives to the keys that ``config`` leaves open, where tabled.

    Raises
    ------
    UnknownName, BadObjective
    """
    module = _module(name)
    _check_version(name, version)
    if not hasattr(module, "defaults"):
        return {}
    found: dict[str, Any] = module.defaults(config, version, trainer)
    return found


def refused_defaults(
    name: str, version: str, config: Mapping[str, Any], *, trainer: str | None = None
) -> dict[str, tuple[Any, Any]]:
    """Return the defaults of a version that no objective expresses and that ``config`` leaves open.

    Returns
    -------
    dict
        Option to (its default, the value that switches it off).

    Raises
    ------
    UnknownName, BadObjective
    """
    tabled: dict[str, Any] = getattr(_module(name), "REFUSED_DEFAULTS", {})
    left_open = defaults(name, version, config, trainer=trainer)
    return {key: (left_open[key], off) for key, off in tabled.items() if left_open.get(key, off) != off}


def same_framework(name: str, other: str) -> bool:
    """Whether two names are of one framework (tinker, tinker-cookbook).

    Raises
    ------
    UnknownName
        ``name`` is no framework; ``other`` may be anything.
    """
    _module(name)
    return name.lower() == other.lower() or DIALECTS[name.lower()] is DIALECTS.get(other.lower())


def _check_version(name: str, version: str) -> None:
    # A dialect that was read at one version assumes it for others, commits too; tables need a number.
    commits = not hasattr(_module(name), "versions")
    if is_version(version, commits=commits):
        return
    oldest, newest = versions_read(name)
    what = "is neither a version number nor a commit" if commits else "is not a version number"
    read = oldest if oldest == newest else f"{oldest} to {newest}"
    raise BadObjective(f"{name} version {version!r} {what}. Read: {read}.")


def _module(name: str) -> Any:
    if name.lower() not in DIALECTS:
        raise UnknownName.of("framework", name, DIALECTS)
    return sys.modules[DIALECTS[name.lower()].__module__]

"""A live trainer's configuration as run.json may hold it: plain, without secrets and places."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from audit.importers.configs import lookup

_SECRET = re.compile(
    r"key|token|secret|password|use_wandb|(api|access|auth|hub|hf|wandb|swanlab)_(key|token)", re.IGNORECASE
)


def plain(config: Any) -> Any:
    """Return nested dicts, lists, numbers and text of a config.

    Values that JSON cannot hold, absolute paths and what may be a secret (``wandb.key``) are left out, each
    on its own.

    Parameters
    ----------
    config : Mapping, argparse.Namespace, OmegaConf node, or any value
    """
    if type(config).__module__.startswith("omegaconf"):
        config = _resolved(config)
    if isinstance(config, Mapping) or hasattr(config, "__dict__"):
        items = config.items() if isinstance(config, Mapping) else vars(config).items()
        parts = {str(name): value for name, value in items}
        made = {
            name: plain(value)
            for name, value in parts.items()
            if not name.startswith("_") and not _SECRET.fullmatch(name)
        }
        return {name: value for name, value in made.items() if value is not ... and not _is_path(value)}
    if isinstance(config, Sequence) and not isinstance(config, str | bytes):
        return [value for value in map(plain, config) if value is not ... and not _is_path(value)]
    return config if _is_json(config) else ...


def declared(
    framework: str,
    version: str | None,
    config: Any,
    *,
    run_id: str,
    options: Mapping[str, str],
    notes: str | None = None,
) -> dict[str, Any]:
    """Return run.json for a trainer's config.

    Parameters
    ----------
    config : Mapping, argparse.Namespace or OmegaConf node
        As the trainer has it.
    options : Mapping
        Field of run.json (``group_size``, ``model``, ``sampling.temperature``, …) → dotted key of the config.
    """
    full = plain(config)
    manifest: dict[str, Any] = {
        "schema": "rlaudit.run.v1",
        "run_id": run_id,
        "framework": {"name": framework, "version": version},
        "config": full,
        **({"notes": notes} if notes else {}),
    }
    for field, key in options.items():
        value = _lookup_place(config, key) if field == "model" else lookup(full, key)
        if value is None:
            continue
        name, _, part = field.partition(".")
        if part:
            manifest.setdefault(name, {})[part] = value
        else:
            manifest[name] = value
    return manifest


def of_object(config: Any, key: str) -> Any:
    """Return the value of a dotted key of nested mappings or namespaces; None where it is not there."""
    for part in key.split("."):
        config = config.get(part) if isinstance(config, Mapping) else getattr(config, part, None)
        if config is None:
            return None
    return config


def _lookup_place(config: Any, key: str) -> str | None:
    # A model is often named by where it lies; run.json takes the name without the place.
    value = of_object(config, key)
    if not isinstance(value, str) or not value:
        return None
    return os.path.basename(os.path.normpath(value)) if os.path.isabs(value) else value


def _resolved(config: Any) -> Any:
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    try:
        return OmegaConf.to_container(config, resolve=True)
    except OmegaConfBaseException:  # an interpolation that only the launcher can resolve
        return OmegaConf.to_container(config, resolve=False)


def _is_path(value: Any) -> bool:
    return isinstance(value, str) and (os.path.isabs(value) or value.startswith(("~", "file://")))


def _is_json(value: Any) -> bool:
    try:
        msgspec.json.encode(value)
    except (TypeError, ValueError, OverflowError):
        return False
    return True

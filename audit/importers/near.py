"""The config that lies beside a log, and the version of the framework, where a file says it for certain.

Looked for in the folder of the log and up to two folders above it, nearest first: ``run.json``, Hydra's
``.hydra/config.yaml``, ``config.yaml|yml|json``, ``args.json``, ``training_args.json``, ``configs/``, and the
files that W&B keeps of a run. TRL's ``training_args.bin`` is a pickle and is never opened: a note says how to
write it as JSON where it was trained.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec

from audit.errors import BadLog, BadManifest
from audit.importers.configs import SUFFIXES, Config, lookup, read_config
from audit.importers.installed import installed_near, matching
from audit.logs.manifest import FILE_NAME, Framework, Manifest, read_manifest
from audit.logs.places import name_of

ABOVE = 2
"""Folders above the log's own that are looked into."""
NAMES = (
    ".hydra/config.yaml",
    "config.yaml",
    "config.yml",
    "config.json",
    "args.json",
    "training_args.json",
    "checkpoint-*/training_args.json",
    "configs/*",
    "wandb/latest-run/files/config.yaml",
    "wandb/run-*/files/config.yaml",
)
PICKLED = ("training_args.bin", "checkpoint-*/training_args.bin")
TO_JSON = (
    'where it was trained, run: python -c "import torch, pathlib; '
    "a = torch.load('training_args.bin', weights_only=False); "
    "pathlib.Path('training_args.json').write_text(a.to_json_string())\""
)
_PLAIN = re.compile(
    r"(?:completions|dumps?|exp_\d+|logs?|rollouts?|rollout_data|train|val|validation|validation_data)", re.I
)
"""Names that a folder has in every run."""


class _Found(NamedTuple):
    config: Config | None
    version: str | None
    notes: list[str]


def having(*keys: str) -> Callable[[Config], bool]:
    """Return a test whether a config holds one of some dotted keys: what makes it this framework's own."""
    return lambda config: any(lookup(config, key) is not None for key in keys)


def manifest_near(
    path: Path,
    framework: str,
    fits: Callable[[Config], bool],
    *,
    options: Mapping[str, str] | None = None,
    trainer: str | None = None,
    length_unit: Literal["tokens", "characters"] = "tokens",
    more: Sequence[str] = (),
    packages: Sequence[str] = (),
    also: Collection[str] = (),
    above: int = ABOVE,
    run_id: str | None = None,
) -> Manifest:
    """Return what is known of the run of a log; what no file says stays absent.

    Parameters
    ----------
    path : Path
        The log: a folder or a file.
    framework : str
        As in run.json, and as the dialects name it.
    fits : callable
        Whether a config is of this framework's trainer; see :func:`having`.
    options : Mapping, optional
        Field of run.json (``group_size``, ``model``, ``seed``, ``sampling.temperature``, …) → dotted key of
        the config.
    more : sequence of str
        Further patterns to look for, before :data:`NAMES`.
    packages : sequence of str
        Distributions that carry the framework's version; default: its name.
    also : collection of str
        Other frameworks that write the same log, and that a run.json may name.
    above : int
        Folders above the log's own that are looked into.

    Raises
    ------
    BadManifest
        There is a run.json in the log's folder that cannot be read.
    """
    folder = path if path.is_dir() else path.parent
    places = [folder, *list(folder.absolute().parents)[:above]]
    stated: list[str] = []
    names = {framework, *also}
    written = _written(places, names, stated)
    if written is not None and (written.config is not None or written.objective is not None):
        return written
    found = _search(places, fits, more, packages or (framework,), framework)
    if written is not None:
        own = written.framework or Framework(name=framework, trainer=trainer)
        if own.name.lower() not in names:
            return written
        return _with_options(_completed(written, own, found), options or {})
    manifest = Manifest(
        run_id=run_id or _run_id(path),
        framework=Framework(name=framework, version=found.version, trainer=trainer),
        config=found.config,
        length_unit=length_unit,
        notes="; ".join([*stated, *found.notes]) or None,
        declared=False,
    )
    return _with_options(manifest, options or {})


def _written(places: Sequence[Path], names: Collection[str], notes: list[str]) -> Manifest | None:
    """The nearest run.json; above the log's own folder only one that can be read and is of this framework."""
    for place in places:
        if not (place / FILE_NAME).is_file():
            continue
        try:
            found = read_manifest(place)
        except BadManifest as error:
            if place == places[0]:
                raise
            notes.append(str(error))
            continue
        if place == places[0] or found.framework is None or found.framework.name.lower() in names:
            return found
    return None


def _completed(written: Manifest, own: Framework, found: _Found) -> Manifest:
    """A run.json without config and objective, with the config beside the log."""
    made = msgspec.structs.replace(own, version=own.version or found.version)
    return msgspec.structs.replace(written, framework=made, config=found.config)


def _search(
    places: Sequence[Path],
    fits: Callable[[Config], bool],
    more: Sequence[str],
    packages: Sequence[str],
    name: str,
) -> _Found:
    notes: list[str] = []
    config = None
    for place in places:
        for pattern in (*more, *NAMES):
            config = _chosen(place, pattern, fits, notes)
            if config is not None:
                break
        if config is not None:
            break
        pickled = next((file for pattern in PICKLED for file in matching(place, pattern)), None)
        if pickled is not None:
            notes.append(f"{pickled} is a pickle and is not opened; {TO_JSON}")
            break
    version = _stated(config, name) or installed_near(places, packages)
    return _Found(config, version, notes)


def _chosen(place: Path, pattern: str, fits: Callable[[Config], bool], notes: list[str]) -> Config | None:
    """The config that a pattern names at a place; several make one only in ``configs/``, by file name."""
    held: dict[Path, Config] = {}
    for file in matching(place, pattern):
        if file.suffix.lower() not in SUFFIXES:
            continue
        try:
            config = read_config(file)
        except BadLog as error:
            notes.append(str(error))
            continue
        if pattern.startswith("configs/") or fits(config):
            held[file] = config
    if len(held) > 1 and pattern.startswith("configs/"):
        config = {file.stem: each for file, each in held.items()}
        return config if fits(config) or any(map(fits, held.values())) else None
    distinct = [each for i, each in enumerate(held.values()) if each not in list(held.values())[:i]]
    if len(distinct) > 1:
        listed = ", ".join(str(file.relative_to(place)) for file in list(held)[:3])
        notes.append(
            f"{place}: {len(distinct)} configs differ ({listed}): none is used, run.json would say it"
        )
        return None
    return distinct[0] if distinct and fits(distinct[0]) else None


def _stated(config: Config | None, name: str) -> str | None:
    """The version that a config states as ``<framework>_version``."""
    stated = None if config is None else config.get(f"{name.replace('-', '_')}_version")
    return stated if isinstance(stated, str) else None


def _with_options(manifest: Manifest, options: Mapping[str, str]) -> Manifest:
    """Take absent fields out of the config; a value of another kind than the field stays out."""
    for name, key in options.items():
        value = None if manifest.config is None else lookup(manifest.config, key)
        if value is None or (isinstance(value, str) and value.startswith("${")):
            continue
        field, _, part = name.partition(".")
        held = getattr(manifest, field)
        if held is not None and not (part and isinstance(held, dict) and part not in held):
            continue
        content: Any = {**(held or {}), part: value} if part else value
        made = {**msgspec.to_builtins(manifest), field: content}
        try:
            manifest = msgspec.convert(made, Manifest)
        except msgspec.ValidationError:
            continue
    return manifest


def _run_id(path: Path) -> str:
    """Name of the log; names that every run's log has come with the folders above, up to one that tells."""
    folder = path if path.is_dir() else path.parent
    names: list[str] = []
    for place in (folder.absolute(), *list(folder.absolute().parents)[:ABOVE]):
        if name := name_of(place):
            names.insert(0, name)
        if not _PLAIN.fullmatch(name):
            break
    return "-".join(names) or "run"

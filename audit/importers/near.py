"""The config that lies beside a log, and the version of the framework, where a file says it for certain.

Looked for in the folder of the log and up to two folders above it, nearest first: ``run.json``, Hydra's
``.hydra/config.yaml``, ``config.yaml|yml|json``, ``args.json``, ``training_args.json``, ``configs/``, and the
files that W&B keeps of a run. TRL's ``training_args.bin`` is a pickle and is never opened: a note says how to
write it as JSON where it was trained.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec

from audit.errors import BadLog
from audit.importers.configs import SUFFIXES, Config, lookup, read_config
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
FREEZES = (
    "wandb/latest-run/files/requirements.txt",
    "wandb/run-*/files/requirements.txt",
    "files/requirements.txt",
    "pip_freeze.txt",
    "pip-freeze.txt",
    "README.md",
)
"""Files that list what was installed when the run ran: of a README only a model card's. A requirements.txt
beside no W&B run lists what was wanted."""
_CARD = "Framework versions"
_INSTALLED = re.compile(r"^(?:- )?([\w.-]+)\s*(?:==|: )\s*([0-9][\w.+!-]*)\s*$", re.MULTILINE)
PICKLED = ("training_args.bin", "checkpoint-*/training_args.bin")
TO_JSON = (
    'where it was trained, run: python -c "import torch, pathlib; '
    "a = torch.load('training_args.bin', weights_only=False); "
    "pathlib.Path('training_args.json').write_text(a.to_json_string())\""
)
_LONGEST = 2**20
"""Characters of such a list."""
_MOST = 64
"""Files that one pattern may name; more are not looked at."""
_PLAIN_NAMES = {"completions", "dump", "rollout", "rollout_data", "rollouts", "train", "val", "validation"}


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

    Raises
    ------
    BadManifest
        There is a run.json that cannot be read.
    """
    folder = path if path.is_dir() else path.parent
    places = [folder, *list(folder.absolute().parents)[:ABOVE]]
    written = next((read_manifest(place) for place in places if (place / FILE_NAME).is_file()), None)
    if written is not None and (written.config is not None or written.objective is not None):
        return written
    found = _search(places, fits, more, packages or (framework,), framework)
    if written is not None:
        return _completed(written, framework, trainer, found)
    manifest = Manifest(
        run_id=run_id or _run_id(path),
        framework=Framework(name=framework, version=found.version, trainer=trainer),
        config=found.config,
        length_unit=length_unit,
        notes="; ".join(found.notes) or None,
        declared=False,
    )
    return _with_options(manifest, options or {})


def _completed(written: Manifest, framework: str, trainer: str | None, found: _Found) -> Manifest:
    """A run.json without config and objective, with the config beside the log."""
    own = written.framework or Framework(name=framework, trainer=trainer)
    if own.name.lower() != framework:
        return written
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
        pickled = next((file for pattern in PICKLED for file in _matching(place, pattern)), None)
        if pickled is not None:
            notes.append(f"{pickled} is a pickle and is not opened; {TO_JSON}")
            break
    version = _version_of(config, name) or next(
        (version for place in places if (version := _frozen(place, packages))), None
    )
    return _Found(config, version, notes)


def _chosen(place: Path, pattern: str, fits: Callable[[Config], bool], notes: list[str]) -> Config | None:
    """The config that a pattern names at a place; several make one only in ``configs/``, by file name."""
    held: dict[Path, Config] = {}
    for file in _matching(place, pattern):
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


def _matching(place: Path, pattern: str) -> Iterator[Path]:
    try:
        found = [place / pattern] if "*" not in pattern else sorted(place.glob(pattern))[:_MOST]
        yield from (file for file in found if file.is_file())
    except OSError:
        return


def _version_of(config: Config | None, name: str) -> str | None:
    """The version that a config states as ``<framework>_version``."""
    stated = None if config is None else config.get(f"{name.replace('-', '_')}_version")
    return stated if isinstance(stated, str) else None


def _frozen(place: Path, packages: Sequence[str]) -> str | None:
    """The version in a list of installed packages; None where lists disagree."""
    wanted = {_plain(package) for package in packages}
    versions: set[str] = set()
    for pattern in FREEZES:
        for file in _matching(place, pattern):
            try:
                with file.open(encoding="utf-8", errors="replace") as opened:
                    text = opened.read(_LONGEST)
            except OSError:
                continue
            if file.suffix == ".md" and _CARD not in text:
                continue
            versions |= {
                version for package, version in _INSTALLED.findall(text) if _plain(package) in wanted
            }
    return versions.pop() if len(versions) == 1 else None


def _plain(package: str) -> str:
    return re.sub(r"[-_.]+", "-", package.strip()).lower()


def _with_options(manifest: Manifest, options: Mapping[str, str]) -> Manifest:
    """Take fields out of the config; a value of another kind than the field stays out."""
    for name, key in options.items():
        value = None if manifest.config is None else lookup(manifest.config, key)
        if value is None or (isinstance(value, str) and value.startswith("${")):
            continue
        field, _, part = name.partition(".")
        content: Any = {**(getattr(manifest, field) or {}), part: value} if part else value
        made = {**msgspec.to_builtins(manifest), field: content}
        try:
            manifest = msgspec.convert(made, Manifest)
        except msgspec.ValidationError:
            continue
    return manifest


def _run_id(path: Path) -> str:
    """Name of the log; a name that every run's log has comes with the folder above it."""
    name = name_of(path if path.is_dir() else path.parent) or "run"
    if name.lower() in _PLAIN_NAMES:
        above = path.absolute() if path.is_dir() else path.absolute().parent
        return f"{above.parent.name}-{name}" if above.parent.name else name
    return name

"""``run.json``: what a run says about itself."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from audit.errors import BadManifest, closest
from audit.logs.files import sync
from audit.logs.places import is_link, is_remote, name_of

SCHEMA = "rlaudit.run.v1"
FILE_NAME = "run.json"


class Framework(msgspec.Struct, frozen=True, kw_only=True):
    """The trainer that produced the run; with :attr:`Manifest.config` it gives the objective."""

    name: str
    version: str | None = None
    trainer: str | None = None
    """Trainer class or entry point, where a framework has several (``GRPOTrainer``, ``RLOOTrainer``)."""


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """Contents of a run.json. Every field but ``run_id`` may be absent; nothing is filled in by guessing."""

    run_id: str
    schema: Literal["rlaudit.run.v1"] | None = None
    framework: Framework | None = None
    model: str | dict[str, Any] | None = None
    reference: str | dict[str, Any] | None = None
    objective: str | dict[str, Any] | None = None
    """Catalogue name, or fields of an objective (with ``name``: on top of that catalogue entry)."""
    config: dict[str, Any] | None = None
    """The framework's own configuration, verbatim."""
    group_size: Annotated[int, msgspec.Meta(ge=1)] | None = None
    sampling: dict[str, Any] | None = None
    """``temperature``, ``top_p``, ``top_k``, ``min_p``, ``max_tokens`` (the generation budget), …"""
    seed: int | None = None
    data: str | dict[str, Any] | None = None
    length_unit: Literal["tokens", "characters", "words", "bytes"] = "tokens"
    """Unit of the columns ``length`` and ``prompt_length``."""
    notes: str | None = None
    declared: bool = True
    """False where the log has no run.json and only ``run_id`` (the directory name) is known."""
    unknown: tuple[str, ...] = ()
    """Top-level keys of the file that this version does not know: kept out, and reported."""


_FIELDS = tuple(name for name in Manifest.__struct_fields__ if name not in {"declared", "unknown"})


def read_manifest(directory: Path, *, run_id: str | None = None) -> Manifest:
    """Read ``directory/run.json``; without that file the manifest holds only a run id.

    Parameters
    ----------
    directory : Path
        The run directory.
    run_id : str, optional
        Used where the file is absent or gives none; default: the name of the directory.

    Raises
    ------
    BadManifest
        The file is not readable JSON, or a field has the wrong type or value.
    """
    path = directory / FILE_NAME
    fallback = run_id or name_of(directory) or "run"
    try:
        # Looked at before it is opened: opening a pipe would wait for its writer.
        if not is_remote(path) and not stat.S_ISREG(path.stat().st_mode):
            msg = f"{path}: is not a regular file."
            raise BadManifest(msg)
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        if is_link(path):
            msg = f"{path}: is a link to a file that does not exist."
            raise BadManifest(msg) from None
        return Manifest(run_id=fallback, declared=False)
    except (OSError, UnicodeDecodeError) as error:
        msg = f"{path}: cannot be read: {error}."
        raise BadManifest(msg) from None
    try:
        # Not msgspec's decoder: configs come with NaN and Infinity, which strict JSON refuses.
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        state = "is empty (still being written?)" if not text.strip() else f"is not JSON: {error}"
        msg = f"{path}: {state}."
        raise BadManifest(msg) from None
    if not isinstance(content, dict):
        msg = f"{path}: expected a JSON object, found {type(content).__name__}."
        raise BadManifest(msg)
    return manifest_from_dict({"run_id": fallback, **content}, where=str(path))


def manifest_from_dict(content: dict[str, Any], *, where: str = FILE_NAME) -> Manifest:
    """Build a manifest from plain dicts, as they stand in a run.json.

    Raises
    ------
    BadManifest
        A field has the wrong type or value, or the schema is another one; names the field.
    """
    schema = content.get("schema")
    if schema is not None and schema != SCHEMA:
        raise BadManifest(f"{where}: schema is {schema!r}; this version reads {SCHEMA!r}.")
    unknown = tuple(sorted(set(content) - set(_FIELDS)))
    try:
        return msgspec.convert(
            {**{key: value for key, value in content.items() if key in _FIELDS}, "unknown": unknown}, Manifest
        )
    except msgspec.ValidationError as error:
        msg = f"{where}: {error}."
        raise BadManifest(msg) from None


def manifest_to_dict(manifest: Manifest) -> dict[str, Any]:
    """Return what run.json holds for ``manifest``: plain dicts, absent fields left out."""
    built = msgspec.to_builtins(manifest)
    kept = {key: built[key] for key in _FIELDS if built[key] is not None}
    if manifest.framework is not None:
        kept["framework"] = {key: value for key, value in kept["framework"].items() if value is not None}
    return {"schema": SCHEMA, **{key: value for key, value in kept.items() if key != "schema"}}


def write_manifest(run_dir: Path, manifest: dict[str, Any] | Manifest) -> None:
    """Write ``run_dir/run.json`` in one step; an equal one may already be there.

    Raises
    ------
    BadManifest
        The manifest is not valid, or another run.json is already there.
    """
    content = manifest_to_dict(manifest) if isinstance(manifest, Manifest) else dict(manifest)
    content = {"schema": SCHEMA, "run_id": run_dir.resolve().name, **content}
    manifest_from_dict(content, where="manifest")
    path = run_dir / FILE_NAME
    if path.exists():
        _refuse_other(path, content)
        return
    temporary = run_dir / f".{FILE_NAME}.{os.getpid()}-{id(content):x}.tmp"
    try:
        temporary.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    except TypeError as error:
        temporary.unlink(missing_ok=True)
        msg = f"manifest: cannot be written as JSON: {error}."
        raise BadManifest(msg) from None
    sync(temporary)
    os.replace(temporary, path)
    sync(run_dir)


def _refuse_other(path: Path, content: dict[str, Any]) -> None:
    try:
        there = json.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError):
        there = {}
    # As text, since NaN in a config is not equal to itself.
    old, new = (
        {key: json.dumps(value, sort_keys=True) for key, value in c.items()} for c in (there, content)
    )
    differing = sorted(key for key in {*old, *new} if old.get(key) != new.get(key))
    if differing:
        raise BadManifest(
            f"{path}: another run.json is already there; it differs in {', '.join(differing)}. Take a new "
            f"directory for another run, or manifest=None to go on with this one."
        )


def unknown_key_hint(key: str) -> str:
    """Return `` Did you mean 'x'?`` for an unknown top-level key, or an empty string."""
    return closest(key, _FIELDS)

"""What a ``rlaudit.toml`` says of a path: the same for a file, its folder and the folder above."""

from __future__ import annotations

from pathlib import Path

from audit.importers.generic.columns import is_named, lacking, plan_of
from audit.importers.generic.folders import files_in
from audit.importers.generic.heads import head_of
from audit.importers.generic.unmapped import looks_like_rollouts
from audit.importers.interface import Importer
from audit.importers.mapping import Mapping, mapping_file, read_mapping
from audit.importers.opening import GENERIC, named
from audit.schema import REQUIRED


def mapping_of(path: Path, importers: tuple[Importer, ...]) -> Mapping:
    """Return the mapping of a log; one that says nothing where none lies near, or it is of other logs.

    A mapping above a folder of logs is not of the folder itself, and one beside a log's folder not of every
    table in the other folders.

    Raises
    ------
    BadLog
        It cannot be read.
    UnknownName
        It names a format or a column of the schema that does not exist.
    """
    file = mapping_file(path)
    if file is None:
        return Mapping()
    mapping = read_mapping(file)
    mapping.options()
    importer = None if mapping.format is None else named(mapping.format, importers)
    return mapping if _is_meant(mapping, importer, file, path) else Mapping()


def _is_meant(mapping: Mapping, importer: Importer | None, file: Path, path: Path) -> bool:
    columns, generic = mapping.columns, importer is None or importer.name == GENERIC
    if importer is None and not columns:
        return True
    if importer is not None and not generic and importer.detect(path) is not None:
        return True
    folder = path.is_dir()
    files = files_in(path) if folder else [path]
    if not files or file.parent == (path if folder else path.parent):
        return bool(files)
    head = head_of(files[0])
    names_some = any(is_named(source, head) for source in columns.values())
    is_plain = not columns and not lacking(plan_of(head, {}))
    # A log of the schema needs no mapping, so one that names none of its columns is of the logs beside it.
    is_odd = looks_like_rollouts(head) and not head.keys() >= set(REQUIRED)
    return generic and (names_some or is_plain or is_odd)

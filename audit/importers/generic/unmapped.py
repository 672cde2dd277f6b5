"""Logs whose columns nobody has named yet: known for logs by their words, and how to say which is which."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable
from pathlib import Path

from audit.errors import AuditError, MissingColumn
from audit.importers.generic.columns import lacking, missing, normal, plan_of
from audit.importers.generic.files import kind_of
from audit.importers.generic.folders import files_in
from audit.importers.generic.heads import Head, Kind, head_of
from audit.importers.mapping import FILE_NAME
from audit.logs.files import ROLLOUTS
from audit.schema import REQUIRED

LOOKED_AT = 4
"""Files of a folder whose columns are looked at."""
LISTED = 20
"""Names of columns that a message shows."""
LONGEST = 60
"""Characters of a name that a message shows; one that is longer, or cannot be printed, is not suggested."""
_LISTED_KINDS = (".parquet", ".jsonl", ".ndjson")
_OURS = {"prompt_id", "group_id", "sample_index"}
_REWARD = "reward rewards score scores grade grades"
_WORDS: dict[str, tuple[str, tuple[Kind, ...]]] = {
    "reward": (_REWARD, ("number", "text")),
    "prompt": ("prompt prompts question questions problem query instruction task", ("text", "other")),
    "step": ("step steps it iter iteration iterations update updates", ("number", "text")),
}
"""Column that has to be said → words of the name and kinds of a column that may be meant."""
_SCORED: tuple[str, tuple[Kind, ...]] = (f"{_REWARD} adv advantage advantages", ("number", "numbers"))
_ANSWERED: tuple[str, tuple[Kind, ...]] = (
    "answer answers completion completions response responses output outputs generation rollout",
    ("text",),
)
_TOKENS: tuple[str, tuple[Kind, ...]] = ("tok toks token tokens ids", ("numbers",))

_IDS = {"id", "uid", "key", "hash"}


def looks_like_rollouts(head: Head) -> bool:
    """Tell whether columns hold scored answers; numbers alone are metrics, texts alone a data set."""
    return bool(_with(head, *_SCORED) and (_with(head, *_ANSWERED) or _with(head, *_TOKENS)))


def explain_unmapped(path: Path, error: AuditError | None, listing: bool) -> MissingColumn | None:
    """Say why a path is no log yet: which columns it lacks, which it has, and how to say which is which.

    Parameters
    ----------
    path : Path
        A file or folder that no format takes.
    error : AuditError or None
        What reading it as a log of the rollout schema gave.
    listing : bool
        Runs of a directory are being listed: None unless a file looks like rollouts.

    Returns
    -------
    MissingColumn or None
        None where it has what is needed, or is something else.
    """
    folder = path.is_dir()
    files = files_in(path)[:LOOKED_AT] if folder and not (path / ROLLOUTS).is_dir() else []
    if not folder and kind_of(path) is not None:
        files = [path]
    if listing:
        files = [file for file in files if kind_of(file) in _LISTED_KINDS]
    heads = {file: head for file in files if (head := head_of(file))}
    file = next((f for f, head in heads.items() if looks_like_rollouts(head)), None)
    if file is None and not listing:
        file = next(iter(heads), None)
    if file is None:
        return None
    head = heads[file]
    # Where files differ the folder is no log as a whole: the one that looks like one is named.
    where = path if all(other.keys() == head.keys() for other in heads.values()) else file
    ours = kind_of(file) == ".parquet" and len(_OURS & head.keys()) > 1
    parquet = kind_of(file) == ".parquet"
    # A file that is damaged or has odd types lacks no column.
    if (ours or (parquet and not listing)) and not isinstance(error, MissingColumn):
        return None
    lacks = [name for name in REQUIRED if name not in head] if ours else lacking(plan_of(head, {}))
    if not lacks:
        return None
    said = str(error) if ours else f"{where}: {unnamed(head)}"
    told = MissingColumn(f"{said} {how_to_say(where, head, lacks)}")
    told.column = lacks[0]
    return told


def unnamed(head: Head) -> str:
    """Say what the columns of a file lack, with the names that would be taken."""
    return f"has no column for {' and none for '.join(missing(plan_of(head, {})))}."


def how_to_say(path: Path, head: Head, lacks: Iterable[str]) -> str:
    """List the columns that were found, and both ways to say what they mean."""
    sources = plan_of(head, {}).sources
    pairs = {name: (_with(head, *_WORDS[name]) if name in _WORDS else "") or "NAME" for name in lacks}
    if "step" not in sources and "step" not in pairs and (step := _with(head, *_WORDS["step"])):
        pairs["step"] = step
    shown = [name if len(name) <= LONGEST else f"{name[:LONGEST]}…" for name in list(head)[:LISTED]]
    names = ", ".join(shown) + (f" and {len(head) - LISTED} more" if len(head) > LISTED else "")
    flags = " ".join(f"--column {shlex.quote(f'{name}={source}')}" for name, source in pairs.items())
    lines = " and ".join(
        f"'{name} = {json.dumps(source, ensure_ascii=False)}'" for name, source in pairs.items()
    )
    beside = (path if path.is_dir() else path.parent) / FILE_NAME
    command = f"rlaudit import {shlex.quote(str(path))} DEST {flags}"
    return (
        f"It has {names}. Say which is which, as in: {command}; or, "
        f"for every command, write {beside} with the lines '[columns]' and {lines}."
    )


def _with(head: Head, words: str, kinds: tuple[Kind, ...]) -> str:
    """The first column of one of some kinds whose name has one of some words; empty where none has."""
    wanted = set(words.split())
    for name, kind in head.items():
        if len(name) > LONGEST or not name.isprintable():
            continue
        held = set(normal(name).split("_"))
        # A text that is an id is none of what was said.
        if kind in kinds and wanted & held and not (kind == "text" and _IDS & held):
            return name
    return ""

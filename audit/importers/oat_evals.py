"""oat: ``{save_path}/eval_results/{N}.json``, an array of the samples of one evaluation.

Read: oat 0.2.4, oat/learners/base.py ``evaluate``. Prompts stand under the data set's own name, and under
``format_`` with that name as the model had them.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from audit.errors import BadLog
from audit.importers.generic.files import records_of
from audit.importers.interface import Book, Detection, Importer, Row, Source, Unit
from audit.importers.near import manifest_near
from audit.importers.oat import OPTIONS, fits
from audit.importers.store import in_numeric_order
from audit.importers.values import OddValue, number
from audit.logs.manifest import Manifest

_NAME = re.compile(r"(\d+)\.json")
_FORMAT = "format_"


def detect(path: Path) -> Detection | None:
    """Take ``eval_results``, the save path that holds it, or one of its files."""
    for file in _files(path)[:3]:
        try:
            record = next(islice(records_of(file, Book()), 1), None)
        except (BadLog, OSError, EOFError, zlib.error, ValueError):
            return None
        if record is not None:
            keys = record.keys() >= {"output", "scores", "reference", "generator"}
            return Detection(0.9, f"keys output, scores in {file.name}") if keys and _key(record) else None
    return None


def units(path: Path) -> list[Unit]:
    """Every evaluation is a file of its own."""
    return [Unit(file.name, (file,)) for file in _files(path)]


def rows(unit: Unit, source: Source, book: Book) -> Iterator[Row]:
    """Read one evaluation.

    Raises
    ------
    BadLog
        The file is no JSON array.
    """
    del source
    file = unit.files[0]
    book.note("samples of evaluations: no update was made from these rows")
    named = _NAME.fullmatch(file.name)
    for record in records_of(file, book):
        key = _key(record)
        try:
            if key is None:
                raise OddValue("no prompt")
            yield {
                "step": int(named[1]) if named else 0,
                "prompt": record.get(f"{_FORMAT}{key}", record[key]),
                "response": record.get("output"),
                "reward": number(record.get("scores"), "scores"),
                "extra": {name: record.get(name) for name in ("reference", "generator", key)},
            }
        except OddValue as odd:
            book.reject(str(odd))


def manifest(path: Path) -> Manifest:
    """Read the run.json or the arguments near the log."""
    options = {name: key for name, key in OPTIONS.items() if name in ("model", "seed")}
    return manifest_near(path, "oat", fits, options=options, packages=("oat-llm",))


def _key(record: Mapping[str, Any]) -> str | None:
    """The data set's name of a prompt."""
    found = (name.removeprefix(_FORMAT) for name in record if name.startswith(_FORMAT))
    return next((name for name in found if name in record), None)


def _files(path: Path) -> list[Path]:
    try:
        if path.is_file():
            return [path] if path.suffix == ".json" else []
        for folder in (path, path / "eval_results"):
            inside = folder.iterdir() if folder.is_dir() else ()
            found = [f for f in inside if _NAME.fullmatch(f.name) and f.is_file()]
            if found:
                return in_numeric_order(found)
    except OSError:
        pass
    return []


IMPORTER = Importer(
    name="oat-evals",
    title="oat: eval_results/{N}.json",
    detect=detect,
    units=units,
    rows=rows,
    manifest=manifest,
    grouping="blocks",
    cannot="no token ids, log-probs, advantages and finish reasons, and no samples of training",
    holds=("prompt", "response", "reward", "extra"),
)

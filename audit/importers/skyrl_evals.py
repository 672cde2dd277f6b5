"""SkyRL: ``trainer.dump_eval_results`` → ``dumped_evals/global_step_{N}_evals/{data_source}.jsonl``.

Read: skyrl 0.4.0, train/utils/trainer_utils.py ``dump_per_dataset_eval_results``. Samples of one prompt
follow each other. ``aggregated_results.jsonl`` beside them holds the step's metrics. Without training the
folder is ``eval_only``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from audit.importers.finish import finish_reason
from audit.importers.interface import Book, Detection, Importer, Row, Scalar, Source, Unit
from audit.importers.jsonl import first_record, is_jsonl, records
from audit.importers.logged import logged
from audit.importers.near import manifest_near
from audit.importers.skyrl import OPTIONS, fits
from audit.importers.store import in_numeric_order
from audit.importers.values import OddValue, number, numbers
from audit.logs.manifest import Manifest

_FOLDER = re.compile(r"global_step_(\d+)_evals|eval_only")
_TOTALS = "aggregated_results.jsonl"
_KEYS = {"input_prompt", "output_response", "score"}
_OWN = {*_KEYS, "stop_reason"}


def detect(path: Path) -> Detection | None:
    """Take ``dumped_evals``, the export directory that holds it, one of its steps, or one of its files."""
    for file in _files(path)[:3]:
        record = first_record(file)
        if record is not None and record.keys() >= _KEYS:
            return Detection(0.9, f"keys input_prompt, output_response, score in {file.name}")
    return None


def units(path: Path) -> list[Unit]:
    """One a step and data set."""
    files = _files(path)
    return [Unit(f"{file.parent.name}/{file.name}", (file,)) for file in files]


def rows(unit: Unit, source: Source, book: Book) -> Iterator[Row]:
    """Read one data set at one step."""
    del source
    file = unit.files[0]
    book.note("samples of evaluations: no update was made from these rows")
    step = _step(file)
    if step is None:
        book.note("an evaluation without training has no step: 0 stands for it")
    for record in records(file, book):
        try:
            yield _row(record, step or 0)
        except OddValue as odd:
            book.reject(str(odd))


def manifest(path: Path) -> Manifest:
    """Read the run.json or the config near the log."""
    options = {**OPTIONS, "group_size": "generator.eval_n_samples_per_prompt"}
    return manifest_near(path, "skyrl", fits, options=options, packages=("skyrl", "skyrl-train"))


def scalars(path: Path) -> Iterator[Scalar]:
    """Yield the metrics of every step's evaluation."""
    for folder in dict.fromkeys(file.parent for file in _files(path)):
        if (folder / _TOTALS).is_file():
            for record in records(folder / _TOTALS, Book()):
                yield from logged(_step(folder / _TOTALS) or 0, record)


def _step(file: Path) -> int | None:
    named = _FOLDER.fullmatch(file.parent.name)
    return int(named[1]) if named and named[1] else None


def _files(path: Path) -> list[Path]:
    if path.is_file():
        return [path] if is_jsonl(path) and path.name != _TOTALS else []
    try:
        for folder in (path, path / "dumped_evals"):
            steps = (
                [each for each in folder.iterdir() if _FOLDER.fullmatch(each.name)] if folder.is_dir() else []
            )
            steps = [folder] if _FOLDER.fullmatch(folder.name) else steps
            found = [f for each in steps for f in each.glob("*.jsonl") if f.name != _TOTALS and f.is_file()]
            if found:
                return in_numeric_order(found)
    except OSError:
        pass
    return []


def _row(record: Row, step: int) -> Row:
    score: Any = record.get("score")
    if isinstance(score, list):
        score = sum(each or 0.0 for each in numbers(score, "score") or [])
    return {
        "step": step,
        "prompt": record.get("input_prompt"),
        "response": record.get("output_response"),
        "reward": number(score, "score"),
        "finish_reason": finish_reason(record.get("stop_reason")),
        "extra": {name: value for name, value in record.items() if name not in _OWN},
    }


IMPORTER = Importer(
    name="skyrl-evals",
    title="SkyRL: trainer.dump_eval_results (dumped_evals)",
    detect=detect,
    units=units,
    rows=rows,
    manifest=manifest,
    grouping="blocks",
    scalars=scalars,
    cannot="no token ids, log-probs and advantages, and no samples of training",
    holds=("prompt", "response", "reward", "finish_reason", "extra"),
)

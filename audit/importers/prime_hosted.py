"""Prime's hosted training: the exported ``results.jsonl``, one file a run, and ``configs/*.toml`` beside it.

The service that wrote them is closed; known from files it left [from description]. ``prompt``,
``completion``, ``metrics``, ``timing`` and ``info`` are JSON in strings. Rows stand in blocks of one prompt,
eight as a rule; a file that was cut at 25 rows ends with one stray row, and a problem may come twice. The
advantage is the reward minus the mean of its group, with noise of 1e-7 where all rewards are equal.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from audit.importers.interface import Book, Detection, Importer, Row, Source, Unit
from audit.importers.jsonl import first_with, is_jsonl, records
from audit.importers.near import having, manifest_near
from audit.importers.verifiers_results import parts_of
from audit.logs.manifest import Manifest

_KEYS = {"problem_id", "sample_id", "run_id", "advantage", "completion", "prompt", "reward"}
_STRINGS = ("prompt", "completion", "metrics", "timing", "info")
_OWN = {
    *("advantage", "completion", "created_at", "metrics", "num_input_tokens", "num_output_tokens"),
    *("prompt", "reward", "step"),
}
_OPTIONS = {
    "group_size": "rollouts_per_example",
    "model": "model",
    "sampling.temperature": "sampling.temperature",
    "sampling.max_tokens": "sampling.max_tokens",
}


def detect(path: Path) -> Detection | None:
    """Take a folder whose lines have a problem, a sample and a run, or one such file."""
    files = _files(path)
    found = next((f for f in files[:5] if first_with(f, lambda r: r.keys() >= _KEYS)), None)
    return Detection(0.96, f"keys problem_id, sample_id, run_id in {found.name}") if found else None


def units(path: Path) -> list[Unit]:
    """Every file is one."""
    return [
        Unit(file.name, (file,))
        for file in _files(path)
        if path.is_file() or first_with(file, lambda r: r.keys() >= _KEYS)
    ]


def rows(unit: Unit, source: Source, book: Book) -> Iterator[Row]:
    """Read one file."""
    del source
    for record in records(unit.files[0], book):
        held = dict(record)
        for name in _STRINGS:
            held[name] = _opened(record.get(name))
        metrics = held["metrics"]
        yield {
            "step": held.get("step") or 0,
            "prompt": held["prompt"],
            "response": held["completion"],
            "prompt_length": held.get("num_input_tokens"),
            "length": held.get("num_output_tokens"),
            "reward": held.get("reward"),
            "reward_components": (parts_of(metrics) if isinstance(metrics, dict) else None) or None,
            "advantage": held.get("advantage"),
            "created_at": held.get("created_at"),
            "extra": {name: value for name, value in held.items() if name not in _OWN},
        }


def _opened(value: Any) -> Any:
    """Take JSON out of a string; text that is none stays."""
    if not isinstance(value, str) or not value.lstrip().startswith(("[", "{")):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value


def manifest(path: Path) -> Manifest:
    """Read the run.json or the TOML beside the file."""
    return manifest_near(
        path,
        "prime-hosted",
        having("rollouts_per_example", "max_steps"),
        options=_OPTIONS,
        more=("configs/*",),
    )


def _files(path: Path) -> list[Path]:
    try:
        if path.is_file():
            return [path] if is_jsonl(path) else []
        return sorted(f for f in path.iterdir() if is_jsonl(f) and f.is_file())
    except OSError:
        return []


IMPORTER = Importer(
    name="prime-hosted",
    title="Prime hosted training: exported results.jsonl",
    detect=detect,
    units=units,
    rows=rows,
    manifest=manifest,
    grouping="blocks",
    cannot="no token ids, masks, log-probs or finish reasons",
    holds=(
        *("prompt", "response", "prompt_length", "length", "reward", "reward_components", "advantage"),
        *("created_at", "extra"),
    ),
)

"""verifiers 0.1: ``outputs/evals/{env}--{model}/{id}/results.jsonl`` and ``metadata.json``.

Read in the released 0.1.5 (scripts/eval.py), 0.1.6 (utils/eval_utils.py) and 0.1.14 (utils/save_utils.py).
Prompt and completion are messages; every reward function and metric is a column. ``id``, before 0.1.6, is the
row divided by the rollouts of an example while rows go round the examples (0.1.3 to 0.1.5.post0): it
contradicts the prompt, so groups are made from prompts. ``example_id``, since 0.1.6, is right.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from audit.importers.interface import Book, Detection, Importer, Row, Source, Unit
from audit.importers.jsonl import first_record, records
from audit.importers.near import having, manifest_near
from audit.importers.values import OddValue, number
from audit.importers.verifiers import EVALUATION
from audit.logs.manifest import Manifest

NAME = "results.jsonl"
_OPTIONS = {
    "group_size": "rollouts_per_example",
    "model": "model",
    "sampling.temperature": "sampling_args.temperature",
    "sampling.top_p": "sampling_args.top_p",
    "sampling.max_tokens": "sampling_args.max_tokens",
}
_TAKEN = {"prompt", "completion", "reward", "example_id", "metrics", "is_truncated", "error"}
_NUMBERS = {
    *("reward", "id", "example_id", "rollout_id", "advantage", "policy_version", "off_policy_steps", "step"),
    *("generation_ms", "scoring_ms", "total_ms", "eval_step"),
}
WRONG_ID = (
    "id is row // rollouts in some versions of verifiers and contradicts the prompt: kept in extra alone"
)


def detect(path: Path) -> Detection | None:
    """Take a folder with ``results.jsonl``, or that file, by the keys of the first line."""
    file = _file(path)
    record = None if file is None else first_record(file)
    if record is None or not {"prompt", "completion", "reward"} <= record.keys():
        return None
    if "run_id" in record or "problem_id" in record or "policy_version" in record:
        return None
    sure = 0.95 if {"example_id", "id"} & record.keys() else 0.5
    return Detection(sure, f"keys prompt, completion, reward in {NAME}")


def units(path: Path) -> list[Unit]:
    """There is one file."""
    file = _file(path)
    return [] if file is None else [Unit(file.name, (file,))]


def rows(unit: Unit, source: Source, book: Book) -> Iterator[Row]:
    """Read the file."""
    del source
    book.note(EVALUATION)
    for record in records(unit.files[0], book):
        if "id" in record and "example_id" not in record:
            book.note(WRONG_ID)
        yield row_of(record) | {"step": 0, "group_id": record.get("example_id")}


def row_of(record: Mapping[str, Any]) -> Row:
    """Return the columns of a rollout output, without step and group."""
    metrics = record.get("metrics")
    parts = parts_of(metrics if isinstance(metrics, dict) and metrics else _columns(record))
    return {
        "prompt": record.get("prompt"),
        "response": record.get("completion"),
        "reward": record.get("reward"),
        "reward_components": parts or None,
        "finish_reason": _finish(record),
        "extra": {
            name: each
            for name, each in record.items()
            if name not in parts and (name == "error" or name not in _TAKEN)
        },
        **_lengths(record),
    }


def parts_of(values: Mapping[str, Any]) -> dict[str, float]:
    """Return those values that are numbers, by name."""
    made = {}
    for name, each in values.items():
        try:
            found = number(each, str(name))
        except OddValue:
            continue
        if found is not None:
            made[str(name)] = found
    return made


def _columns(record: Mapping[str, Any]) -> dict[str, Any]:
    """Before 0.1.14 reward functions are columns beside others: those with a number that nothing else is."""
    return {
        name: each
        for name, each in record.items()
        if isinstance(each, (int, float)) and not isinstance(each, bool) and name not in _NUMBERS
    }


def _lengths(record: Mapping[str, Any]) -> Row:
    """Tokens as the provider counted them, where one message is the response: those of tools are left out."""
    usage, said = record.get("token_usage"), record.get("completion")
    if not isinstance(usage, dict) or not (
        isinstance(said, str) or (isinstance(said, list) and len(said) == 1)
    ):
        return {}
    counted = parts_of(usage)
    return {
        "length": counted.get("output_tokens") or None,
        "prompt_length": counted.get("input_tokens") or None,
    }


def _finish(record: Mapping[str, Any]) -> str | None:
    """Return what is logged of an end: a limit, an error, or neither of the two."""
    if record.get("error"):
        return "abort"
    truncated = record.get("is_truncated")
    return None if truncated is None else "length" if truncated is True else "stop"


def manifest(path: Path) -> Manifest:
    """Read the run.json or ``metadata.json``."""
    found = having("rollouts_per_example")
    return manifest_near(path, "verifiers", found, options=_OPTIONS, more=("metadata.json",))


def _file(path: Path) -> Path | None:
    found = path if path.name == NAME else path / NAME
    try:
        return found if found.is_file() else None
    except OSError:
        return None


IMPORTER = Importer(
    name="verifiers-results",
    title="verifiers 0.1: results.jsonl and metadata.json of an evaluation",
    detect=detect,
    units=units,
    rows=rows,
    manifest=manifest,
    grouping="prompt",
    cannot="no steps, token ids, masks, log-probs or advantages",
    holds=("prompt", "response", "length", "reward", "reward_components", "finish_reason", "extra"),
)

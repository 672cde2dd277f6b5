"""open-instruct of 2025: ``--save_traces`` → ``{output_dir}/traces_{run_name}.jsonl``, one line a step.

Read: open_instruct/grpo_fast.py at 7dba4c9e2 (2025-03-13) and before 64224222a (2026-01-05). A line holds a
list for each of scores, finish_reasons, responses and queries (token ids), ground_truths, datasets, later
decoded_responses, raw_queries and indices, and the step's metrics. A group's samples stand together.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from audit.importers.finish import finish_reason
from audit.importers.interface import Book, Detection, Importer, Row, Source, Unit
from audit.importers.jsonl import first_record, records
from audit.importers.open_instruct import manifest
from audit.importers.repeats import REPEATED
from audit.importers.values import OddValue, integers
from audit.logs.new_rows import hash_prompt

_NAME = re.compile(r"traces_.+\.jsonl(?:\.gz)?")
_KEYS = {"scores", "responses", "queries", "training_step"}
_OWN = {*_KEYS, "finish_reasons", "raw_queries", "decoded_responses"}


def detect(path: Path) -> Detection | None:
    """Take the file, or the output directory that holds it."""
    for file in _files(path)[:3]:
        record = first_record(file)
        if record is not None and record.keys() >= _KEYS and isinstance(record["scores"], list):
            return Detection(0.95, f"lists of scores, responses and queries in {file.name}")
    return None


def units(path: Path) -> list[Unit]:
    """One a run."""
    return [Unit(file.name, (file,)) for file in _files(path)]


def rows(unit: Unit, source: Source, book: Book) -> Iterator[Row]:
    """Read the samples of every step."""
    del source
    seen: dict[str, set[int]] = defaultdict(set)
    for record in records(unit.files[0], book):
        scores = record.get("scores")
        count = len(scores) if isinstance(scores, list) else 0
        if not count:
            book.reject("line holds no list of scores")
            continue
        before, print_ = seen[repr(record.get("training_step"))], hash(repr(record))
        if print_ in before:
            book.reject(REPEATED, count)
            continue
        if before:
            book.note("steps that came back after a restart were sampled anew: all their samples are here")
        before.add(print_)
        for at in range(count):
            one = {name: _of(value, at, count) for name, value in record.items()}
            try:
                yield _row(one)
            except OddValue as odd:
                book.reject(str(odd))


def _files(path: Path) -> list[Path]:
    if path.is_file():
        return [path] if _NAME.fullmatch(path.name) else []
    try:
        return sorted(f for f in path.iterdir() if _NAME.fullmatch(f.name) and f.is_file())
    except OSError:
        return []


def _of(value: Any, at: int, count: int) -> Any:
    """The value of one sample; what is no list of one a sample is the step's."""
    return value[at] if isinstance(value, list) and len(value) == count else value


def _row(one: Row) -> Row:
    prompt = integers(one.get("queries"), "queries")
    row: Row = {
        "step": one.get("training_step"),
        "prompt": one.get("raw_queries"),
        "response": one.get("decoded_responses"),
        "token_ids": one.get("responses"),
        "reward": one.get("scores"),
        "finish_reason": finish_reason(one.get("finish_reasons")),
        "extra": {name: one[name] for name in ("datasets", "ground_truths", "indices") if name in one},
    }
    if prompt is not None:
        row |= {"prompt_id": hash_prompt(" ".join(map(str, prompt))), "prompt_length": len(prompt)}
    return row


IMPORTER = Importer(
    name="open-instruct-traces",
    title="open-instruct of 2025: --save_traces (traces_….jsonl, one line a step)",
    detect=detect,
    units=units,
    rows=rows,
    manifest=manifest,
    grouping="blocks",
    cannot="no masks, log-probs and advantages",
    holds=(
        *("prompt", "response", "prompt_length", "length", "token_ids", "reward", "finish_reason", "extra"),
    ),
)

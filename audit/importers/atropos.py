"""Atropos: ``data_path_to_save_groups``, one group of samples a line.

Read: atroposlib/envs/base.py (``ScoredDataGroup``, ``handle_send_to_api``) and
envs/server_handling/managed_server.py of the released 0.4.0. Lists are those of the whole sequence: a mask of
-100 is not trained, and log-probs are 1.0 there. A file that exists is not appended to: a restart writes
``_1``, ``_2``. Groups of equal scores are skipped unless ``ensure_scores_are_not_same`` is off.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from audit.importers.interface import Book, Detection, Importer, Row, Source, Unit
from audit.importers.jsonl import first_with, is_jsonl, records
from audit.importers.near import having, manifest_near
from audit.importers.store import in_numeric_order
from audit.importers.values import OddValue, integers, numbers
from audit.logs.manifest import Manifest
from audit.logs.new_rows import hash_prompt

NOT_TRAINED = -100
_LOG_PROBS = {"inference_logprobs": "logp_sampler", "ref_logprobs": "logp_ref"}
_OWN = {"tokens", "masks", "scores", "advantages", "messages", *_LOG_PROBS}
_LARGE = {"images", "distill_token_ids", "distill_logprobs"}
_LOOKED_AT = 5
NO_STEP = "the log has no steps: all rows are step 0, and groups stand in the order in which they were made"


def detect(path: Path) -> Detection | None:
    """Take a file of groups, or a folder that holds such files, by the keys of a first line."""
    found = next((file for file in _files(path)[:_LOOKED_AT] if first_with(file, _fits)), None)
    return Detection(0.95, f"keys tokens, masks, scores, a group a line, in {found.name}") if found else None


def _fits(record: Mapping[str, Any]) -> bool:
    held = [record.get(name) for name in ("tokens", "masks", "scores")]
    return all(isinstance(each, list) and each for each in held) and isinstance(record["tokens"][0], list)


def units(path: Path) -> list[Unit]:
    """Every file is one."""
    files = _files(path)
    if not path.is_file():
        files = [file for file in files if first_with(file, _fits)]
    return [Unit(file.name, (file,)) for file in files]


def rows(unit: Unit, source: Source, book: Book) -> Iterator[Row]:
    """Read one file."""
    del source
    file = unit.files[0]
    book.note(NO_STEP)
    for line, record in enumerate(records(file, book)):
        tokens = record.get("tokens")
        count = len(tokens) if isinstance(tokens, list) and tokens else 1
        if not _fits(record) or any(_count(record, name) != count for name in ("masks", "scores")):
            book.reject("tokens, masks and scores of a group differ in number", count)
            continue
        if left := sorted(_LARGE & {name for name, value in record.items() if value is not None}):
            book.note(f"left out: {', '.join(left)}")
        for at in range(count):
            try:
                yield _row(record, at, count) | {"group_id": f"{file.name}:{line}", "sample_index": at}
            except OddValue as odd:
                book.reject(str(odd))


def _count(record: Mapping[str, Any], name: str) -> int:
    value = record.get(name)
    return len(value) if isinstance(value, list) else -1


def _row(record: Mapping[str, Any], at: int, count: int) -> Row:
    ids = _integers(record["tokens"][at], "tokens")
    masks = _integers(record["masks"][at], "masks")
    if len(masks) != len(ids):
        raise OddValue("masks and tokens differ in length")
    trained = [mask != NOT_TRAINED for mask in masks]
    start = trained.index(True) if True in trained else len(ids)
    row: Row = {
        "step": 0,
        "prompt_id": hash_prompt(" ".join(map(str, ids[:start]))),
        "prompt_length": start,
        "token_ids": ids[start:],
        "loss_mask": trained[start:],
        "reward": record["scores"][at],
    }
    for name, column in _LOG_PROBS.items():
        values = _of(record, name, at, count)
        if values is not None:
            row[column] = _log_probs(values, trained, name)[start:]
    row |= _advantage(_of(record, "advantages", at, count), trained, start)
    row |= _texts(_of(record, "messages", at, count), trained)
    row["extra"] = (row.get("extra") or {}) | {
        name: _of(record, name, at, count)
        for name in record
        if name not in _OWN and name not in _LARGE and record[name] is not None
    }
    return row


def _of(record: Mapping[str, Any], name: str, at: int, count: int) -> Any:
    """Value of a sample: an entry of a list with one for each, else what the whole group has."""
    value = record.get(name)
    if isinstance(value, list) and len(value) == count:
        return value[at]
    if value and name in (*_LOG_PROBS, "advantages", "messages"):
        raise OddValue(f"{name} are not one for each sample")
    return value or None


def _integers(value: Any, name: str) -> list[int]:
    found = integers(value, name)
    return [] if found is None else [int(each) for each in found]


def _log_probs(value: Any, trained: list[bool], name: str) -> list[float | None]:
    """Log-probs over the sequence, with 0 in place of the 1.0 of tokens that are not trained."""
    values = numbers(value, name)
    if values is None or len(values) != len(trained):
        raise OddValue(f"{name} and tokens differ in length")
    return [each if told or each != 1.0 else 0.0 for each, told in zip(values, trained, strict=True)]


def _advantage(value: Any, trained: list[bool], start: int) -> Row:
    """One number where all trained tokens have the same, or where there is one for the sample."""
    if value is None:
        return {}
    values = numbers(value, "advantages") if isinstance(value, list) else [value]
    if values is None or len(values) not in (1, len(trained)):
        raise OddValue("advantages and tokens differ in length")
    if len(values) == 1:
        return {"advantage": values[0]}
    told = {each for each, taken in zip(values, trained, strict=True) if taken}
    return {"advantage": told.pop()} if len(told) == 1 else {"token_advantage": values[start:]}


def _texts(messages: Any, trained: list[bool]) -> Row:
    """Texts of prompt and response: a stretch of trained tokens is a message of the assistant, from the end.

    Where an environment gives no messages, all text stands in one of the user: that is neither of both.
    """
    if not isinstance(messages, list) or not all(
        isinstance(each, dict) and "role" in each for each in messages
    ):
        return {}
    stretches = sum(now and not before for before, now in zip([False, *trained], trained, strict=False))
    spoken = [at for at, each in enumerate(messages) if each["role"] == "assistant"]
    if not spoken or not stretches:
        return {"extra": {"messages": messages}}
    first = spoken[-min(stretches, len(spoken))]
    return {"prompt": messages[:first] or None, "response": messages[first:]}


def manifest(path: Path) -> Manifest:
    """Read the run.json or a YAML of the environment near the log."""
    return manifest_near(
        path,
        "atropos",
        having("env.tokenizer_name", "env.group_size"),
        options={"group_size": "env.group_size"},
    )


def _files(path: Path) -> list[Path]:
    try:
        if path.is_file():
            return [path] if is_jsonl(path) else []
        return in_numeric_order([file for file in path.iterdir() if is_jsonl(file) and file.is_file()])
    except OSError:
        return []


IMPORTER = Importer(
    name="atropos",
    title="Atropos: data_path_to_save_groups, a group a line",
    detect=detect,
    units=units,
    rows=rows,
    manifest=manifest,
    cannot="no steps, finish reasons or settings of a trainer; groups of equal scores were skipped before it",
    holds=(
        *(
            "prompt",
            "response",
            "prompt_length",
            "length",
            "token_ids",
            "loss_mask",
            "reward",
            "logp_sampler",
        ),
        *("logp_ref", "advantage", "token_advantage", "extra"),
    ),
)

"""ROLL: ``save_logging_board_dir`` → ``{setting}data_{date}_{time}_{ms}.jsonl``, one line a sample.

Read: roll/pipeline/rlvr/rlvr_pipeline.py ``save_metrics`` at 8eb27cc2d (2026-08-19, 0.3.0). A file holds one
domain of one step. Lists start at the first token of the response and end with padding; tokens are text. What
it calls reward is normalised and clipped; what it calls values are token rewards.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from audit.importers.configs import lookup
from audit.importers.interface import Book, Detection, Importer, Row, Source, Unit
from audit.importers.jsonl import first_record, records
from audit.importers.near import manifest_near
from audit.importers.roll import OPTIONS, fits
from audit.importers.values import OddValue, flags, number, numbers
from audit.logs.manifest import Manifest

_NAME = re.compile(r".*data_\d{8}_\d{6}_\d{3}\.jsonl(?:\.gz)?")
_KEYS = {"new_response_mask", "response_tokens", "logprobs", "reward", "step"}
_LISTS = {"logprobs": "logp_old", "ref_logprobs": "logp_ref", "old_log_probs2_entropy": "entropy"}
_PEEKED = 256
_ZERO = 1e-3
"""Largest mean of a group's rewards that counts as none; heuristic."""


def detect(path: Path) -> Detection | None:
    """Take the folder of the files, or one of them."""
    for file in _files(path)[:3]:
        record = first_record(file)
        if record is not None:
            known = record.keys() >= _KEYS
            return (
                Detection(0.95, f"keys new_response_mask, response_tokens in {file.name}") if known else None
            )
    return None


def units(path: Path) -> list[Unit]:
    """Every domain of a step is a file of its own; their names are in order of time."""
    return [Unit(file.name, (file,)) for file in _files(path)]


def rows(unit: Unit, source: Source, book: Book) -> Iterator[Row]:
    """Read one domain of one step."""
    file = unit.files[0]
    head = list(islice(records(file, Book()), _PEEKED))
    pad = next((found for record in head if (found := _padding(record))), "")
    normalised = _is_normalised(source.manifest.config, head)
    if normalised:
        book.note("reward is normalised by the trainer: kept in extra; the reward itself is not logged")
    book.note(
        "log_probs2 is a second pass of the old policy, values and token_rewards hold rewards: left out"
    )
    for record in records(file, book):
        try:
            row = _row(record, pad, book)
        except OddValue as odd:
            book.reject(str(odd))
            continue
        if normalised:
            row["extra"] = {"normalized_reward": row.pop("reward")}
        yield row


def manifest(path: Path) -> Manifest:
    """Read the run.json or the config (trackers keep it) near the log."""
    return manifest_near(path, "roll", fits, options=OPTIONS)


def _files(path: Path) -> list[Path]:
    if path.is_file():
        return [path] if _NAME.fullmatch(path.name) else []
    try:
        return sorted(f for f in path.iterdir() if _NAME.fullmatch(f.name) and f.is_file())
    except OSError:
        return []


def _length(record: Row) -> int:
    """Tokens of the response: up to the last that the mask tells."""
    mask = flags(record.get("new_response_mask"), "new_response_mask")
    if mask is None:
        raise OddValue("no new_response_mask")
    return max((at + 1 for at, told in enumerate(mask) if told), default=0)


def _padding(record: Row) -> str | None:
    """The text of the padding token, where a response has some."""
    try:
        length = _length(record)
    except OddValue:
        return None
    tokens = record.get("response_tokens")
    said = tokens[length] if isinstance(tokens, list) and len(tokens) > length else None
    return said if isinstance(said, str) else None


def _is_normalised(config: dict[str, Any] | None, head: list[Row]) -> bool:
    """By the config; without one, where every group's rewards have a mean of 0."""
    if config is not None:
        grouped = lookup(config, "adv_estimator") == "grpo"
        kinds = [lookup(config, name) for name in ("norm_mean_type", "norm_std_type")]
        return grouped or any(kind not in (None, "", "none", "None") for kind in kinds)
    groups: dict[str, list[float]] = defaultdict(list)
    for record in head:
        try:
            groups[repr(record.get("prompt"))].append(number(record.get("reward"), "reward") or 0.0)
        except OddValue:
            continue
    means = [abs(sum(each) / len(each)) for each in groups.values() if len(each) > 1]
    return bool(means) and max(means) < _ZERO and any(any(each) for each in groups.values())


def _row(record: Row, pad: str, book: Book) -> Row:
    length = _length(record)
    mask = flags(record["new_response_mask"], "new_response_mask")
    row: Row = {
        "step": record.get("step"),
        "prompt": _stripped(record.get("prompt"), pad),
        "response": _cut(record.get("response"), pad, record.get("response_tokens"), length),
        "length": length,
        "loss_mask": list(mask or [])[:length],
        "reward": number(record.get("reward"), "reward"),
    }
    for name, column in _LISTS.items():
        values = numbers(record.get(name), name)
        if values is None:
            continue
        if len(values) < length:
            raise OddValue(f"{name} is shorter than the response")
        kept = list(values[:length])
        if kept and column != "entropy" and not any(kept):
            book.note(f"{name} of zeros are a placeholder: left out")
        else:
            row[column] = kept
    return row


def _stripped(prompt: Any, pad: str) -> Any:
    """A prompt without its padding: the same prompt has another in another batch."""
    if not isinstance(prompt, str) or not pad:
        return prompt
    while prompt.startswith(pad):
        prompt = prompt.removeprefix(pad)
    while prompt.endswith(pad * 2):
        prompt = prompt.removesuffix(pad)
    return prompt


def _cut(response: Any, pad: str, tokens: Any, length: int) -> Any:
    if not isinstance(response, str) or not pad or not isinstance(tokens, list):
        return response
    return response.removesuffix(pad * max(len(tokens) - length, 0))


IMPORTER = Importer(
    name="roll-board",
    title="ROLL: save_logging_board_dir (…data_*.jsonl)",
    detect=detect,
    units=units,
    rows=rows,
    manifest=manifest,
    grouping="blocks",
    cannot="no token ids, sampler log-probs, advantages, finish reasons and group ids, and no reward where "
    "it was normalised",
    holds=("prompt", "response", "length", "loss_mask", "reward", "logp_old", "logp_ref", "entropy", "extra"),
)

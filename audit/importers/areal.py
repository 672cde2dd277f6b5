"""AReaL: ``rollout.dump_to_file`` → ``{log folder}/{rollout|eval-rollout}/{version}/{task_id}.jsonl``.

Read: areal 1.0.4, areal/infra/workflow_executor.py ``_dump_trajectory``; keys of later versions (version_rle,
original_reward, segments) by description. A file is a task, which is a group; the folder is the newest policy
version in it, which stands for the step. Files are appended to, by a restarted run too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from audit.importers.interface import Book, Detection, Importer, Row, Source, Unit
from audit.importers.jsonl import first_record, records
from audit.importers.near import having, manifest_near
from audit.importers.store import in_numeric_order
from audit.importers.values import OddValue, integer
from audit.importers.writings import AGAIN, Writings
from audit.logs.manifest import Manifest

_KEYS = {"task_id", "sample_idx", "prompt", "completion", "reward", "tail_version"}
_OWN = {"sample_idx", "seqlen", "prompt_len", "reward", "prompt", "completion", "segments"}
_OPTIONS = {
    "group_size": "gconfig.n_samples",
    "model": "actor.path",
    "seed": "seed",
    "sampling.temperature": "gconfig.temperature",
    "sampling.top_p": "gconfig.top_p",
    "sampling.max_tokens": "gconfig.max_new_tokens",
}
_EVAL = "eval-rollout"


def detect(path: Path) -> Detection | None:
    """Take ``rollout``, the log folder that holds it, one of its versions, or one of its files."""
    for file in next(iter(_versions(path).values()), [])[:3]:
        record = first_record(file)
        if record is not None:
            fits = record.keys() >= _KEYS
            return Detection(0.95, f"keys task_id, completion, tail_version in {file.name}") if fits else None
    return None


def units(path: Path) -> list[Unit]:
    """One a version: there is a file for every task."""
    return [Unit(folder.name, tuple(files)) for folder, files in _versions(path).items()]


def rows(unit: Unit, source: Source, book: Book) -> Iterator[Row]:
    """Read the tasks of one version."""
    writings = Writings()
    sizes: Counter[str] = Counter()
    if _EVAL in unit.files[0].parts[-3:]:
        book.note("samples of evaluations: no update was made from these rows")
    else:
        book.note(
            "the step is the newest policy version of a task; tasks that were not accepted are here too"
        )
    for file in unit.files:
        for record in records(file, book):
            content = [record.get(name) for name in ("prompt", "completion", "reward")]
            writing = writings.of([file.stem, record.get("task_id"), record.get("sample_idx")], content)
            if writing is None:
                book.reject(AGAIN)
                continue
            try:
                row = _row(record, file, writing)
            except OddValue as odd:
                book.reject(str(odd))
                continue
            sizes[row["group_id"]] += 1
            yield row
    size = source.group_size or max(sizes.values(), default=0)
    short = sum(count < size for count in sizes.values())
    text = "tasks hold fewer samples than a group has: those that end on a token without loss are not logged"
    book.share(text, short, len(sizes))
    if writings.anew:
        book.note("samples that a restarted run wrote under a task's number are groups of their own")


def manifest(path: Path) -> Manifest:
    """Read the run.json or the config.yaml of the trial."""
    return manifest_near(
        path, "areal", having("gconfig.n_samples", "actor.ppo_n_minibatches"), options=_OPTIONS
    )


def _versions(path: Path) -> dict[Path, list[Path]]:
    """Files by version, both in numeric order."""
    try:
        if path.is_file():
            return {path: [path]} if path.suffix == ".jsonl" else {}
        for root in (path, path / "rollout"):
            inside = [each for each in root.iterdir() if each.name.isdecimal()] if root.is_dir() else []
            folders = in_numeric_order([each for each in inside if each.is_dir()])
            found = {folder: files for folder in folders if (files := _tasks(folder))}
            if found:
                return found
        files = _tasks(path) if path.name.isdecimal() else []
    except OSError:
        return {}
    return {path: files} if files else {}


def _tasks(folder: Path) -> list[Path]:
    return in_numeric_order([file for file in folder.glob("*.jsonl") if file.is_file()])


def _row(record: Row, file: Path, writing: int) -> Row:
    folder = int(file.parent.name) if file.parent.name.isdecimal() else None
    newest = integer(record.get("tail_version"), "tail_version")
    step = folder if folder is not None else newest
    whole, prompt = (integer(record.get(name), name) for name in ("seqlen", "prompt_len"))
    length = None if whole is None or prompt is None else whole - prompt
    if length is not None and (length < 0 or (prompt or 0) < 0):
        raise OddValue("prompt_len is not within seqlen")
    return {
        "step": step,
        "group_id": f"{step}:{record.get('task_id', file.stem)}" + (f":{writing}" if writing else ""),
        "prompt": record.get("prompt"),
        "response": record.get("completion"),
        "prompt_length": prompt,
        "length": length,
        "loss_mask": _mask(record.get("segments"), prompt, length),
        "reward": record.get("reward"),
        "sampler_version": _version(record, newest),
        "extra": {name: value for name, value in record.items() if name not in _OWN},
    }


def _version(record: Row, newest: int | None) -> int | None:
    """The version that sampled all of a response; prompts count as version -1."""
    runs = record.get("version_rle")
    if isinstance(runs, list):
        held = {run[0] for run in runs if isinstance(run, list) and run and isinstance(run[0], int)} - {-1}
        return held.pop() if len(held) == 1 else None
    return newest if integer(record.get("head_version"), "head_version") == newest else None


def _mask(segments: Any, prompt: int | None, length: int | None) -> list[bool] | None:
    """Which tokens were generated, where the turns say it and fit the lengths."""
    if not isinstance(segments, Sequence) or isinstance(segments, str) or not segments or length is None:
        return None
    made: list[bool] = []
    asked = 0
    for segment in segments:
        size = segment.get("len") if isinstance(segment, dict) else None
        if type(size) is not int or not 0 <= size <= length + (prompt or 0):
            return None
        if segment.get("role") == "prompt" and not made:
            asked += size
        else:
            made += [segment.get("role") == "gen"] * size
    return made if (asked, len(made)) == (prompt, length) else None


IMPORTER = Importer(
    name="areal",
    title="AReaL: rollout.dump_to_file (rollout/{version}/{task}.jsonl)",
    detect=detect,
    units=units,
    rows=rows,
    manifest=manifest,
    cannot="no token ids, log-probs, advantages and finish reasons, and no step of training; without "
    "segments (1.0) several turns are cut in prompt and response at a wrong token",
    holds=(
        *("prompt", "response", "prompt_length", "length", "loss_mask", "reward", "sampler_version", "extra"),
    ),
)

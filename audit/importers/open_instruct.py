"""open-instruct: ``--save_traces`` → ``{run_name}_rollouts_{shard:06d}.jsonl``.

Read: open_instruct/{rl_utils,data_loader}.py at e6c3044aa (2026-08-20). A line is one sample: ids of prompt
and response, sampler log-probs (since 2026-01-23), reward, advantage. Its group is (step, prompt_idx), which
is cut by place: where truncated completions were dropped before, groups mix prompts, in the trainer too. Two
threads append, so that steps may interleave; a restarted run appends once more.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from audit.importers.finish import finish_reason
from audit.importers.interface import Book, Detection, Importer, Row, Source, Unit
from audit.importers.jsonl import first_record, is_jsonl, records
from audit.importers.near import having, manifest_near
from audit.importers.store import in_numeric_order
from audit.importers.values import OddValue, integer, integers
from audit.importers.writings import AGAIN, Writings
from audit.logs.manifest import Manifest
from audit.logs.new_rows import hash_prompt

_NAME = re.compile(r"(?P<run>.+)_rollouts_\d{6}\.jsonl(?:\.gz)?")
_KEYS = {"step", "prompt_idx", "prompt_tokens", "response_tokens", "reward"}
_CONTENT = ("prompt_tokens", "response_tokens", "reward", "logprobs")
_OWN = {*_KEYS, "advantage", "finish_reason", "logprobs"}
OPTIONS = {
    "group_size": "num_samples_per_prompt_rollout",
    "model": "model_name_or_path",
    "seed": "seed",
    "sampling.temperature": "temperature",
    "sampling.max_tokens": "response_length",
}
fits = having("num_samples_per_prompt_rollout")


def detect(path: Path) -> Detection | None:
    """Take the folder of the shards, or one of them, by the keys of a first line."""
    for file in _files(path)[:3]:
        record = first_record(file)
        if record is not None:
            return (
                Detection(0.95, f"keys prompt_tokens, prompt_idx in {file.name}")
                if record.keys() >= _KEYS
                else None
            )
    return None


def units(path: Path) -> list[Unit]:
    """All shards of a run are one unit: a restarted run writes the first of them again."""
    runs: dict[str, list[Path]] = defaultdict(list)
    for file in _files(path):
        named = _NAME.fullmatch(file.name)
        runs[named["run"] if named else file.name].append(file)
    return [Unit(name, tuple(files)) for name, files in runs.items()]


def rows(unit: Unit, source: Source, book: Book) -> Iterator[Row]:
    """Read the shards of one run."""
    several = not source.path.is_file() and len(units(source.path)) > 1
    writings = Writings()
    prompts: dict[str, set[int]] = defaultdict(set)
    tools = read = 0
    for file in unit.files:
        for record in records(file, book):
            held = [record.get(name) for name in _CONTENT]
            writing = writings.of([record.get("step"), record.get("sample_idx", held[:2])], held)
            if writing is None:
                book.reject(AGAIN)
                continue
            try:
                row = _row(record, writing, f"{unit.name}:" if several else "")
            except OddValue as odd:
                book.reject(str(odd))
                continue
            if row["group_id"] is not None:
                prompts[row["group_id"]].add(hash(row["prompt_id"]))
            request = record.get("request_info")
            tools += isinstance(request, dict) and request.get("tool_calleds") is True
            read += 1
            yield row
    if mixed := sum(len(each) > 1 for each in prompts.values()):
        book.share(
            "groups mix prompts: truncated completions were dropped before groups were cut, and request_info "
            "may be that of other samples",
            mixed,
            len(prompts),
        )
    if tools:
        book.share(
            "responses called tools, whose tokens the log does not tell from sampled ones", tools, read
        )
    if writings.anew:
        book.note("samples of steps that came back after a restart are groups of their own")


def manifest(path: Path) -> Manifest:
    """Read the run.json or the arguments (W&B keeps them) near the log."""
    return manifest_near(path, "open-instruct", fits, options=OPTIONS)


def _files(path: Path) -> list[Path]:
    if path.is_file():
        return [path] if is_jsonl(path) else []
    try:
        return in_numeric_order([f for f in path.iterdir() if _NAME.fullmatch(f.name) and f.is_file()])
    except OSError:
        return []


def _row(record: Row, writing: int, run: str) -> Row:
    step = integer(record.get("step"), "step")
    prompt = integers(record.get("prompt_tokens"), "prompt_tokens")
    place = integer(record.get("prompt_idx"), "prompt_idx")
    if prompt is None:
        raise OddValue("no prompt_tokens")
    return {
        "step": step,
        "group_id": None if place is None else f"{run}{step}:{place}" + (f":{writing}" if writing else ""),
        "prompt_id": hash_prompt(" ".join(map(str, prompt))),
        "prompt_length": len(prompt),
        "token_ids": record.get("response_tokens"),
        "logp_sampler": record.get("logprobs"),
        "reward": record.get("reward"),
        "advantage": record.get("advantage"),
        "finish_reason": finish_reason(record.get("finish_reason")),
        "extra": {name: value for name, value in record.items() if name not in _OWN},
    }


IMPORTER = Importer(
    name="open-instruct",
    title="open-instruct: --save_traces (…_rollouts_000000.jsonl)",
    detect=detect,
    units=units,
    rows=rows,
    manifest=manifest,
    cannot="no texts, no masks of tool tokens, no old, current or reference log-probs and, by default, no "
    "groups without spread",
    holds=(
        *("prompt_length", "length", "token_ids", "reward", "logp_sampler", "advantage", "finish_reason"),
        "extra",
    ),
)

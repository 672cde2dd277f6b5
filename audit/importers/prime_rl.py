"""prime-rl's ``<run>/rollouts/step_N/{train|eval}/{all|effective}/traces.jsonl``, with its token exports.

Read: src/prime_rl/monitors/file.py, orchestrator/{orchestrator,metrics}.py and trainer/rl/token_export.py at
559b44772 (2026-08-21), orchestrator/types.py at v0.7.0 and v0.8.0 [read only: no released package]. A line
is an episode with its traces, or, in 0.7 and 0.8, a trace. ``all`` holds every arrival and ``effective`` what
was shipped to the trainer: the same rollouts twice, so ``all`` is read only where it is all there is. Batch N
trains policy N - 1. Where the trainer exported tokens, they are joined by exact token ids.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from audit.importers.interface import Book, Detection, Importer, Row, Source, Unit
from audit.importers.jsonl import first_record, records
from audit.importers.near import having, manifest_near
from audit.importers.prime_rl_exports import Exports, files_of_step
from audit.importers.store import in_numeric_order
from audit.importers.traces import branches_of, traces_of
from audit.importers.values import OddValue, integer
from audit.logs.manifest import Manifest

NAME = "traces.jsonl"
_STEP = re.compile(r"step_(\d+)")
_ORDER = ("train/effective", "train/all", "eval/effective", "eval/all")
OPTIONS = {
    "group_size": "orchestrator.group_size",
    "model": "trainer.model.name",
    "seed": "orchestrator.seed",
    "sampling.temperature": "orchestrator.train.sampling.temperature",
    "sampling.max_tokens": "orchestrator.train.sampling.max_completion_tokens",
}
fits = having("trainer.loss", "orchestrator.algo", "orchestrator.group_size", "loss.dppo_mask_low")


def detect(path: Path) -> Detection | None:
    """Take a run, its ``rollouts``, a folder below them, or one file, by its place and its first line."""
    for file in _files(path)[:3]:
        record = first_record(file)
        if record is not None:
            placed = place_of(file) is not None
            if not ({"traces", "nodes"} & record.keys()) or not (placed or is_training(record)):
                return None
            sure = 0.97 if is_training(record) else 0.9
            return Detection(sure, f"key {'traces' if 'traces' in record else 'nodes'} in {file.name}")
    return None


def is_training(record: Mapping[str, Any]) -> bool:
    """Whether a line was written by a trainer: it says of which run and step it is a part."""
    run = record.get("run")
    work = run.get("work") if isinstance(run, dict) else None
    return (
        isinstance(work, dict)
        or (isinstance(run, dict) and "nodes" in record and run.get("step") is not None)
        or {"policy_version", "kind", "nodes"} <= record.keys()
    )


def place_of(file: Path) -> tuple[int, str, str] | None:
    """Return step, kind and subset of a file, where it stands as prime-rl wrote it."""
    parts = file.absolute().parts[-4:-1]
    named = _STEP.fullmatch(parts[0]) if len(parts) == 3 else None
    return (int(named[1]), parts[1], parts[2]) if named and "/".join(parts[1:]) in _ORDER else None


def root_of(path: Path) -> Path:
    """Return the folder of the run."""
    whole = path.absolute()
    above = next((p for p in (whole, *whole.parents) if p.name == "rollouts"), None)
    return above.parent if above is not None else (path if path.is_dir() else path.parent)


def units(path: Path) -> list[Unit]:
    """Every step is one, with what the trainer's ranks exported of it."""
    root = root_of(path)
    made = []
    for file in _files(path):
        placed = place_of(file)
        exports = files_of_step(root, placed[0]) if placed and placed[1] == "train" else []
        name = file.absolute().relative_to(root.absolute()).as_posix()
        made.append(Unit(name, (file, *exports)))
    return made


def rows(unit: Unit, source: Source, book: Book) -> Iterator[Row]:
    """Read one step."""
    file, *exported = unit.files
    placed = place_of(file)
    _say(file, placed, source, book)
    trained = placed is None or placed[1] == "train"
    exports = Exports(exported, book) if exported else None
    for record in records(file, book):
        for trace in traces_of(record, book):
            try:
                own = _own(record, trace, placed[0] if placed else None, trained=trained)
            except OddValue as odd:
                book.reject(str(odd))
                continue
            for branch in branches_of(trace, book):
                row = branch.row | own | {"extra": branch.row["extra"] | own["extra"]}
                if exports is not None and branch.ids is not None:
                    exports.join(row, branch)
                yield row
    if exports is not None:
        exports.tell()


def manifest(path: Path) -> Manifest:
    """Read the run.json or ``configs/`` of the run."""
    root = root_of(path)
    return manifest_near(root, "prime-rl", fits, options=OPTIONS)


def _say(file: Path, placed: tuple[int, str, str] | None, source: Source, book: Book) -> None:
    if placed is None:
        return
    if placed[1] == "eval":
        book.note("evaluation samples: no update was made from these rows")
    elif placed[2] == "all":
        book.note(
            "every arrival, before its group was scored: some were never trained on; none has an advantage"
        )
    elif not source.path.is_file() and (file.parent.parent / "all" / NAME).is_file():
        book.note(
            "all/traces.jsonl beside effective/ hold the same rollouts again, and those not shipped: left out"
        )


def _files(path: Path) -> list[Path]:
    """Files to read: those of training that were shipped, else the next best kind that is there."""
    try:
        if path.is_file():
            return [path] if path.name == NAME else []
        for kind in _ORDER:
            subset = kind.split("/")[1]
            below = [kind]
            if path.name in ("train", "eval"):
                below = [subset] if kind.startswith(path.name) else []
            elif path.name in ("effective", "all"):
                below = ["."] if path.name == subset and path.parent.name == kind.split("/")[0] else []
            elif not _STEP.fullmatch(path.name):
                below = [f"rollouts/step_*/{kind}", f"step_*/{kind}"]
            for place in below:
                found = [f for f in path.glob(f"{place}/{NAME}") if f.is_file()]
                if found:
                    return in_numeric_order(found)
    except (OSError, ValueError):
        pass
    return []


def _own(record: Row, trace: Row, step: int | None, *, trained: bool) -> Row:
    """Step, group and versions: on the episode, on the trace (0.7), or in its info (0.8)."""
    info = _dict(trace.get("info"))
    run = _dict(record.get("run"))
    work = _dict(run.get("work"))
    policy = _dict(work.get("policy"))
    said = work.get("step", run.get("step", record.get("eval_step")))
    at = step if step is not None else integer(said, "step")
    version = policy.get("start", record.get("policy_version", info.get("policy_version")))
    env = _dict(record.get("env"))
    extra = {
        "env_name": env.get("name") or env.get("id") or record.get("env_name") or info.get("env_name"),
        "episode": record.get("id") if "traces" in record else info.get("episode_id"),
        "dispatched_at_step": said,
        # The weights may change while a response is sampled.
        "sampler_version_end": policy.get("end"),
    }
    if at is None:
        raise OddValue("no step: neither the place of the file nor the line says it")
    return {
        "step": at,
        "group_id": _dict(record.get("group")).get("id", record.get("group_id", info.get("group_id"))),
        "sampler_version": version,
        "policy_version": at - 1 if trained and version is not None else None,
        "extra": extra,
    }


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


IMPORTER = Importer(
    name="prime-rl",
    title="prime-rl: rollouts/step_*/train/effective/traces.jsonl, joined with token_exports/",
    detect=detect,
    units=units,
    rows=rows,
    manifest=manifest,
    cannot=(
        "no log-probs of an old policy (the ratio is against the sampler); those of the current policy only "
        "with trainer.enable_token_export"
    ),
    holds=(
        *("prompt", "response", "prompt_length", "length", "token_ids", "loss_mask", "reward"),
        *("reward_components", "logp_theta", "logp_ref", "logp_sampler", "entropy", "advantage"),
        *("token_advantage", "finish_reason", "policy_version", "sampler_version", "created_at", "extra"),
        "trajectory_id",
    ),
)

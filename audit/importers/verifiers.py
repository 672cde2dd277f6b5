"""verifiers 0.2 and later: ``<output_dir>/<run>/traces.jsonl`` of an evaluation, with ``configs/``.

Read: verifiers/v1/{episode,trace,graph}.py, utils/trace_store.py and cli/output.py of the released 0.4.0, and
at the tags v0.2.0 and v0.3.0. A line is an episode with its traces, or, in 0.2, a trace. Rows are in order of
completion; those of one task are a group. Token ids and log-probs are there where the client that samples for
training was used.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from audit.importers import prime_rl
from audit.importers.interface import Book, Detection, Importer, Row, Source, Unit
from audit.importers.jsonl import first_record, records
from audit.importers.near import having, manifest_near
from audit.importers.traces import branches_of, traces_of
from audit.logs.manifest import Manifest

_OPTIONS = {
    "group_size": "num_rollouts",
    "model": "model",
    "sampling.temperature": "sampling.temperature",
    "sampling.top_p": "sampling.top_p",
    "sampling.max_tokens": "sampling.max_tokens",
}
EVALUATION = "an evaluation: no update was made from these rows, all are step 0"


def detect(path: Path) -> Detection | None:
    """Take a folder with ``traces.jsonl`` that no trainer wrote, or that file."""
    file = _file(path)
    record = None if file is None or prime_rl.place_of(file) is not None else first_record(file)
    if record is None or prime_rl.is_training(record):
        return None
    episode = "traces" in record and "task" in record
    if not episode and not {"nodes", "task", "rewards"} <= record.keys():
        return None
    return Detection(0.95, f"{'episodes' if episode else 'traces'} in {prime_rl.NAME}")


def units(path: Path) -> list[Unit]:
    """There is one file."""
    file = _file(path)
    return [] if file is None else [Unit(file.name, (file,))]


def rows(unit: Unit, source: Source, book: Book) -> Iterator[Row]:
    """Read the file."""
    del source
    book.note(EVALUATION)
    for record in records(unit.files[0], book):
        own = {"env": record.get("env"), "episode": record.get("id") if "traces" in record else None}
        for trace in traces_of(record, book):
            task = trace.get("task") or record.get("task")
            for branch in branches_of(trace, book):
                branch.row["extra"] |= own
                yield branch.row | {"step": 0, "group_id": _task(task)}


def manifest(path: Path) -> Manifest:
    """Read the run.json or the saved config of the evaluation."""
    return manifest_near(
        path,
        "verifiers",
        having("num_rollouts", "client", "taskset", "env"),
        options=_OPTIONS,
        more=("configs/resolved/eval.json", "configs/eval.json", "config.toml"),
    )


def _file(path: Path) -> Path | None:
    found = path if path.name == prime_rl.NAME else path / prime_rl.NAME
    try:
        return found if found.is_file() else None
    except OSError:
        return None


def _task(task: Any) -> str | None:
    """What names a task: its key, the hash of its data, or its place in the task set."""
    if not isinstance(task, Mapping):
        return None
    said = task.get("key") or task.get("hash")
    if isinstance(said, str):
        return said
    data = task.get("data")
    place = data.get("idx") if isinstance(data, Mapping) else None
    return f"{task.get('type')}:{place}" if isinstance(place, int) else None


IMPORTER = Importer(
    name="verifiers",
    title="verifiers 0.2 and later: traces.jsonl of an evaluation",
    detect=detect,
    units=units,
    rows=rows,
    manifest=manifest,
    grouping="prompt",
    cannot=(
        "no steps and no advantages; token ids and log-probs only where the client that samples for training "
        "was used"
    ),
    holds=(
        *("prompt", "response", "prompt_length", "length", "token_ids", "loss_mask", "reward"),
        *(
            "reward_components",
            "logp_sampler",
            "finish_reason",
            "created_at",
            "extra",
            "trajectory_id",
            "turn",
        ),
    ),
)

"""prime-rl's ``token_exports/`` opened alone: what the trainer saw, without texts, rewards and groups.

Read: src/prime_rl/trainer/rl/token_export.py at 559b44772 and v0.6.0 [read only]. In 0.6 nothing else of a
run has tokens. A response begins with the first token of the loss mask; rows of one prompt in a step are a
group.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from audit.importers.interface import Book, Detection, Importer, Row, Source, Unit
from audit.importers.jsonl import first_record, records
from audit.importers.near import manifest_near
from audit.importers.prime_rl import OPTIONS, fits
from audit.importers.prime_rl_exports import FOLDER, STABLE, columns_of, sequence_of
from audit.importers.store import in_numeric_order
from audit.logs.manifest import Manifest
from audit.logs.new_rows import hash_prompt

_STEP = re.compile(r"step_(\d+)")
_RANK = re.compile(r"rank_\d+\.jsonl")
_KEYS = {"schema_version", "token_ids", "loss_mask", "inference_logprobs", "trainer_logprobs"}
NO_SEQUENCE = "lists of the sequence are missing, of other kinds, or of several lengths"
UNTRAINED = "sequence without a token that takes loss"


def detect(path: Path) -> Detection | None:
    """Take ``token_exports``, a step in it, a rank's file, or a run that has nothing else."""
    for file in _files(path)[:3]:
        record = first_record(file)
        if record is not None:
            if not record.keys() >= _KEYS:
                return None
            # A run with traces or rollouts is theirs.
            sure = 0.95 if path.is_file() or path.name == FOLDER or _STEP.fullmatch(path.name) else 0.6
            return Detection(sure, f"keys inference_logprobs, trainer_logprobs in {file.name}")
    return None


def units(path: Path) -> list[Unit]:
    """Every step is one, over all ranks."""
    steps: dict[Path, list[Path]] = {}
    for file in _files(path):
        steps.setdefault(file.parent, []).append(file)
    return [Unit(folder.name, (*files, folder / STABLE)) for folder, files in steps.items()]


def rows(unit: Unit, source: Source, book: Book) -> Iterator[Row]:
    """Read one step."""
    del source
    *files, marker = unit.files
    if not marker.is_file():
        book.note(f"steps without {STABLE} were not finished by the trainer: sequences may be missing")
    for file in files:
        for record in records(file, book):
            sequence = sequence_of(record)
            if sequence is None:
                book.reject(NO_SEQUENCE)
                continue
            if not sequence.mask.any():
                book.reject(UNTRAINED)
                continue
            start = int(np.argmax(sequence.mask))
            yield {
                "step": record.get("step"),
                "prompt_id": hash_prompt(" ".join(map(str, sequence.ids[:start].tolist()))),
                "prompt_length": start,
                "token_ids": sequence.ids[start:],
                "extra": sequence.extra | {"env_name": record.get("env_name")},
                **columns_of(sequence, start),
            }


def manifest(path: Path) -> Manifest:
    """Read the run.json or ``configs/`` of the run."""
    whole = path.absolute()
    above = next((each for each in (whole, *whole.parents) if each.name == FOLDER), None)
    return manifest_near(above.parent if above is not None else path, "prime-rl", fits, options=OPTIONS)


def _files(path: Path) -> list[Path]:
    try:
        if path.is_file():
            return [path] if _RANK.fullmatch(path.name) else []
        for place in (f"{FOLDER}/step_*/", "step_*/", ""):
            found = [each for each in path.glob(f"{place}rank_*.jsonl") if each.is_file()]
            if found:
                return in_numeric_order(found)
    except (OSError, ValueError):
        pass
    return []


IMPORTER = Importer(
    name="prime-rl-tokens",
    title="prime-rl: token_exports/ alone",
    detect=detect,
    units=units,
    rows=rows,
    manifest=manifest,
    grouping="prompt",
    cannot="no texts, rewards, group ids or finish reasons",
    holds=(
        *("prompt_length", "length", "token_ids", "loss_mask", "logp_theta", "logp_sampler", "entropy"),
        *("advantage", "token_advantage", "extra"),
    ),
)

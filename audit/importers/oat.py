"""oat: ``--dump_replay_every K`` → ``{save_path}/buffer_step{N:05}.pkl``.

Read: oat 0.2.4 and c1a074c (2025-10-31, 0.2.3), oat/{types,learners/base,learners/rl,algorithms/ppo}.py. The
dump is a pickle of oat's own classes, which is never opened: one line, run where oat is installed, writes the
samples of all ranks beside it as ``….pkl.jsonl``. The reward stands on the last token.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from audit.errors import BadLog
from audit.importers.converted import converted_units
from audit.importers.interface import Book, Detection, Importer, Row, Source, Unit
from audit.importers.jsonl import records
from audit.importers.near import having, manifest_near
from audit.importers.store import in_numeric_order
from audit.importers.values import OddValue, flag, integers, number, numbers
from audit.logs.manifest import Manifest

CODE = (
    "import dataclasses, glob, json, pandas; "
    "[open(f + '.jsonl', 'w').writelines(json.dumps(dataclasses.asdict(t), default=str) + chr(10) "
    "for part in pandas.read_pickle(f)[2] for t in part) for f in glob.glob('buffer_step*.pkl')]"
)
RECIPE = f'python -c "{CODE}"'
_NAME = re.compile(r"buffer_step(\d+)\.pkl(?P<plain>\.jsonl)?")
_PLAIN = ".jsonl"
_OWN = {
    *("prompt", "prompt_ids", "response", "response_ids", "response_logprobs", "rewards", "loss_mask"),
    "info",
}
OPTIONS = {
    "group_size": "num_samples",
    "model": "pretrain",
    "seed": "seed",
    "sampling.temperature": "temperature",
    "sampling.top_p": "top_p",
    "sampling.max_tokens": "generate_max_length",
}
fits = having("critic_type", "num_samples")


def detect(path: Path) -> Detection | None:
    """Take the folder of the dumps, or one of them."""
    found = _files(path)
    return Detection(0.95, f"{found[0].name} of oat") if found else None


def units(path: Path) -> list[Unit]:
    """One a step, converted or not.

    Raises
    ------
    BadLog
        None is converted; says how.
    """
    return converted_units(path, _files(path), _PLAIN, "oat", RECIPE)


def rows(unit: Unit, source: Source, book: Book) -> Iterator[Row]:
    """Read one step.

    Raises
    ------
    BadLog
        It is not converted.
    """
    del source
    file = unit.files[0]
    if not file.name.endswith(_PLAIN):
        raise BadLog("a pickle that is not converted yet (the others are)")
    named = _NAME.fullmatch(file.name)
    for record in records(file, book):
        try:
            yield _row(record, int(named[1]) if named else 0)
        except OddValue as odd:
            book.reject(str(odd))


def manifest(path: Path) -> Manifest:
    """Read the run.json or the arguments (W&B keeps them) near the dump."""
    return manifest_near(path, "oat", fits, options=OPTIONS, packages=("oat-llm",))


def _files(path: Path) -> list[Path]:
    try:
        if path.is_file():
            return [_plain_of(path)] if _NAME.fullmatch(path.name) else []
        named = [f for f in path.glob("buffer_step*") if _NAME.fullmatch(f.name) and f.is_file()]
    except OSError:
        return []
    return in_numeric_order([_plain_of(f) for f in {f.name.removesuffix(_PLAIN): f for f in named}.values()])


def _plain_of(file: Path) -> Path:
    plain = file if file.name.endswith(_PLAIN) else file.with_name(file.name + _PLAIN)
    return plain if plain.is_file() else file


def _row(record: Row, step: int) -> Row:
    prompt = integers(record.get("prompt_ids"), "prompt_ids")
    ids = integers(record.get("response_ids"), "response_ids")
    kept = flag(record.get("loss_mask"), "loss_mask")
    rewards: Any = record.get("rewards")
    if isinstance(rewards, list):
        rewards = sum(each or 0.0 for each in numbers(rewards, "rewards") or [])
    told = record.get("info")
    row: Row = {
        "step": step,
        "prompt": record.get("prompt"),
        "response": record.get("response"),
        "prompt_length": None if prompt is None else len(prompt),
        "token_ids": ids,
        "loss_mask": None if ids is None or kept is None else [kept] * len(ids),
        "logp_sampler": record.get("response_logprobs"),
        "reward": number(rewards, "rewards"),
        "extra": {name: value for name, value in record.items() if name not in _OWN},
    }
    if isinstance(told, dict):
        row["extra"] |= {name: value for name, value in told.items() if isinstance(value, (int, float, str))}
    return row


IMPORTER = Importer(
    name="oat",
    title="oat: --dump_replay_every, converted (buffer_step*.pkl.jsonl)",
    detect=detect,
    units=units,
    rows=rows,
    manifest=manifest,
    grouping="prompt",
    cannot="no old, current or reference log-probs, no finish reasons and no advantages",
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
        "extra",
    ),
)

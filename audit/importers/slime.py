"""slime and miles: ``--dump-details DIR`` → ``DIR/rollout_data/{id}.pt`` and ``DIR/train_data/{id}*.pt``.

Read: slime at 624b824a8 (2026-08-21, after 0.3.1; observability/{rollout,train}_data_utils.py and
ray/rollout.py), slime v0.3.1 (utils/train_dump_utils.py, utils/types.py) and miles-rl 0.0.2. Ids start at 0.
A rollout file holds what was sampled; the train file what was trained on it, joined sample by sample.
"""

from __future__ import annotations

import re
import zipfile
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from audit.errors import BadLog
from audit.importers.interface import Book, Detection, Importer, Row, Source, Unit
from audit.importers.near import having, manifest_near
from audit.importers.slime_files import load, plain_of
from audit.importers.slime_groups import grouped
from audit.importers.slime_rows import Rewards, sampled, trained
from audit.importers.slime_train import Trained, read_trained
from audit.importers.store import in_numeric_order
from audit.importers.values import OddValue
from audit.logs.manifest import Manifest

_NAME = re.compile(r"(?P<eval>eval_)?(?P<id>\d+)(?:_(?P<rank>\d+))?\.pt(?P<plain>\.plain)?")
_OPTIONS = {
    "group_size": "n_samples_per_prompt",
    "model": "hf_checkpoint",
    "seed": "rollout_seed",
    "sampling.temperature": "rollout_temperature",
    "sampling.top_p": "rollout_top_p",
    "sampling.max_tokens": "rollout_max_response_len",
}
_HEAD = 2**16
_FOLDERS = ("rollout_data", "train_data")


def detect(path: Path) -> Detection | None:
    """Take a dump's folder, its rollout_data or train_data, or one of their files, by its first bytes."""
    if path.is_file():
        files = [path] if path.name.endswith((".pt", ".pt.plain")) else []
    else:
        files = [file for folder in _folders(path) for file in _dumps(folder)[:1]]
    for file in files:
        if (kind := _kind(file)) is not None:
            return Detection(0.95, f"{kind} data of slime in {file.name}")
    return None


def units(path: Path) -> list[Unit]:
    """One a rollout: its file, and what was trained on it. Files of evaluations are left out."""
    if path.is_file():
        beside = [path.parent.parent / "train_data"] if path.parent.name == "rollout_data" else []
        wanted = _id(path) if "eval_" not in path.name else None
        return [
            Unit(path.name, (plain_of(path), *(f for b in beside for f in _dumps(b) if _id(f) == wanted)))
        ]
    held: dict[int, list[Path]] = {}
    for folder in _folders(path):
        for file in _dumps(folder):
            held.setdefault(_id(file), []).append(file)
    return [Unit(str(key), tuple(held[key])) for key in sorted(held)]


def rows(unit: Unit, source: Source, book: Book) -> Iterator[Row]:
    """Read one rollout.

    Raises
    ------
    BadLog
        None of its files can be read; says how to convert them where they were made.
    """
    if unit.files[0].name.startswith("eval_"):
        book.note("samples of an evaluation: no update was made from these rows")
    elif any(unit.files[0].parent.glob("eval_*.pt")):
        book.note("eval_*.pt beside it are evaluations, left out here: open one by its name")
    samples, shards, step = None, [], _id(unit.files[0])
    failed: list[str] = []
    for file in unit.files:
        try:
            found = load(file)
        except BadLog as error:
            failed.append(str(error))
            book.skip(file, str(error))
            continue
        if isinstance(named := found.get("rollout_id"), int):
            step = named
        if isinstance(found.get("samples"), list) and "format_version" not in found and "rank" not in found:
            samples = found["samples"]
        else:
            shards.append(found)
    if samples is None and not shards:
        raise BadLog("; ".join(failed[:1]))
    made = read_trained(shards, book)
    if samples is None:
        book.note("no rollout file: rows are those of the train file, without texts and group ids")
        yield from grouped(_trained_alone(made, step, book), step, source.group_size, book)
        return
    joined = _joined(samples, made if shards else None, step, Rewards.of(source, book), book)
    named = all(isinstance(s, Mapping) and s.get("group_index") is not None for s in samples)
    yield from joined if named else grouped(joined, step, source.group_size, book)


def manifest(path: Path) -> Manifest:
    """Read the run.json or the arguments (W&B keeps them) near the dump."""
    return manifest_near(path, "slime", having("rollout_batch_size"), options=_OPTIONS)


def _joined(
    samples: list[Any], made: Trained | None, step: int, rewards: Rewards, book: Book
) -> Iterator[Row]:
    indices = _counted(samples, "index")
    several = _counted(samples, "rollout_id")
    turns: Counter[Any] = Counter()
    joined = 0
    for at, sample in enumerate(samples):
        if not isinstance(sample, Mapping):
            book.reject("a sample is no object")
            continue
        index = sample.get("index")
        single = isinstance(index, int) and indices[index] == 1
        one = made.find(at, index if single else None) if made is not None else None
        try:
            row = sampled(sample, step, rewards, None if one is None else one.raw_reward)
            if one is not None and one.fits(sample.get("tokens")):
                row |= trained(one.values, row, book)
                row["extra"] |= one.extra(row["reward"])
                joined += "logp_old" in row
            elif one is not None:
                book.note("samples whose tokens differ in rollout and train file were not joined")
            execution = sample.get("rollout_id")
            if isinstance(execution, int) and several[execution] > 1:
                row |= {"trajectory_id": f"{step}:{execution}", "turn": turns[execution]}
                turns[execution] += 1
            yield row
        except OddValue as odd:
            book.reject(str(odd))
    book.share("samples have trainer log-probs", joined, len(samples))


def _counted(samples: list[Any], name: str) -> Counter[int]:
    found = (each.get(name) for each in samples if isinstance(each, Mapping))
    return Counter(each for each in found if isinstance(each, int))


def _trained_alone(made: Trained, step: int, book: Book) -> Iterator[Row]:
    for one in made.all():
        try:
            row = one.as_row(step)
            row |= trained(one.values, row, book)
            row["extra"] |= one.extra(row["reward"])
            yield row
        except OddValue as odd:
            book.reject(str(odd))


def _folders(path: Path) -> list[Path]:
    """Where files may lie: below the dump's folder, or in the folder that was named and its sibling."""
    below = [path / name for name in _FOLDERS]
    if any(folder.is_dir() for folder in below):
        return below
    return [path, path.parent / "train_data"] if path.name == "rollout_data" else [path]


def _dumps(folder: Path) -> list[Path]:
    """Files of training, in order of their rollout."""
    try:
        named = [(f, m) for f in folder.iterdir() if (m := _NAME.fullmatch(f.name)) and not m["eval"]]
        found = [plain_of(f) for f, m in named if not m["plain"] and f.is_file()]
    except OSError:
        return []
    return in_numeric_order(found)


def _id(file: Path) -> int:
    named = _NAME.fullmatch(file.name)
    return int(named["id"]) if named else 0


def _kind(file: Path) -> str | None:
    """What the first bytes of the pickle inside name, which is not opened."""
    try:
        with zipfile.ZipFile(file) as archive:
            name = next((n for n in archive.namelist() if n.endswith("/data.pkl")), None)
            if name is None:
                return None
            with archive.open(name) as opened:
                head = opened.read(_HEAD)
    except (OSError, ValueError, RuntimeError, NotImplementedError, zipfile.BadZipFile):
        return None
    if b"rollout_id" not in head:
        return None
    if b"rollout_data" in head or b"format_version" in head:
        return "train"
    return "rollout" if b"samples" in head else None


IMPORTER = Importer(
    name="slime",
    title="slime and miles: --dump-details (rollout_data/*.pt, train_data/*.pt)",
    detect=detect,
    units=units,
    takes=frozenset({"reward"}),
    rows=rows,
    manifest=manifest,
    cannot="no log-probs of the current policy; without train_data no old log-probs and no advantages",
    holds=(
        *("trajectory_id", "turn", "prompt", "response", "prompt_length", "length", "token_ids", "loss_mask"),
        *("reward", "reward_components", "logp_old", "logp_ref", "logp_sampler", "entropy", "advantage"),
        *("token_advantage", "value", "finish_reason", "sampler_version", "extra"),
    ),
)

"""verl's text dumps: ``trainer.rollout_data_dir`` and ``trainer.validation_data_dir``, ``{step}.jsonl``.

Read in verl 0.4.1, 0.6.1, 0.7.1 and 0.9.1: verl/trainer/ppo/ray_trainer.py (``_log_rollout_data``,
``_validate``, ``_dump_generations``) and v1/trainer_base.py. A line holds ``input``, ``output``, ``score``,
``step``, ``gts`` (since 0.6) and the reward function's own keys, which replace those of the same name;
``uid`` (``{uuid}_{session}_{output}``) in the V1 trainer only. Rows of a step were re-ordered
(``balance_batch``), so groups without ``uid`` are all rows of one prompt text in a step.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

from audit.importers.interface import Book, Detection, Importer, Row, Scalar, Source, Unit
from audit.importers.jsonl import first_record, is_jsonl, records
from audit.importers.logged import logged
from audit.importers.near import ABOVE, having, manifest_near
from audit.importers.store import in_numeric_order
from audit.importers.values import OddValue, flag
from audit.importers.verl_reward import Rewards
from audit.importers.verl_uid import group_columns, session_of
from audit.logs.manifest import Manifest

_NAME = re.compile(r"(\d+)(?:_[\w.-]*)?\.jsonl(?:\.gz)?")
_OWN = {"input", "output", "score", "step", "uid"}
OPTIONS = {
    "group_size": "actor_rollout_ref.rollout.n",
    "model": "actor_rollout_ref.model.path",
    "sampling.temperature": "actor_rollout_ref.rollout.temperature",
    "sampling.top_p": "actor_rollout_ref.rollout.top_p",
    "sampling.max_tokens": "data.max_response_length",
}
_VALIDATION = {
    "group_size": "actor_rollout_ref.rollout.val_kwargs.n",
    "sampling.temperature": "actor_rollout_ref.rollout.val_kwargs.temperature",
    "sampling.top_p": "actor_rollout_ref.rollout.val_kwargs.top_p",
}
fits = having("actor_rollout_ref.actor", "actor_rollout_ref.rollout")


def detect(path: Path) -> Detection | None:
    """Take a folder of ``{step}.jsonl``, or one such file, by the keys of a first line."""
    for file in _files(path)[:3]:
        record = first_record(file)
        if record is not None:
            if not record.keys() >= {"input", "output", "score"}:
                return None
            sure = 0.95 if "step" in record and _NAME.fullmatch(file.name) else 0.6
            return Detection(sure, f"keys input, output, score in {file.name}")
    return None


def units(path: Path) -> list[Unit]:
    """Every step is a file of its own."""
    return [Unit(file.name, (file,)) for file in _files(path)]


def rows(unit: Unit, source: Source, book: Book) -> Iterator[Row]:
    """Read one step."""
    file = unit.files[0]
    named = _NAME.fullmatch(file.name)
    rewards = Rewards(source.manifest.config or {}, is_validation(file.parent, source.manifest.config), book)
    last: str | None = None
    for record, following in pairwise(chain(records(file, book), [{}])):
        session = session_of(record.get("uid"))
        several = session is not None and session in (last, session_of(following.get("uid")))
        last = session
        try:
            yield _row(record, named[1] if named else None, rewards, several=several)
        except OddValue as odd:
            book.reject(str(odd))


def is_validation(folder: Path, config: dict[str, Any] | None) -> bool:
    """Whether a folder holds validation samples: by the config, its name, or a step before training."""
    trainer = (config or {}).get("trainer")
    stated = trainer if isinstance(trainer, dict) else {}
    for key, told in (("rollout_data_dir", False), ("validation_data_dir", True)):
        place = stated.get(key)
        if isinstance(place, str) and Path(place).name == folder.name:
            return told
    words = re.split(r"[^a-z]+", folder.name.lower())
    return bool({"val", "valid", "validation", "eval"} & set(words)) or (folder / "0.jsonl").is_file()


def manifest(path: Path) -> Manifest:
    """Read the run.json or Hydra's config near the dump; of several runs the one that names this folder."""
    folder = path if path.is_dir() else path.parent

    def names_it(config: dict[str, Any]) -> bool:
        trainer = config.get("trainer")
        stated = [trainer.get(f"{kind}_data_dir") for kind in ("rollout", "validation")] if trainer else []
        return fits(config) and folder.name in {Path(s).name for s in stated if isinstance(s, str)}

    ran = ("outputs/*/*/.hydra/config.yaml", ".hydra/config.yaml")
    found = _near(path, names_it, ran)
    if found.config is None:
        found = _near(path, fits, ())
    if is_validation(folder, found.config):
        found = _near(path, names_it if names_it(found.config or {}) else fits, ran, _VALIDATION)
    return found


def scalars(path: Path) -> Iterator[Scalar]:
    """Yield what ``trainer.logger=[file]`` wrote to ``{project}/{experiment}.jsonl`` near the dump."""
    folder = (path if path.is_dir() else path.parent).absolute()
    trainer = (manifest(path).config or {}).get("trainer")
    project, experiment = (
        trainer.get(name) if isinstance(trainer, dict) else None
        for name in ("project_name", "experiment_name")
    )
    if not isinstance(project, str) or not isinstance(experiment, str):
        return
    if Path(project).is_absolute() or ".." in Path(project, experiment).parts:
        return
    for place in (folder, *list(folder.parents)[:ABOVE]):
        file = place / project / f"{experiment}.jsonl"
        if file.is_file():
            for record in records(file, Book()):
                data = record.get("data")
                yield from logged(record.get("step"), data if isinstance(data, dict) else {})
            return


def _near(path: Path, fitting: Any, more: tuple[str, ...], options: dict[str, str] | None = None) -> Manifest:
    taken = {**OPTIONS, **(options or {})}
    return manifest_near(path, "verl", fitting, options=taken, length_unit="characters", more=more)


def _files(path: Path) -> list[Path]:
    if path.is_file():
        return [path] if is_jsonl(path) else []
    try:
        return in_numeric_order([f for f in path.iterdir() if _NAME.fullmatch(f.name) and f.is_file()])
    except OSError:
        return []


def _row(record: Row, step: str | None, rewards: Rewards, *, several: bool) -> Row:
    row: Row = {
        "step": record.get("step", step),
        "prompt": record.get("input"),
        "response": record.get("output"),
        "reward": rewards.total(record),
        "reward_components": rewards.parts(record),
    }
    row |= group_columns(record.get("uid"), row["step"], several=several)
    try:
        row["correct"] = flag(record.get("acc"), "acc")
    except OddValue:
        row["correct"] = None
    taken = _OWN | (row["reward_components"] or {}).keys()
    row["extra"] = {name: value for name, value in record.items() if name not in taken}
    return row


IMPORTER = Importer(
    name="verl",
    title="verl: trainer.rollout_data_dir and validation_data_dir",
    detect=detect,
    units=units,
    rows=rows,
    manifest=manifest,
    grouping="prompt",
    scalars=scalars,
    holds=(
        *("prompt", "response", "reward", "reward_components", "correct"),
        *("trajectory_id", "turn", "extra"),
    ),
    cannot="no token ids, masks, log-probs, advantages, lengths or finish reasons",
)

"""SkyRL: ``trainer.dump_data_batch`` → ``dumped_data/global_step_{N}_training_input.pkl``.

Read: skyrl 0.4.0 (train/{trainer,dataset/preprocess}.py, backends/skyrl_train/training_batch.py) and
a9564572e (2026-08-21). The dump is a pickle of SkyRL's own class, which is never opened: one line, run where
SkyRL is installed, writes the same tensors beside it as ``….plain.pt``. Response tensors start at the left
before 2026-03-18 and end at the right since; response_mask says where they stand. Rewards are removed before
the dump.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from audit.errors import BadLog
from audit.importers.converted import converted_units
from audit.importers.interface import Book, Detection, Importer, Row, Source, Unit
from audit.importers.near import having, manifest_near
from audit.importers.plain_tensors import load_plain
from audit.importers.store import in_numeric_order
from audit.importers.values import OddValue
from audit.logs.manifest import Manifest
from audit.logs.new_rows import hash_prompt

CODE = (
    "import glob, json, pickle, torch; "
    "[torch.save({'tensors': {k: v.clone() for k, v in d.items() if isinstance(v, torch.Tensor)}, "
    "'others': json.dumps(d.metadata, default=str)}, f + '.plain.pt') "
    "for f in glob.glob('**/*_training_input.pkl', recursive=True) for d in [pickle.load(open(f, 'rb'))]]"
)
RECIPE = f'python -c "{CODE}"'
_NAME = re.compile(r"global_step_(\d+)_training_input\.pkl(?P<plain>\.plain\.pt)?")
_PLAIN = ".plain.pt"
_COLUMNS = {
    "action_log_probs": "logp_old",
    "base_action_log_probs": "logp_ref",
    "rollout_logprobs": "logp_sampler",
    "values": "value",
}
OPTIONS = {
    "group_size": "generator.n_samples_per_prompt",
    "model": "trainer.policy.model.path",
    "seed": "trainer.seed",
    "sampling.temperature": "generator.sampling_params.temperature",
    "sampling.top_p": "generator.sampling_params.top_p",
    "sampling.max_tokens": "generator.sampling_params.max_generate_length",
}
fits = having("generator.n_samples_per_prompt", "trainer.algorithm.policy_loss_type")


def detect(path: Path) -> Detection | None:
    """Take ``dumped_data``, the export directory that holds it, or one of its files."""
    found = _files(path)
    return Detection(0.95, f"{found[0].name} of SkyRL") if found else None


def units(path: Path) -> list[Unit]:
    """One a step, converted or not.

    Raises
    ------
    BadLog
        None is converted; says how.
    """
    return converted_units(path, _files(path), _PLAIN, "SkyRL", RECIPE)


def rows(unit: Unit, source: Source, book: Book) -> Iterator[Row]:
    """Read one step.

    Raises
    ------
    BadLog
        It is not converted, or holds something else.
    """
    del source
    file = unit.files[0]
    if not file.name.endswith(_PLAIN):
        raise BadLog("a pickle that is not converted yet (the others are)")
    tensors, others = _parts(load_plain(file), file)
    named = _NAME.fullmatch(file.name)
    step = int(named[1]) if named else 0
    count = len(tensors["sequences"])
    padding = others.get("pad_size")
    if isinstance(padding, int) and 0 < padding <= count:
        book.reject("padding of the batch, which takes no loss", padding)
        count -= padding
    group, mini = (
        _places(others.get(f"policy_{name}_boundaries"), count) for name in ("prompt", "mini_batch")
    )
    for at in range(count):
        try:
            row = _row(tensors, at)
        except OddValue as odd:
            book.reject(str(odd))
            continue
        row |= {"step": step, "group_id": f"{step}:{group[at]}" if at in group else None}
        row["extra"] = {"mini_batch": mini.get(at)}
        yield row


def manifest(path: Path) -> Manifest:
    """Read the run.json or the config (W&B keeps it) near the dump."""
    return manifest_near(path, "skyrl", fits, options=OPTIONS, packages=("skyrl", "skyrl-train"))


def _files(path: Path) -> list[Path]:
    try:
        if path.is_file():
            return [_plain_of(path)] if _NAME.fullmatch(path.name) else []
        for folder in (path, path / "dumped_data"):
            named = [(f, m) for f in folder.glob("global_step_*") if (m := _NAME.fullmatch(f.name))]
            found = {f.name.removesuffix(_PLAIN): f for f, _ in named if f.is_file()}
            if found:
                return in_numeric_order([_plain_of(f) for f in found.values()])
    except OSError:
        pass
    return []


def _plain_of(file: Path) -> Path:
    plain = file if file.name.endswith(_PLAIN) else file.with_name(file.name + _PLAIN)
    return plain if plain.is_file() else file


def _parts(held: Any, file: Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    try:
        tensors = {
            str(name): np.asarray(values.double() if values.is_floating_point() else values)
            for name, values in held["tensors"].items()
        }
        others = json.loads(held["others"]) or {}
        shapes = [tensors[name].shape for name in ("sequences", "attention_mask", "response_mask")]
        if shapes[0] != shapes[1] or any(len(each) != 2 for each in shapes) or shapes[2][0] != shapes[0][0]:
            raise ValueError
        if not isinstance(others, dict):
            raise TypeError
    except (TypeError, KeyError, AttributeError, ValueError, RuntimeError, RecursionError):
        raise BadLog(f"{file.name}: holds no batch of SkyRL; convert the pickle again: {RECIPE}") from None
    return tensors, others


def _places(boundaries: Any, count: int) -> dict[int, int]:
    """Row → which pair of (start, end) it lies in; pairs that overlap or lie outside say nothing."""
    found: dict[int, int] = {}
    for name, pair in enumerate(boundaries if isinstance(boundaries, list) else []):
        if not isinstance(pair, list) or len(pair) != 2 or not all(isinstance(each, int) for each in pair):
            return {}
        inside = range(max(pair[0], 0), min(pair[1], count))
        if any(at in found for at in inside):
            return {}
        found |= dict.fromkeys(inside, name)
    return found


def _row(tensors: Mapping[str, np.ndarray], at: int) -> Row:
    # Prompt and response follow each other in both layouts, padding between them or not.
    ids = tensors["sequences"][at][tensors["attention_mask"][at] != 0]
    said = tensors["response_mask"][at] != 0
    length = int(said.sum())
    if length > len(ids):
        raise OddValue("response_mask has more tokens than attention_mask")
    prompt = ids[: len(ids) - length]
    row: Row = {
        "prompt_id": hash_prompt(" ".join(map(str, prompt.tolist()))),
        "prompt_length": len(prompt),
        "token_ids": ids[len(prompt) :],
        "loss_mask": np.ones(length, bool),
    }
    for name, column in (*_COLUMNS.items(), ("loss_mask", "loss_mask"), ("advantages", "token_advantage")):
        if (values := tensors.get(name)) is None:
            continue
        if values.shape != tensors["response_mask"].shape:
            raise OddValue(f"{name} and response_mask differ in shape")
        kept = values[at][said]
        row[column] = kept != 0 if column == "loss_mask" else kept.astype(np.float64)
    advantages = row.get("token_advantage")
    if advantages is not None:
        trained = advantages[row["loss_mask"]]
        if len(trained) and np.all(trained == trained[0]):
            row |= {"advantage": float(trained[0]), "token_advantage": None}
    return row


IMPORTER = Importer(
    name="skyrl",
    title="SkyRL: trainer.dump_data_batch, converted (….pkl.plain.pt)",
    detect=detect,
    units=units,
    rows=rows,
    manifest=manifest,
    grouping="blocks",
    cannot="no rewards, no texts, no log-probs of the current policy and no finish reasons",
    holds=(
        *("prompt_length", "length", "token_ids", "loss_mask", "logp_old", "logp_ref", "logp_sampler"),
        *("advantage", "token_advantage", "value", "extra"),
    ),
)

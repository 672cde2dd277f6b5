"""verl's rollout-skip dumps (``skip.rollout``, ``skip.rollout_tq``, ``skip_rollout``): ids and log-probs.

Read in verl 0.6.1, 0.7.1 (verl/utils/rollout_skip.py) and 0.9.1 (verl/utils/skip/rollout_skip.py,
verl/protocol.py, verl/trainer/ppo/v1/agent_loop_tq.py). The dump is a pickle of verl's own classes, which is
never opened: one line, run where verl is installed, writes the same tensors beside it as ``….plain.pt``,
which holds nothing but tensors and JSON. It is a cache, not a log: verl may have trained on it at other
steps, or in another run, than sampled it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from audit.errors import BadLog
from audit.importers.interface import Book, Detection, Importer, Row, Source, Unit
from audit.importers.near import manifest_near
from audit.importers.plain_tensors import load_plain
from audit.importers.store import in_numeric_order
from audit.importers.values import OddValue
from audit.importers.verl import OPTIONS, fits
from audit.importers.verl_uid import group_columns
from audit.logs.manifest import Manifest
from audit.logs.new_rows import hash_prompt

CODE = (
    "import glob, json, torch; from verl import DataProto; "
    "r = lambda t: {k: [x.clone() for x in v.unbind()] for k, v in t.items() "
    "if isinstance(v, torch.Tensor)}; "
    "s = lambda t, o, f: "
    "torch.save({'tensors': r(t), 'others': json.dumps(o, default=str)}, f + '.plain.pt'); "
    "[s(d.batch, {k: v.tolist() for k, v in d.non_tensor_batch.items()}, f) "
    "for f in glob.glob('**/gen_batch.dp', recursive=True) + glob.glob('*_GBS*__N*[0-9]') "
    "for d in [DataProto.load_from_disk(f)]]; "
    "[s(d['tensordict'], {'keys': d['keys'], 'tags': d['tags']}, f) "
    "for f in glob.glob('**/tq_batch.pt', recursive=True) for d in [torch.load(f, weights_only=False)]]"
)
RECIPE = f'python -c "{CODE}"'
_PLAIN = ".plain.pt"
_PATTERNS = ("", "*/", "*/*/")
_FILES = ("gen_batch.dp", "tq_batch.pt")
_READ = {"attention_mask", "prompts", "responses", "response_mask", "rm_scores", "rollout_log_probs"}
_SCALARS = {"rm_scores"}
"""One number a response, or one a token."""
_OLD = re.compile(r".+_GBS\d+__N\d+")


def detect(path: Path) -> Detection | None:
    """Take a folder of steps, a step's folder, or the dump itself."""
    found = _dumps(path)
    return Detection(0.95, f"{found[0].name} of verl's rollout skip") if found else None


def units(path: Path) -> list[Unit]:
    """One a dump, converted or not.

    Raises
    ------
    BadLog
        None is converted: says how to do it.
    """
    found = _dumps(path)
    if not any(_plain(file).is_file() for file in found):
        msg = (
            f"{path}: verl's rollout-skip dump is a pickle and is not opened. In this folder, where verl is "
            f"installed, run: {RECIPE}"
        )
        raise BadLog(msg)
    root = path if path.is_dir() else path.parent
    names = [file.relative_to(root).as_posix() for file in found]
    files = [_plain(file) if _plain(file).is_file() else file for file in found]
    return [Unit(name, (file,)) for name, file in zip(names, files, strict=True)]


def rows(unit: Unit, source: Source, book: Book) -> Iterator[Row]:
    """Read one dump.

    Raises
    ------
    BadLog
        It is not converted, or holds something else.
    """
    del source
    file = unit.files[0]
    if not file.name.endswith(_PLAIN):
        raise BadLog("a pickle that is not converted yet (the others are)")
    held = load_plain(file)
    tensors, others = _parts(held, file)
    book.note(
        "a rollout cache: verl may have trained on these rows at other steps, or in another run, than "
        "sampled them"
    )
    step = _step(file)
    if step is None:
        book.note("the dump names no step: 0 stands for it")
    for at in range(min(map(len, tensors.values()), default=0)):
        try:
            yield _row(tensors, others, at, step or 0)
        except OddValue as odd:
            book.reject(str(odd))


def manifest(path: Path) -> Manifest:
    """Read the run.json or Hydra's config near the dump."""
    return manifest_near(path, "verl", fits, options=OPTIONS)


def _dumps(path: Path) -> list[Path]:
    try:
        if path.is_file():
            name = path.name.removesuffix(_PLAIN)
            return [path.with_name(name)] if name in _FILES or _OLD.fullmatch(name) else []
        for pattern in _PATTERNS:
            near = [f for name in _FILES for f in path.glob(f"{pattern}{name}*") if f.is_file()]
            if pattern == "":
                near += [f for f in path.iterdir() if "_GBS" in f.name and f.is_file()]
            found = {f.with_name(f.name.removesuffix(_PLAIN)) for f in near}
            kept = [f for f in found if f.name in _FILES or _OLD.fullmatch(f.name)]
            if kept:
                return in_numeric_order(kept)
    except OSError:
        pass
    return []


def _plain(file: Path) -> Path:
    return file.with_name(f"{file.name}{_PLAIN}")


def _step(file: Path) -> int | None:
    """The step that the dump's meta.json names, else its folder."""
    try:
        found = json.loads((file.parent / "meta.json").read_text()).get("global_steps")
        if isinstance(found, int):
            return found
    except (OSError, ValueError, AttributeError, RecursionError):
        pass
    return next((int(part) for part in (file.parent.name, file.parent.parent.name) if part.isdecimal()), None)


def _parts(held: Any, file: Path) -> tuple[dict[str, Sequence[Any]], dict[str, Any]]:
    try:
        tensors: dict[str, Sequence[Any]] = {
            str(name): list(values) for name, values in held["tensors"].items()
        }
        others = json.loads(held["others"])
        if not tensors.keys() >= {"prompts", "responses"} or not isinstance(others, dict):
            raise TypeError
    except (TypeError, KeyError, AttributeError, ValueError, RecursionError):
        raise BadLog(f"{file.name}: holds no prompts and responses; convert it again: {RECIPE}") from None
    return tensors, others


def _row(tensors: Mapping[str, Sequence[Any]], others: Mapping[str, Any], at: int, step: int) -> Row:
    one = {name: _array(values[at], name) for name, values in tensors.items() if name in _READ}
    prompt, response = one["prompts"], one["responses"]
    attention = one.get("attention_mask", np.ones(len(prompt) + len(response)))
    if len(attention) != len(prompt) + len(response):
        raise OddValue("attention_mask does not cover prompt and response")
    asked, said = attention[: len(prompt)] != 0, attention[len(prompt) :] != 0
    ids = prompt[asked]
    row: Row = {
        "step": step,
        "prompt_id": hash_prompt(" ".join(str(int(each)) for each in ids)),
        "prompt_length": len(ids),
        "token_ids": response[said],
        "reward": float(one["rm_scores"].astype(np.float64).sum()) if "rm_scores" in one else None,
    }
    for name, column in (("response_mask", "loss_mask"), ("rollout_log_probs", "logp_sampler")):
        if name in one:
            if len(one[name]) != len(response):
                raise OddValue(f"{name} and responses differ in length")
            kept = one[name][said]
            row[column] = kept != 0 if column == "loss_mask" else kept.astype(np.float64)
    told = {name: each[at] for name, each in others.items() if isinstance(each, list) and at < len(each)}
    row |= group_columns(told.pop("keys", told.pop("uid", None)), step)
    tags = told.pop("tags", None)
    versions = tags if isinstance(tags, dict) else told
    if isinstance(low := versions.get("min_global_steps"), int) and low == versions.get("max_global_steps"):
        row["sampler_version"] = low
    if isinstance(messages := told.get("raw_prompt"), list):
        row["prompt"] = messages
        del told["raw_prompt"]
    row["extra"] = told | ({"tags": tags} if tags else {})
    return row


def _array(value: Any, name: str) -> np.ndarray:
    import torch

    # NumPy has no bfloat16.
    made = np.asarray(
        value.float() if isinstance(value, torch.Tensor) and value.is_floating_point() else value
    )
    if (made.ndim != 1 and not (made.ndim == 0 and name in _SCALARS)) or made.dtype.kind not in "biuf":
        raise OddValue(f"{name} is no list of numbers")
    return made


IMPORTER = Importer(
    name="verl-skip",
    title="verl: skip.rollout dump, converted (….plain.pt)",
    detect=detect,
    units=units,
    rows=rows,
    manifest=manifest,
    grouping="prompt",
    holds=(
        *("prompt", "prompt_length", "length", "token_ids", "loss_mask", "logp_sampler"),
        *("reward", "sampler_version", "extra"),
    ),
    cannot="no old or reference log-probs, no advantages and no finish reasons",
)

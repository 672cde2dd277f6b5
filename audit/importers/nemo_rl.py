"""NeMo-RL's ``<logger.log_dir>/exp_NNN/train_data_step{N}.jsonl`` and ``val_data_step{N}.jsonl``.

Read: nemo_rl/algorithms/grpo.py, grpo_sync.py, ppo.py and nemo_rl/utils/logger.py at 7ea279abf (after 0.7.0)
and at the tags v0.4.0, v0.5.0 and v0.6.0. Every value but ``idx`` is in a list of length one. Token ids,
masks and advantages came with 0.6; steps start at 0 before 0.5. Rows stand in blocks of one prompt; there is
no group id.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from audit.importers.interface import Book, Detection, Importer, Row, Source, Unit
from audit.importers.jsonl import first_record, records
from audit.importers.near import having, manifest_near
from audit.importers.nemo_rl_tokens import messages, only, tokens
from audit.importers.store import in_numeric_order
from audit.importers.values import OddValue, number
from audit.logs.manifest import Manifest
from audit.logs.new_rows import hash_prompt

_NAME = re.compile(r"(train|val)_data_step(\d+)\.jsonl(?:\.gz)?")
_OWN = {
    *("advantages", "content", "filtered_rewards", "generation_logprobs", "idx", "input_lengths"),
    *("prev_logprobs", "rewards", "sample_loss_mask", "token_ids", "token_loss_mask"),
}
_OPTIONS = {
    "group_size": "grpo.num_generations_per_prompt",
    "model": "policy.model_name",
    "seed": "grpo.seed",
    "sampling.temperature": "policy.generation.temperature",
    "sampling.top_p": "policy.generation.top_p",
    "sampling.max_tokens": "policy.generation.max_new_tokens",
}
_CHECKPOINTS = (
    *("step_*/config.yaml", "*/step_*/config.yaml", "results/*/step_*/config.yaml"),
    *("checkpoints/*/step_*/config.yaml", "ckpts/*/step_*/config.yaml"),
)
_WANDB = ("wandb/wandb/latest-run/files/config.yaml", "wandb/wandb/run-*/files/config.yaml")
fits = having("grpo.num_generations_per_prompt", "grpo.num_prompts_per_step", "loss_fn.ratio_clip_min")


def detect(path: Path) -> Detection | None:
    """Take an ``exp_NNN`` folder, or one of its files."""
    for file in _files(path)[:3]:
        record = first_record(file)
        if record is not None:
            sure = "rewards" in record and "idx" in record
            return Detection(0.95, f"keys rewards, idx in {file.name}") if sure else None
    return None


def units(path: Path) -> list[Unit]:
    """Every step is a file of its own; where there are steps of training, validation is left out."""
    return [Unit(file.name, (file,)) for file in _files(path)]


def rows(unit: Unit, source: Source, book: Book) -> Iterator[Row]:
    """Read one step."""
    file = unit.files[0]
    named = _NAME.fullmatch(file.name)
    kind, step = (named[1], int(named[2])) if named else ("train", 0)
    if kind == "val":
        book.note("validation samples: no update was made from these rows")
    elif not source.path.is_file() and any(file.parent.glob("val_data_step*.jsonl*")):
        book.note(
            "val_data_step*.jsonl beside it are validation samples, left out here: open one by its name"
        )
    for record in records(file, book):
        for each in _entries(record):
            try:
                yield _row(each, step, book)
            except OddValue as odd:
                book.reject(str(odd))


def manifest(path: Path) -> Manifest:
    """Read the run.json near the log, else a checkpoint's config.yaml that names this folder, or W&B's."""
    folder = path if path.is_dir() else path.parent

    def names_it(config: dict[str, Any]) -> bool:
        logger = config.get("logger")
        place = logger.get("log_dir") if isinstance(logger, Mapping) else None
        return fits(config) and isinstance(place, str) and Path(place).name == folder.name

    found = manifest_near(path, "nemo-rl", names_it, options=_OPTIONS, more=(*_CHECKPOINTS, *_WANDB))
    if found.config is None:
        found = manifest_near(path, "nemo-rl", fits, options=_OPTIONS, more=_WANDB)
    return found


def _files(path: Path) -> list[Path]:
    if path.is_file():
        return [path] if _NAME.fullmatch(path.name) else []
    try:
        found = in_numeric_order([f for f in path.iterdir() if _NAME.fullmatch(f.name) and f.is_file()])
    except OSError:
        return []
    return [file for file in found if file.name.startswith("train")] or found


def _entries(record: Row) -> Iterator[Row]:
    """A line is one sample; one that holds a list of several rewards is as many."""
    held = record.get("rewards")
    several = len(held) if isinstance(held, list) else 1
    if several < 2:
        yield record
        return
    for at in range(several):
        yield {
            name: [value[at]] if isinstance(value, list) and len(value) == several else value
            for name, value in record.items()
        }


def _row(record: Row, step: int, book: Book) -> Row:
    inner = {name: only(value) for name, value in record.items()}
    if "filtered_rewards" in inner:
        if inner["filtered_rewards"] is None:
            raise OddValue("no trained sample in this line (dynamic sampling logs the reward of all samples)")
        book.note(
            "dynamic sampling: reward is filtered_rewards; rewards holds other samples, so it was left out"
        )
    reward = inner["filtered_rewards"] if "filtered_rewards" in inner else inner.get("rewards")
    found = tokens(inner, book)
    prompt, response = messages(inner.get("content"), found.mask)
    row: Row = {
        "step": step,
        "reward": number(reward, "rewards"),
        "prompt": prompt,
        "response": response,
        "extra": {name: value for name, value in record.items() if name not in _OWN},
        **found.columns,
    }
    if prompt is None and found.prompt:
        row["prompt_id"] = hash_prompt(" ".join(map(str, found.prompt)))
    return row


IMPORTER = Importer(
    name="nemo-rl",
    title="NeMo-RL: exp_NNN/train_data_step*.jsonl",
    detect=detect,
    units=units,
    rows=rows,
    manifest=manifest,
    grouping="blocks",
    holds=(
        *("prompt", "response", "prompt_length", "length", "token_ids", "loss_mask", "reward"),
        *("logp_sampler", "logp_old", "advantage", "token_advantage", "extra"),
    ),
    cannot="no log-probs of the current policy or the reference, no finish reasons and no group ids",
)

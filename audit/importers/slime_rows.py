"""One sample of slime → columns of the rollout schema: what was sampled, and what was trained on it.

All lists of a sample are over response tokens; tokens of tools have a sampler log-prob of 0 and no loss.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from audit.importers.finish import finish_reason
from audit.importers.interface import Book, Row, Source
from audit.importers.values import OddValue, integer, number, text
from audit.logs.new_rows import hash_prompt

_COLUMNS = {
    "log_probs": "logp_old",
    "ref_log_probs": "logp_ref",
    "rollout_log_probs": "logp_sampler",
    "entropy": "entropy",
    "values": "value",
}
_OWN = {
    *("group_index", "prompt", "tokens", "response", "response_length", "reward", "loss_mask"),
    *("rollout_log_probs", "weight_versions", "status"),
}
_WHICH = (
    "reward is an object: say which number counts (rlaudit import --column reward=NAME, or [columns] in "
    "rlaudit.toml)"
)
_LEFT = {"returns", "kl", "opd_reverse_kl", "teacher_log_probs"}


class Rewards(NamedTuple):
    """How the reward of a sample is read."""

    key: str | None
    book: Book

    @classmethod
    def of(cls, source: Source, book: Book) -> Rewards:
        """Take the key from what the user says of column reward, else ``--reward-key`` of the run."""
        key = source.options.columns.get("reward") or (source.manifest.config or {}).get("reward_key")
        return cls(key if isinstance(key, str) and key else None, book)

    def read(self, reward: Any, raw: Any) -> tuple[float | None, Row | None]:
        """Return the scalar and its parts; without a key the train file's scalar stands for an object."""
        if not isinstance(reward, Mapping):
            return number(reward, "reward"), None
        parts = {str(name): value for name, value in reward.items() if _is_number(value)}
        if self.key is not None and self.key in reward:
            return number(reward[self.key], f"reward {self.key!r}"), parts
        if _is_number(raw):
            return number(raw, "raw_reward"), parts
        if len(parts) == 1:
            (name,) = parts
            self.book.note(f"the reward is an object with one number, {name}, which is taken")
            return number(parts[name], "reward"), parts
        raise OddValue(_WHICH)


def sampled(sample: Mapping[str, Any], step: int, rewards: Rewards, raw: Any) -> Row:
    """Return what a rollout file says of a sample.

    Raises
    ------
    OddValue
        A value cannot be what its name says, or lists differ in length.
    """
    prompt, columns = response_of(
        sample.get("tokens"),
        sample.get("response_length"),
        sample.get("loss_mask"),
        sample.get("remove_sample"),
    )
    reward, parts = rewards.read(sample.get("reward"), raw)
    asked = text(sample.get("prompt")) or None
    status = sample.get("status")
    group = sample.get("group_index")
    row: Row = {
        "step": step,
        # Counted over the run, and again from where a restarted one was saved.
        "group_id": None if group is None else f"{step}:{group}",
        "prompt_id": hash_prompt(asked if asked is not None else " ".join(map(str, prompt))),
        "prompt": asked,
        "response": sample.get("response"),
        "reward": reward,
        "reward_components": parts,
        "finish_reason": None if status == "pending" else finish_reason(status),
        "sampler_version": _version(sample.get("weight_versions")),
        "extra": {
            name: value
            for name, value in sample.items()
            if name not in _OWN and _is_told(value) and not name.startswith("rollout_")
        },
        **columns,
    }
    chances = sample.get("rollout_log_probs")
    if chances is not None and not (isinstance(chances, list) and not chances):
        row["logp_sampler"] = _list(chances, columns["length"], "rollout_log_probs")
    return row


def trained(values: Mapping[str, Any], row: Row, book: Book) -> Row:
    """Return what a train file adds to a row; a list of another length is a part of a sharded one."""
    length = row["length"]
    made: Row = {}
    if (mask := values.get("loss_masks")) is not None:
        try:
            made["loss_mask"] = _list(mask, length, "loss_masks") != 0
        except OddValue:
            _sharded("loss_masks", book)
    for name, column in _COLUMNS.items():
        if values.get(name) is None or row.get(column) is not None:
            continue
        try:
            made[column] = _list(values[name], length, name)
        except OddValue:
            _sharded(name, book)
    if values.get("advantages") is not None:
        try:
            made |= _advantage(
                _list(values["advantages"], length, "advantages"), {**row, **made}["loss_mask"]
            )
        except OddValue:
            _sharded("advantages", book)
    if left := sorted(_LEFT & {name for name, value in values.items() if value is not None}):
        book.note(f"lists that the schema has no column for are left out: {', '.join(left)}")
    return made


def response_of(tokens: Any, length: Any, mask: Any, removed: Any = False) -> tuple[list[int], Row]:
    """Return the ids of the prompt, and the columns of the response's ids, mask and lengths.

    Raises
    ------
    OddValue
        They do not fit each other.
    """
    ids = _numbers(tokens, "tokens") if tokens is not None else np.empty(0)
    if ids.dtype.kind == "f" and len(ids):
        raise OddValue("tokens are no whole numbers")
    said = integer(length, "response_length")
    if said is None or not 0 <= said <= len(ids):
        raise OddValue("response_length is not within the tokens")
    start = len(ids) - said
    kept = np.ones(said, bool) if mask is None else _list(mask, said, "loss_mask") != 0
    if removed is True:
        kept = np.zeros(said, bool)
    columns: Row = {"prompt_length": start, "length": said, "token_ids": ids[start:], "loss_mask": kept}
    return ids[:start].tolist(), columns


def _advantage(values: np.ndarray, mask: np.ndarray) -> Row:
    """One number where all trained tokens have the same."""
    kept = values[mask]
    if len(kept) and np.all(kept == kept[0]):
        return {"advantage": float(kept[0])}
    return {"token_advantage": values} if len(kept) else {}


def _list(values: Any, length: int, name: str) -> np.ndarray:
    found = _numbers(values, name)
    if len(found) != length:
        raise OddValue(f"{name} and the response differ in length")
    return found


def _numbers(values: Any, name: str) -> np.ndarray:
    # NumPy knows no bfloat16.
    if hasattr(values, "is_floating_point"):
        values = values.detach().double() if values.is_floating_point() else values.detach()
    try:
        made = np.asarray(values)
    except (ValueError, TypeError, RuntimeError):
        made = np.empty((0, 0))
    if made.size == 0 and made.ndim == 1:
        return np.empty(0, np.int64)
    if made.ndim != 1 or made.dtype.kind not in "biuf":
        raise OddValue(f"{name} is no list of numbers")
    return made.astype(np.float64) if made.dtype.kind == "f" else made.astype(np.int64)


def _sharded(name: str, book: Book) -> None:
    book.note(
        f"{name} of another length than the response is left out: a part of a list that context parallelism "
        "cut up (slime to 0.3.1, miles)"
    )


def _version(found: Any) -> int | None:
    """The policy's version where all parts of a response have one."""
    if not isinstance(found, list) or not found:
        return None
    try:
        versions = {integer(each, "weight_versions") for each in found}
    except OddValue:
        return None
    return versions.pop() if len(versions) == 1 else None


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_told(value: Any) -> bool:
    """Whether a value says anything that JSON can keep."""
    if hasattr(value, "is_floating_point"):
        return False
    return value is not None and value is not False and value not in ("", {}, [])

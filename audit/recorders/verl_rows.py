"""The rows of one batch of verl.

Read in 0.9.1: verl/trainer/ppo/ray_trainer.py (``fit``), v1/trainer_base.py. Tensors: ``prompts`` (B, P)
padded on the left, ``responses``, ``response_mask``, ``old_log_probs``, ``ref_log_prob``,
``rollout_log_probs``, ``advantages``, ``values``, ``token_level_scores`` (B, T) padded on the right,
``attention_mask`` (B, P + T). ``response_mask`` is 0 at tool tokens, and at tokens that rejection sampling
took out, so lengths are those of ``attention_mask``.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from audit.errors import BadLog
from audit.importers.verl_uid import group_columns
from audit.logs import hash_prompt
from audit.recorders.rows import Array, Mask, Padded, list_column, map_column, nullable

LOGPS = {
    "logp_old": ("old_log_probs",),
    "logp_ref": ("ref_log_prob", "ref_log_probs"),
    "logp_sampler": ("rollout_log_probs",),
    "value": ("values",),
    "entropy": ("entropy", "entropys"),
}
"""Column → names that verl gives it."""
_REWARDS = ("token_level_scores", "rm_scores", "token_level_rewards")
"""Before the KL in the reward, where verl has that."""
_OWN = {"uid", "raw_prompt", "raw_prompt_ids", "tools_kwargs", "interaction_kwargs", "multi_modal_inputs"}


def rows_of(batch: Any, step: int, *, tokenizer: Any = None, one_update: bool = False) -> pa.Table:
    """Make the rows of a batch with advantages.

    Parameters
    ----------
    batch : verl.DataProto
        Or anything with its ``batch`` (tensors by name), ``non_tensor_batch`` and ``meta_info``.
    step : int
        verl's ``global_steps``.
    tokenizer : optional
        Adds texts and finish reasons.
    one_update : bool
        Whether the batch made one optimiser step: then old and current log-probs are of the same weights.

    Raises
    ------
    BadLog
        A tensor that every row needs is not there.
    """
    tensors, others = batch.batch, batch.non_tensor_batch
    names = set(tensors.keys())
    for name in ("prompts", "responses", "attention_mask"):
        if name not in names:
            msg = f"verl batch: no tensor '{name}'; has {', '.join(sorted(names))}."
            raise BadLog(msg)
    prompts, responses = _numpy(tensors["prompts"]), _numpy(tensors["responses"])
    size, width = responses.shape
    attention = _numpy(tensors["attention_mask"]).astype(np.bool_)
    read, valid = attention[:, :-width], attention[:, -width:]
    mask = _numpy(tensors["response_mask"]).astype(np.bool_) if "response_mask" in names else valid
    columns: dict[str, Any] = {
        "step": np.full(size, step, dtype=np.int64),
        **_groups(others.get("uid"), step, size),
        "prompt_length": read.sum(axis=1).astype(np.int32),
        "length": valid.sum(axis=1).astype(np.int32),
        "token_ids": list_column([Padded(responses, valid)], pa.int32()),
        "loss_mask": list_column([Padded(mask, valid)], pa.bool_()),
        "policy_version": np.full(size, step - 1, dtype=np.int64),
        **_rewards(tensors, names, others, getattr(batch, "meta_info", None) or {}, size),
        **_versions(others, step, size),
    }
    if one_update:
        columns["update"] = columns["step"]
    for column, given in LOGPS.items():
        found = next((name for name in given if name in names), None)
        if found is not None:
            columns[column] = list_column([Padded(_numpy(tensors[found]), valid)], pa.float32())
    if one_update and "logp_old" in columns:
        columns["logp_theta"] = columns["logp_old"]
    if "advantages" in names:
        columns |= advantages_of(_numpy(tensors["advantages"]), mask & valid, valid)
    ids = [row[kept].tolist() for row, kept in zip(prompts, read, strict=True)]
    if tokenizer is None:
        columns["prompt_id"] = [hash_prompt(" ".join(map(str, row))) for row in ids]
    else:
        written = [row[kept].tolist() for row, kept in zip(responses, valid, strict=True)]
        columns["prompt"] = [tokenizer.decode(row, skip_special_tokens=True) for row in ids]
        columns["prompt_id"] = [hash_prompt(text) for text in columns["prompt"]]
        columns["response"] = [tokenizer.decode(row, skip_special_tokens=True) for row in written]
        columns["finish_reason"] = pa.array(_ends(written, width, tokenizer), pa.string())
    kept = pa.table(columns)
    return _with_greedy(kept, tensors, names)


def advantages_of(advantages: Array, trained: Mask, valid: Mask) -> dict[str, Any]:
    """Return ``advantage`` where every response has one, else ``token_advantage``.

    Parameters
    ----------
    advantages, trained, valid : ndarray, shape (B, T)
        ``trained``: tokens that take loss.
    """
    highest = np.where(trained, advantages, -np.inf).max(axis=1, initial=-np.inf)
    lowest = np.where(trained, advantages, np.inf).min(axis=1, initial=np.inf)
    some = trained.any(axis=1)
    if (highest == lowest)[some].all():
        # A response without loss has no advantage that was used.
        return {"advantage": nullable(np.where(some, highest, np.nan).astype(np.float64))}
    return {"token_advantage": list_column([Padded(advantages, valid)], pa.float32())}


def _groups(uids: Any, step: int, size: int) -> dict[str, Any]:
    if uids is None:
        msg = "verl batch: no 'uid' in non_tensor_batch; groups cannot be told apart."
        raise BadLog(msg)
    sessions = Counter(str(uid).rpartition("_")[0] for uid in uids)
    rows = [group_columns(str(u), step, several=sessions[str(u).rpartition("_")[0]] > 1) for u in uids]
    seen: Counter[str] = Counter()
    for row in rows:
        row.setdefault("sample_index", seen[row["group_id"]])
        seen[row["group_id"]] += 1
    columns: dict[str, Any] = {
        "group_id": [row["group_id"] for row in rows],
        "sample_index": np.array([row["sample_index"] for row in rows], dtype=np.int32),
    }
    if any("turn" in row for row in rows):
        columns["trajectory_id"] = pa.array([row.get("trajectory_id") for row in rows], pa.string())
        columns["turn"] = pa.array([row.get("turn") for row in rows], pa.int32())
    assert len(rows) == size
    return columns


def _rewards(
    tensors: Any, names: set[str], others: Mapping[str, Any], meta: Mapping[str, Any], size: int
) -> dict[str, Any]:
    name = next((name for name in _REWARDS if name in names), None)
    if name is None:
        msg = f"verl batch: no rewards ({', '.join(_REWARDS)}); record it after advantages were computed."
        raise BadLog(msg)
    reward = _numpy(tensors[name]).astype(np.float64)
    columns: dict[str, Any] = {"reward": nullable(reward.sum(axis=1))}
    known = [key for key in meta.get("reward_extra_keys") or () if key in others]
    parts = {key: _numbers(others[key], size) for key in known}
    numeric = {key: values for key, values in parts.items() if values is not None}
    if numeric:
        rows = [{key: values[i] for key, values in numeric.items()} for i in range(size)]
        columns["reward_components"] = map_column(
            [{key: None if np.isnan(value) else float(value) for key, value in row.items()} for row in rows]
        )
    acc = numeric.get("acc")
    if acc is not None and np.isin(acc, (0.0, 1.0)).all():
        columns["correct"] = acc.astype(np.bool_)
    rest = {"data_source", "__num_turns__", *(key for key in known if key not in numeric)} & others.keys()
    if rest:
        columns["extra"] = [
            json.dumps({k: others[k][i] for k in sorted(rest)}, default=str) for i in range(size)
        ]
    return columns


def _versions(others: Mapping[str, Any], step: int, size: int) -> dict[str, Any]:
    if "min_global_steps" not in others:
        # A synchronous trainer samples with the weights that it then updates.
        return {"sampler_version": np.full(size, step - 1, dtype=np.int64)}
    started = _numbers(others["min_global_steps"], size)
    known = started is not None and not np.isnan(started).any()
    return {"sampler_version": started.astype(np.int64)} if known else {}


def _numbers(values: Any, size: int) -> Any:
    try:
        made = np.array([np.nan if value is None else value for value in values], dtype=np.float64)
    except (TypeError, ValueError):
        return None
    return made if made.shape == (size,) else None


def _ends(written: list[list[int]], width: int, tokenizer: Any) -> list[str | None]:
    ends = {tokenizer.eos_token_id, getattr(tokenizer, "pad_token_id", None)}
    # Neither an end nor a full budget: a stop string, an abort or a tool; the batch does not tell which.
    return ["stop" if row and row[-1] in ends else "length" if len(row) == width else None for row in written]


def _with_greedy(rows: pa.Table, tensors: Any, names: set[str]) -> pa.Table:
    """Add ReMax's greedy responses, of which verl keeps the rewards only: one row a group."""
    if "reward_baselines" not in names:
        return rows
    baselines = _numpy(tensors["reward_baselines"]).astype(np.float64)
    groups = rows["group_id"].to_pylist()
    first = np.array(sorted({group: i for i, group in reversed(list(enumerate(groups)))}.values()))
    sizes = Counter(groups)
    same = rows.take(pa.array(first)).select(["step", "prompt_id", "group_id", "policy_version"])
    greedy = same.append_column("reward", nullable(baselines[first]))
    last = pa.array([sizes[groups[i]] for i in first], pa.int32())
    greedy = greedy.append_column("sample_index", last)
    greedy = greedy.append_column("is_greedy", pa.array([True] * len(first)))
    rows = rows.append_column("is_greedy", pa.array([False] * rows.num_rows))
    return pa.concat_tables([rows, greedy], promote_options="default")


def _numpy(tensor: Any) -> Array:
    tensor = tensor.detach().cpu()
    made: Array = (tensor.float() if tensor.is_floating_point() else tensor).numpy()
    return made

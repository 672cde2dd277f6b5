"""The rows of OpenRLHF's experiences.

Read in 0.11.2: openrlhf/trainer/ppo_utils/experience.py, experience_maker.py, samples_generator.py. An
``Experience`` holds ``sequences`` (B, S), prompt and response together, padded on the right;
``action_mask``, ``action_log_probs``, ``base_action_log_probs``, ``rollout_log_probs``, ``advantages``,
``values`` (B, A) belong to its last A tokens (A = S - 1: the log-prob in place t is that of token t + 1).
``action_mask`` is 0 at the prompt, at tool output and at padding; a response runs from its first action to
its last.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from audit.errors import BadLog
from audit.logs import hash_prompt
from audit.recorders.rows import Array, Padded, list_column, map_column, nullable
from audit.recorders.verl_rows import advantages_of

_LISTS = {
    "logp_old": "action_log_probs",
    "logp_ref": "base_action_log_probs",
    "logp_sampler": "rollout_log_probs",
    "value": "values",
}
_CLAMP = 10.0
"""OpenRLHF's bound on its estimates of KL."""


def rows_of(
    experiences: Sequence[Any],
    step: int,
    *,
    group_size: int,
    rewards: Sequence[Any] | None = None,
    references: Sequence[Any] | None = None,
    tokenizer: Any = None,
    one_update: bool = False,
    synchronous: bool = True,
) -> pa.Table:
    """Make the rows of the experiences of one step.

    Parameters
    ----------
    experiences : sequence of openrlhf Experience
        With ``advantages`` and ``index``, before they are split for the actors, which drops ``index``.
    step : int
        From 1, as OpenRLHF logs it.
    group_size : int
        ``rollout.n_samples_per_prompt``: samples ``index // group_size`` share a baseline, as in OpenRLHF.
    rewards : sequence of Tensor (B,), optional
        Before length penalties; default: what the experiences hold.
    references : sequence of (Tensor (B, A) or None), optional
        Reference log-probs where the experiences have none.
    tokenizer : optional
        Adds the texts of responses.
    one_update : bool
        Whether the step was one optimiser step: then old and current log-probs are of the same weights.
    synchronous : bool
        Whether the policy that is updated was also the one that sampled.

    Raises
    ------
    BadLog
        A field that every row needs is not there.
    """
    given = rewards or [one.rewards for one in experiences]
    refs = references or [None] * len(experiences)
    tables = []
    for one, reward, reference in zip(experiences, given, refs, strict=True):
        for name in ("sequences", "action_mask", "advantages", "index"):
            if getattr(one, name, None) is None:
                msg = (
                    f"OpenRLHF experience: '{name}' is not there; record experiences as "
                    "compute_advantages_and_returns gives them."
                )
                raise BadLog(msg)
        columns = _columns(one, step, group_size, reward=reward, reference=reference, tokenizer=tokenizer)
        size = len(columns["step"])
        if synchronous:
            columns["sampler_version"] = np.full(size, step - 1, dtype=np.int64)
        if one_update:
            columns["update"] = columns["step"]
            if "logp_old" in columns:
                columns["logp_theta"] = columns["logp_old"]
        tables.append(pa.table(columns))
    return pa.concat_tables(tables, promote_options="default").combine_chunks()


def _columns(
    one: Any, step: int, group_size: int, *, reward: Any, reference: Any, tokenizer: Any
) -> dict[str, Any]:
    sequences, mask = _numpy(one.sequences), _numpy(one.action_mask).astype(np.bool_)
    size, width = mask.shape
    before = sequences.shape[1] - width
    tokens = sequences[:, before:]
    places = np.arange(width)[None, :]
    some = mask.any(axis=1)
    first = np.where(some, mask.argmax(axis=1), width)[:, None]
    last = np.where(some, width - 1 - mask[:, ::-1].argmax(axis=1), -1)[:, None]
    valid = (places >= first) & (places <= last)
    index = np.array(one.index, dtype=np.int64)
    columns: dict[str, Any] = {
        "step": np.full(size, step, dtype=np.int64),
        "group_id": [f"{step:06d}-{group:04d}" for group in index // group_size],
        "sample_index": (index % group_size).astype(np.int32),
        "length": valid.sum(axis=1).astype(np.int32),
        "token_ids": list_column([Padded(tokens, valid)], pa.int32()),
        "loss_mask": list_column([Padded(mask, valid)], pa.bool_()),
        "reward": nullable(_numpy(reward).astype(np.float64)),
        "policy_version": np.full(size, step - 1, dtype=np.int64),
        **advantages_of(_numpy(one.advantages), mask, valid),
        **_prompts(one, sequences, before + first[:, 0]),
    }
    for column, name in _LISTS.items():
        tensor = getattr(one, name, None)
        tensor = reference if tensor is None and column == "logp_ref" else tensor
        if tensor is not None:
            values = _numpy(tensor)
            known = np.asarray(~np.isnan(values).any(axis=1))
            columns[column] = list_column([Padded(values, valid, known)], pa.float32())
    if tokenizer is not None:
        texts = [row[kept].tolist() for row, kept in zip(tokens, valid, strict=True)]
        columns["response"] = [tokenizer.decode(row, skip_special_tokens=True) for row in texts]
    if getattr(one, "truncated", None) is not None:
        cut = _numpy(one.truncated).astype(np.bool_)
        columns["finish_reason"] = ["length" if one_cut else "stop" for one_cut in cut]
    return columns | _outcomes(one, size)


def _prompts(one: Any, sequences: Array, lengths: Array) -> dict[str, Any]:
    prompts = list(getattr(one, "prompts", None) or [])
    seen = one.attention_mask if getattr(one, "attention_mask", None) is not None else None
    # A response without actions ends where its sequence does.
    ends = np.full(len(sequences), sequences.shape[1]) if seen is None else _numpy(seen).sum(axis=1)
    columns: dict[str, Any] = {"prompt_length": np.minimum(lengths, ends).astype(np.int32)}
    if len(prompts) == len(sequences):
        columns["prompt"] = prompts
        columns["prompt_id"] = [hash_prompt(text) for text in prompts]
    else:
        ids = [row[:n].tolist() for row, n in zip(sequences, columns["prompt_length"], strict=True)]
        columns["prompt_id"] = [hash_prompt(" ".join(map(str, row))) for row in ids]
    return columns


def _outcomes(one: Any, size: int) -> dict[str, Any]:
    columns: dict[str, Any] = {}
    scores = getattr(one, "scores", None)
    if scores is not None:
        columns["reward_components"] = map_column([{"score": float(value)} for value in _numpy(scores)])
    labels = list(getattr(one, "labels", None) or [])
    if len(labels) == size and any(label is not None for label in labels):
        columns["extra"] = [json.dumps({"label": label}, default=str) for label in labels]
    return columns


def reference_of(logps: Any, kl: Any) -> Any:
    """Return reference log-probs from k1 = log π − log π_ref, where OpenRLHF keeps only that.

    Responses with a token at the bound of ±10, where the difference is lost, become NaN.

    Parameters
    ----------
    logps, kl : Tensor, shape (B, A)
    """
    import torch

    found = logps.detach().float() - kl.detach().float()
    lost = (kl.detach().abs() >= _CLAMP).any(dim=1, keepdim=True)
    return torch.where(lost, torch.nan, found)


def _numpy(tensor: Any) -> Array:
    tensor = tensor.detach().cpu()
    made: Array = (tensor.float() if tensor.is_floating_point() else tensor).numpy()
    return made

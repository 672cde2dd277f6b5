"""A batch of verl's V1 trainer, whose tensors lie in TransferQueue, in the form of the legacy trainer's."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

_FIELDS = [
    "uid",
    "prompts",
    "responses",
    "response_mask",
    "rm_scores",
    "token_level_rewards",
    "old_log_probs",
    "ref_log_prob",
    "rollout_log_probs",
    "entropy",
    "values",
    "advantages",
]


def fetch(meta: Any) -> SimpleNamespace:
    """Fetch what a ``KVBatchMeta`` names.

    Parameters
    ----------
    meta : transfer_queue.KVBatchMeta
        ``keys`` are ``{uid}_{session}_{output}``; rows that ``tags`` mark ``is_padding`` are left out.

    Returns
    -------
    SimpleNamespace
        ``batch``, ``non_tensor_batch``, ``meta_info``; prompts are padded on the right here.
    """
    import torch
    import transfer_queue

    real = [i for i, tag in enumerate(meta.tags) if not tag.get("is_padding", False)]
    keys = [meta.keys[i] for i in real]
    data = transfer_queue.kv_batch_get(keys=keys, partition_id=meta.partition_id, select_fields=_FIELDS)
    batch = {name: _padded(data[name]) for name in data.keys() if name in _FIELDS and name != "uid"}  # noqa: SIM118
    masks = [
        torch.arange(batch[name].shape[1])[None, :] < _lengths(data[name])[:, None]
        for name in ("prompts", "responses")
    ]
    batch["attention_mask"] = torch.cat(masks, dim=1)
    others: dict[str, Any] = {"uid": np.array(keys, dtype=object)}
    started = [meta.tags[i].get("min_global_steps") for i in real]
    if all(step is not None for step in started):
        # The weights that began a trajectory; a step's own are one behind its number.
        others["min_global_steps"] = np.array(started)
    return SimpleNamespace(batch=batch, non_tensor_batch=others, meta_info={})


def _padded(tensor: Any) -> Any:
    return tensor.to_padded_tensor(0) if tensor.is_nested else tensor


def _lengths(tensor: Any) -> Any:
    import torch

    if tensor.is_nested:
        return tensor.offsets().diff().cpu()
    return torch.full((len(tensor),), tensor.shape[1])

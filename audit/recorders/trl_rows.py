"""Micro-batches of TRL as the loss saw them, and the rows that they make."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from audit.recorders.rows import Padded, list_column, map_column, nullable
from audit.recorders.trl_rollouts import INDEX, Generation

_FLOATS = ("logp_theta", "logp_old", "logp_ref", "logp_sampler", "entropy", "token_advantage")


@dataclass(frozen=True)
class MicroBatch:
    """One micro-batch: B responses, padded to T tokens. Nothing is computed until rows are made of it."""

    generation: Generation
    update: int
    """Number of the optimiser step that it is accumulated into, from 1."""
    place: int
    """Among all micro-batches of that step, over all processes."""
    index: Any
    """ndarray of int, shape (B,): rows of the generation batch."""
    epoch: Any
    """ndarray of int32, shape (B,)."""
    tensors: dict[str, Any]
    """Name → Tensor; per token, and ``advantages`` per response or token. Absent: TRL has none."""

    @classmethod
    def of(
        cls,
        generation: Generation,
        inputs: dict[str, Any],
        *,
        logps: Any,
        entropies: Any,
        update: int,
        place: int,
    ) -> MicroBatch:
        """Take what there is of a micro-batch.

        Parameters
        ----------
        inputs : dict
            The micro-batch as ``_compute_loss`` got it.
        logps, entropies : Tensor, shape (B, T)
            Of the forward pass that the loss was made of.
        """
        index = inputs[INDEX]
        if generation.logp_old is not None:
            old = generation.logp_old[index]
            ref = None if generation.logp_ref is None else generation.logp_ref[index]
            sampler = None if generation.logp_sampler is None else generation.logp_sampler[index.cpu()]
        else:
            # TRL leaves old out where the ratio's denominator is the policy itself with its gradient stopped.
            old = inputs.get("old_per_token_logps", logps)
            ref = inputs.get("ref_per_token_logps")
            sampler = inputs.get("sampling_per_token_logps")
        tensors = {
            "token_ids": inputs["completion_ids"],
            "completion_mask": inputs["completion_mask"],
            "tool_mask": inputs.get("tool_mask"),
            "advantages": inputs["advantages"],
            "logp_theta": logps,
            "logp_old": old,
            "logp_ref": ref,
            "logp_sampler": sampler,
            "entropy": entropies,
        }
        place_of = index.cpu().numpy()
        epoch = generation.passes[place_of]
        generation.passes[place_of] += 1
        kept = {name: tensor.detach() for name, tensor in tensors.items() if tensor is not None}
        return cls(generation, update, place, place_of, epoch, kept)

    def on_cpu(self) -> MicroBatch:
        """Free what it holds of the accelerator's memory."""
        tensors = {name: tensor.cpu() for name, tensor in self.tensors.items()}
        return MicroBatch(self.generation, self.update, self.place, self.index, self.epoch, tensors)

    @property
    def places(self) -> int:
        """Tokens and padding: B × T."""
        count: int = self.tensors["token_ids"].numel()
        return count


def rows_of(parts: Sequence[MicroBatch]) -> pa.Table:
    """Make the rows of micro-batches, in their order.

    Notes
    -----
    A response that ``mask_truncated_completions`` removes is not scored by TRL (its attention mask is empty),
    so its log-probs and entropies are null.
    """
    shapes = [_shape(part) for part in parts]

    def per_response(pick: Callable[[MicroBatch], Any], dtype: Any = None) -> Any:
        return np.concatenate([np.broadcast_to(pick(p), p.index.shape) for p in parts]).astype(dtype)

    def texts(pick: Callable[[Generation], list[Any]]) -> list[Any]:
        return [pick(part.generation)[i] for part in parts for i in part.index]

    columns: dict[str, Any] = {
        "step": per_response(lambda p: p.update, np.int64),
        "epoch": per_response(lambda p: p.epoch, np.int32),
        "update": per_response(lambda p: p.update, np.int64),
        "micro_batch": per_response(lambda p: p.place, np.int32),
        "generation_batch": per_response(lambda p: p.generation.number, np.int64),
        "prompt_id": texts(lambda g: g.prompt_ids),
        "group_id": texts(lambda g: g.group_ids),
        "sample_index": per_response(lambda p: p.generation.sample_index[p.index], np.int32),
        "prompt": texts(lambda g: g.prompts),
        "response": texts(lambda g: g.responses),
        "prompt_length": per_response(lambda p: p.generation.prompt_length[p.index], np.int32),
        "length": per_response(lambda p: p.generation.length[p.index], np.int32),
        "token_ids": list_column([s.lists["token_ids"] for s in shapes], pa.int32()),
        "loss_mask": list_column([s.lists["loss_mask"] for s in shapes], pa.bool_()),
        "reward": nullable(per_response(lambda p: p.generation.reward[p.index], np.float64)),
        "reward_components": map_column(texts(lambda g: g.components)),
        "advantage": pa.array(
            np.concatenate([s.advantage for s in shapes]),
            mask=np.concatenate([np.full(len(s.advantage), s.per_token) for s in shapes]),
        ),
        "finish_reason": texts(lambda g: g.finish_reason),
        "policy_version": per_response(lambda p: p.update - 1, np.int64),
        "sampler_version": per_response(lambda p: p.generation.version, np.int64),
        "created_at": pa.array(
            [part.generation.created_at for part in parts for _ in part.index],
            type=pa.timestamp("us", tz="UTC"),
        ),
    }
    for name in _FLOATS:
        columns[name] = list_column([s.lists[name] for s in shapes], pa.float32())
    return pa.table(columns)


@dataclass(frozen=True)
class _Shape:
    lists: dict[str, Padded]
    advantage: Any
    """ndarray of float64, shape (B,): of no meaning where TRL has one per token."""
    per_token: bool


def _shape(part: MicroBatch) -> _Shape:
    given = {name: _numpy(tensor, name) for name, tensor in part.tensors.items()}
    size, width = given["token_ids"].shape
    valid = np.arange(width)[None, :] < part.generation.length[part.index][:, None]
    completion_mask = given["completion_mask"].astype(np.bool_)
    scored = completion_mask.any(axis=1)
    mask = completion_mask & given["tool_mask"].astype(np.bool_) if "tool_mask" in given else completion_mask
    advantages = given["advantages"]
    per_token = advantages.ndim > 1
    if per_token:
        given["token_advantage"] = np.broadcast_to(advantages, (size, width)).astype(np.float32)
    # The sampler's are of its own and not of a forward pass over the attention mask.
    lists = {
        name: Padded(given.get(name), valid, None if name == "logp_sampler" or scored.all() else scored)
        for name in _FLOATS
    }
    lists["token_ids"] = Padded(given["token_ids"], valid)
    lists["loss_mask"] = Padded(mask, valid)
    return _Shape(lists, np.zeros(size) if per_token else advantages, per_token)


def _numpy(tensor: Any, name: str) -> Any:
    if not tensor.is_floating_point():
        return tensor.numpy()
    # numpy has no bfloat16.
    return (tensor.double() if name == "advantages" else tensor.float()).numpy()

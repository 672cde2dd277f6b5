"""What one generation batch of TRL holds, and the rows that its micro-batches make."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa

from audit.logs import hash_prompt
from audit.recorders.rows import list_column, map_column, nullable

INDEX = "rlaudit_index"
"""Key of the tensor that follows a response through the trainer's shuffle and split."""


@dataclass(frozen=True)
class Generation:
    """This process's part of one generation batch: B rows in the order of sampling, before the shuffle."""

    number: int
    prompts: list[str]
    prompt_ids: list[str]
    prompt_length: Any
    """ndarray of int, shape (B,)."""
    responses: list[str]
    length: Any
    """ndarray of int32, shape (B,): whole responses, however much of them takes loss."""
    finish_reason: list[str]
    group_ids: list[str]
    sample_index: Any
    """ndarray of int, shape (B,)."""
    reward: Any
    """ndarray of float64, shape (B,): the weighted sum that the advantage was made of; NaN: unscorable."""
    components: list[dict[str, float | None]]
    logp_old: Any
    """Tensor (B, T) where TRL keeps it out of the batch (RLOO), else None."""
    logp_ref: Any
    version: int
    """Optimiser steps behind the policy that sampled."""
    created_at: datetime
    passes: Any
    """ndarray of int, shape (B,): how many updates each response has entered; counted up as rows are made."""

    @classmethod
    def of(
        cls,
        trainer: Any,
        output: dict[str, Any],
        *,
        number: int,
        scored: dict[str, Any],
        forwards: list[Any],
        created_at: datetime,
    ) -> Generation:
        """Describe a generation batch, and add the index tensor to ``output``.

        Parameters
        ----------
        output : dict
            What ``_generate_and_score_completions`` returns; gains the key :data:`INDEX`.
        scored : dict
            ``prompts``, ``token_ids`` (of this process) and ``rewards`` (of all processes, one column per
            function) as they went through ``_calculate_rewards``.
        forwards : list of Tensor
            Log-probs of the no-gradient forward passes, in order.
        """
        import torch

        tokenizer = trainer._tokenizer
        token_ids = [list(ids) for ids in scored["token_ids"]]
        size = len(token_ids)
        output[INDEX] = torch.arange(size, device=output["completion_ids"].device)

        place = trainer.accelerator.process_index * size + np.arange(size)
        rewards = scored["rewards"]
        weighted = (rewards * trainer.reward_weights.to(rewards.device).unsqueeze(0)).nansum(dim=1)
        weighted[torch.isnan(rewards).all(dim=1)] = torch.nan
        mask = output["prompt_mask"].bool()
        prompts = [
            prompt if isinstance(prompt, str) else tokenizer.decode(ids[kept].tolist())
            for prompt, ids, kept in zip(scored["prompts"], output["prompt_ids"], mask, strict=True)
        ]
        ends = {*trainer.eos_token_ids, tokenizer.pad_token_id}
        # GRPO's batch carries both; RLOO's only their sums, so they are taken from the forward passes.
        outside = "old_logps" in output
        return cls(
            number=number,
            prompts=prompts,
            prompt_ids=[hash_prompt(prompt) for prompt in prompts],
            prompt_length=mask.sum(dim=1).cpu().numpy(),
            responses=tokenizer.batch_decode(token_ids, skip_special_tokens=True),
            length=np.array([len(ids) for ids in token_ids], dtype=np.int32),
            finish_reason=["stop" if ids and ids[-1] in ends else "length" for ids in token_ids],
            group_ids=[f"g{number:06d}-{group:04d}" for group in place // trainer.num_generations],
            sample_index=place % trainer.num_generations,
            reward=weighted[place].double().cpu().numpy(),
            components=_components(trainer.reward_func_names, rewards[place].double().cpu().numpy()),
            logp_old=forwards[0] if outside else None,
            logp_ref=forwards[1] if outside and trainer.beta != 0.0 else None,
            version=trainer.state.global_step,
            created_at=created_at,
            passes=np.zeros(size, dtype=np.int32),
        )


def rows_of(
    generation: Generation,
    inputs: dict[str, Any],
    *,
    logps: Any,
    entropies: Any,
    update: int,
    micro_batch: int,
) -> pa.Table:
    """Make the rows of one micro-batch.

    Parameters
    ----------
    inputs : dict
        The micro-batch as ``_compute_loss`` got it.
    logps, entropies : Tensor, shape (B, T)
        Of the forward pass that the loss was made of.
    update : int
        Number of the optimiser step that this micro-batch is accumulated into, from 1.
    micro_batch : int
        Its place among all micro-batches of that step, over all processes.

    Notes
    -----
    A response that ``mask_truncated_completions`` removes is not scored by TRL (its attention mask is empty),
    so its log-probs and entropies are null.
    """
    index = inputs[INDEX].cpu().numpy()
    size, width = logps.shape
    lengths = generation.length[index]
    valid = np.arange(width)[None, :] < lengths[:, None]
    completion_mask = inputs["completion_mask"]
    scored = completion_mask.bool().any(dim=1).cpu().numpy()
    mask = completion_mask * inputs["tool_mask"] if "tool_mask" in inputs else completion_mask

    def per_token(tensor: Any, *, computed: bool = True) -> pa.Array:
        if tensor is None:
            return pa.nulls(size, pa.list_(pa.float32()))
        values = tensor.detach().float().cpu().numpy()
        return list_column(values, valid, pa.float32(), present=scored if computed else None)

    if generation.logp_old is not None:
        old = generation.logp_old[index]
        ref = None if generation.logp_ref is None else generation.logp_ref[index]
    else:
        # TRL leaves old out where the ratio's denominator is the policy itself with its gradient stopped.
        old = inputs.get("old_per_token_logps", logps)
        ref = inputs.get("ref_per_token_logps")
    advantages = inputs["advantages"].detach()
    per_response = advantages.dim() == 1
    epoch = generation.passes[index]
    generation.passes[index] += 1

    def pick(values: list[str]) -> list[str]:
        return [values[i] for i in index]

    columns = {
        "step": np.full(size, update, dtype=np.int64),
        "epoch": epoch,
        "update": np.full(size, update, dtype=np.int64),
        "micro_batch": np.full(size, micro_batch, dtype=np.int32),
        "generation_batch": np.full(size, generation.number, dtype=np.int64),
        "prompt_id": pick(generation.prompt_ids),
        "group_id": pick(generation.group_ids),
        "sample_index": generation.sample_index[index].astype(np.int32),
        "prompt": pick(generation.prompts),
        "response": pick(generation.responses),
        "prompt_length": generation.prompt_length[index].astype(np.int32),
        "length": lengths,
        "token_ids": list_column(inputs["completion_ids"].cpu().numpy(), valid, pa.int32()),
        "loss_mask": list_column(mask.bool().cpu().numpy(), valid, pa.bool_()),
        "reward": nullable(generation.reward[index]),
        "reward_components": map_column([generation.components[i] for i in index]),
        "logp_theta": per_token(logps),
        "logp_old": per_token(old),
        "logp_ref": per_token(ref),
        "logp_sampler": per_token(inputs.get("sampling_per_token_logps"), computed=False),
        "entropy": per_token(entropies),
        "advantage": advantages.double().cpu().numpy() if per_response else pa.nulls(size, pa.float64()),
        "token_advantage": per_token(None if per_response else advantages.expand(size, width)),
        "finish_reason": pick(generation.finish_reason),
        "policy_version": np.full(size, update - 1, dtype=np.int64),
        "sampler_version": np.full(size, generation.version, dtype=np.int64),
        "created_at": pa.array([generation.created_at] * size, type=pa.timestamp("us", tz="UTC")),
    }
    return pa.table(columns)


def _components(names: list[str], rewards: Any) -> list[dict[str, float | None]]:
    # Two functions of one name are two components.
    names = [
        f"{name}#{names[:i].count(name) + 1}" if name in names[:i] else name for i, name in enumerate(names)
    ]
    return [
        {name: None if np.isnan(value) else float(value) for name, value in zip(names, row, strict=True)}
        for row in rewards
    ]

"""What one generation batch of TRL holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np

from audit.logs import hash_prompt

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
    logp_sampler: Any
    """The same; of vLLM, where TRL does not take them from it (RLOO)."""
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
            ``prompts``, ``completions``, ``token_ids`` of this process and ``rewards`` of all (one
            column per function), as they went through ``_calculate_rewards``; ``sampled``: log-probs of
            vLLM's candidates for each token.
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
        hashes = {prompt: hash_prompt(prompt) for prompt in set(prompts)}
        ends = {*trainer.eos_token_ids, tokenizer.pad_token_id}
        # GRPO's batch carries both; RLOO's only their sums, so they are taken from the forward passes.
        outside = "old_logps" in output
        return cls(
            number=number,
            prompts=prompts,
            prompt_ids=[hashes[prompt] for prompt in prompts],
            prompt_length=mask.sum(dim=1).cpu().numpy(),
            responses=_texts(tokenizer, scored["completions"], token_ids),
            length=np.array([len(ids) for ids in token_ids], dtype=np.int32),
            finish_reason=["stop" if ids and ids[-1] in ends else "length" for ids in token_ids],
            group_ids=[f"g{number:06d}-{group:04d}" for group in place // trainer.num_generations],
            sample_index=place % trainer.num_generations,
            reward=weighted[place].double().cpu().numpy(),
            components=_components(trainer.reward_func_names, rewards[place].double().cpu().numpy()),
            logp_old=forwards[0] if outside else None,
            logp_ref=forwards[1] if outside and trainer.beta != 0.0 else None,
            logp_sampler=_padded(scored.get("sampled"), output["completion_ids"]) if outside else None,
            version=trainer.state.global_step,
            created_at=created_at,
            passes=np.zeros(size, dtype=np.int32),
        )


def _texts(tokenizer: Any, completions: Sequence[Any], token_ids: list[list[int]]) -> list[str]:
    # TRL has decoded plain completions already; chats are messages, perhaps with tools in between.
    if all(isinstance(completion, str) for completion in completions):
        return list(completions)
    texts: list[str] = tokenizer.batch_decode(token_ids, skip_special_tokens=True)
    return texts


def _padded(sampled: Any, token_ids: Any) -> Any:
    """Log-probs of the tokens that were drawn, shape (B, T); None where the engine gave none."""
    import torch

    if not sampled:
        return None
    values = torch.full(token_ids.shape, torch.nan)
    for row, candidates in zip(values, sampled, strict=True):
        drawn = [torch.nan if one[0] is None else one[0] for one in candidates]
        row[: len(drawn)] = torch.tensor(drawn)
    return values


def _components(names: list[str], rewards: Any) -> list[dict[str, float | None]]:
    # Two functions of one name are two components.
    names = [
        f"{name}#{names[:i].count(name) + 1}" if name in names[:i] else name for i, name in enumerate(names)
    ]
    return [
        {name: None if np.isnan(value) else float(value) for name, value in zip(names, row, strict=True)}
        for row in rewards
    ]

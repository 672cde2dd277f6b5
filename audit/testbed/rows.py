"""One optimiser step of one run as rows of the rollout schema."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from torch import Tensor

from audit.objectives.coefficients import decided_by_token, token_advantage
from audit.objectives.needs import needs
from audit.objectives.weights import batch_coefficients
from audit.testbed.sampling import micro_batch
from audit.testbed.training import Trainer, Update


def rows_of(trainer: Trainer, update: Update, run: int) -> pa.Table:
    """Return the responses of one run in one optimiser step; columns of the rollout schema.

    ``step`` and ``update`` both count optimiser steps, as TRL's ``global_step`` does.
    """
    language, setup, draw, tokens = trainer.language, trainer.setup, update.draw, update.tokens
    count = len(draw.run) // len(trainer.seeds)
    own = slice(run * count, (run + 1) * count)
    offsets = draw.layout.offsets[own.start : own.stop + 1]
    first, last = int(offsets[0]), int(offsets[-1])
    starts = (offsets - first).numpy().astype(np.int32)

    def lists(values: Tensor, kind: pa.DataType) -> pa.Array:
        return pa.ListArray.from_arrays(pa.array(starts), pa.array(values[first:last].numpy()).cast(kind))

    prompt = draw.prompt[own].tolist()
    token_ids = draw.token[first:last].tolist()
    texts = [language.spell(token_ids[a:b]) for a, b in pairwise(starts)]
    columns: dict[str, Any] = {
        "step": pa.array([update.number] * count, pa.int64()),
        "epoch": pa.array([update.epoch] * count, pa.int32()),
        "update": pa.array([update.number] * count, pa.int64()),
        "micro_batch": pa.array(micro_batch(language, draw, setup.micro_batches)[own].numpy()),
        "prompt_id": [f"p{language.rates[p]:g}-{p}" for p in prompt],
        "group_id": [f"{update.step}-{p}" for p in prompt],
        "sample_index": pa.array(draw.sample[own].numpy()),
        "prompt": [language.prompt_text(p) for p in prompt],
        "response": texts,
        "length": pa.array(draw.length[own].numpy()),
        "token_ids": lists(draw.token, pa.int32()),
        "reward": pa.array(update.responses.reward[own].numpy()),
        "correct": pa.array(draw.correct(language)[own].numpy()),
        "finish_reason": ["length" if cut else "stop" for cut in draw.cut[own].tolist()],
        "is_greedy": pa.array(draw.greedy[own].numpy()),
        "policy_version": pa.array([update.number - 1] * count, pa.int64()),
        "sampler_version": pa.array([(update.step - 1) * setup.epochs] * count, pa.int64()),
        **_advantages(trainer, update, own, lists),
    }
    lists_held = {
        "logp_theta": tokens.logp_theta,
        "logp_old": tokens.logp_old,
        "logp_ref": tokens.logp_ref,
        "entropy": tokens.entropy,
        "value": tokens.value,
    }
    if setup.sampler_noise > 0.0 or "logp_sampler" in needs(trainer.objective):
        lists_held["logp_sampler"] = tokens.logp_sampler
    columns |= {
        name: lists(values, pa.float32()) for name, values in lists_held.items() if values is not None
    }
    if trainer.objective.shaping.weights is not None:
        columns["reward_components"] = _components(update, own)
    return pa.table(columns)


def _advantages(trainer: Trainer, update: Update, own: slice, lists: Any) -> dict[str, Any]:
    """The advantage that was used: one per response, or one per token where tokens differ; null if greedy."""
    objective, tokens = trainer.objective, update.tokens
    made = batch_coefficients(tokens, update.responses, objective)
    if decided_by_token(objective) or tokens.token_advantage is not None:
        return {"token_advantage": lists(token_advantage(tokens, made, objective), pa.float32())}
    used = made.advantage[own].numpy()
    return {"advantage": pa.array(used, mask=update.draw.greedy[own].numpy())}


def _components(update: Update, own: slice) -> pa.Array:
    parts = update.responses.components or {}
    columns = {name: values[own].tolist() for name, values in parts.items()}
    pairs = [list(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    return pa.array(pairs, pa.map_(pa.string(), pa.float64()))

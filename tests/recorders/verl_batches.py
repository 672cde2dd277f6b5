"""Small batches with the attributes of verl's ``DataProto``: what the driver holds after an update."""

from __future__ import annotations

import statistics
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

PROMPTS, GROUP, WIDTH, PROMPT_WIDTH = 4, 4, 9, 6
ROWS = PROMPTS * GROUP
EOS, PAD = 1, 0
CONFIG: dict[str, Any] = {
    "algorithm": {"adv_estimator": "grpo", "norm_adv_by_std_in_grpo": True, "use_kl_in_reward": False},
    "actor_rollout_ref": {
        "model": {"path": "/data/models/Tiny-0.5B"},
        "actor": {
            "ppo_mini_batch_size": PROMPTS,
            "ppo_epochs": 1,
            "clip_ratio_low": 0.2,
            "clip_ratio_high": 0.28,
            "loss_agg_mode": "token-mean",
            "use_kl_loss": False,
            "entropy_coeff": 0,
        },
        "rollout": {"n": GROUP, "temperature": 0.9, "top_p": 1.0},
    },
    "data": {"train_batch_size": PROMPTS, "max_response_length": WIDTH, "train_files": "/data/train.parquet"},
    "trainer": {"default_local_dir": "/checkpoints/a", "project_name": "sums", "hf_token": "hf_abc"},
}


class Letters:
    """A tokenizer of one letter a token; 0 pads, 1 ends."""

    eos_token_id, pad_token_id = EOS, PAD

    def decode(self, ids: list[int], *, skip_special_tokens: bool) -> str:
        assert skip_special_tokens
        return "".join(chr(ord("a") + i) for i in ids if i > 1)


def tensors(seed: int = 0) -> dict[str, torch.Tensor]:
    """Everything but the advantages: left-padded prompts, right-padded responses, one tool token in some."""
    draw = torch.Generator().manual_seed(seed)
    lengths = torch.randint(2, WIDTH + 1, (ROWS,), generator=draw)
    lengths[0] = WIDTH
    read = torch.randint(2, PROMPT_WIDTH + 1, (PROMPTS,), generator=draw).repeat_interleave(GROUP)
    inside = torch.arange(WIDTH) < lengths[:, None]
    before = torch.arange(PROMPT_WIDTH) >= (PROMPT_WIDTH - read)[:, None]
    prompts = torch.randint(2, 26, (PROMPTS, PROMPT_WIDTH), generator=draw).repeat_interleave(GROUP, dim=0)
    responses = torch.randint(2, 26, (ROWS, WIDTH), generator=draw)
    responses[torch.arange(1, ROWS), lengths[1:] - 1] = EOS
    mask = inside.clone()
    mask[ROWS // 2 :, 1] = lengths[ROWS // 2 :] < 4  # a tool wrote the second token of the longer ones
    mask &= inside
    scores = torch.zeros(ROWS, WIDTH)
    scores[torch.arange(ROWS), lengths - 1] = torch.randint(0, 2, (ROWS,), generator=draw).float()
    logps = [-torch.rand(ROWS, WIDTH, generator=draw) * inside for _ in range(3)]
    return {
        "prompts": prompts * before,
        "responses": responses * inside,
        "attention_mask": torch.cat([before, inside], dim=1).long(),
        "response_mask": mask.long(),
        "token_level_scores": scores,
        "token_level_rewards": scores.clone(),
        "old_log_probs": logps[0],
        "ref_log_prob": logps[1],
        "rollout_log_probs": logps[2],
    }


def others(seed: int = 0) -> dict[str, np.ndarray]:
    """What stands beside the tensors."""
    uids = [f"0000000{seed}-0000-4000-8000-00000000000{i}" for i in range(PROMPTS)]
    given = tensors(seed)["token_level_scores"].sum(dim=1)
    return {
        "uid": np.repeat(np.array(uids, dtype=object), GROUP),
        "acc": given.numpy().astype(bool),
        "pred": np.array([f"answer {i}" for i in range(ROWS)], dtype=object),
        "data_source": np.array(["sums"] * ROWS, dtype=object),
        "__num_turns__": np.full(ROWS, 2, dtype=np.int32),
    }


def grpo(scores: torch.Tensor, mask: torch.Tensor, uids: Any) -> torch.Tensor:
    """Advantages of GRPO, group by group: std with ddof 1, epsilon 1e-6."""
    rewards = scores.sum(dim=1).tolist()
    made = torch.zeros_like(scores)
    for i, uid in enumerate(uids):
        group = [reward for reward, other in zip(rewards, uids, strict=True) if other == uid]
        made[i] = (rewards[i] - statistics.mean(group)) / (statistics.stdev(group) + 1e-6) * mask[i]
    return made


def stand_in(seed: int = 0, order: Any = None) -> SimpleNamespace:
    """Return a batch as ``_update_actor`` gets it; ``order``: of its rows, as ``balance_batch`` makes it."""
    batch, beside = tensors(seed), others(seed)
    batch["advantages"] = grpo(batch["token_level_scores"], batch["response_mask"], beside["uid"])
    if order is not None:
        batch = {name: tensor[torch.as_tensor(order)] for name, tensor in batch.items()}
        beside = {name: values[np.asarray(order)] for name, values in beside.items()}
    return SimpleNamespace(
        batch=batch, non_tensor_batch=beside, meta_info={"reward_extra_keys": ["acc", "pred"]}
    )


class Trainer:
    """Stand-in for RayPPOTrainer: one step a batch."""

    def __init__(self, config: dict[str, Any], batches: list[Any]) -> None:
        self.config, self.tokenizer, self._batches = config, Letters(), batches
        self.updated: list[Any] = []

    def fit(self) -> list[Any]:
        self.global_steps = 0
        results = []
        for batch in self._batches:
            self.global_steps += 1
            results.append(self._update_actor(batch))
        return results

    def _update_actor(self, batch: Any) -> Any:
        self.updated.append(batch)
        metrics = {"actor/grad_norm": [0.5, 1.5], "actor/loss_max": [1.0, 3.0], "actor/lr": 1e-6, "note": "x"}
        return SimpleNamespace(meta_info={"metrics": metrics})

"""Losses and metrics as trainers form them: padded tensors, one micro-batch after the other, in float32.

Written after TRL 1.16 grpo_trainer.py ``_compute_loss``, without any code of the package.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from audit.logs import Run, open_run
from audit.recorders.metrics import MetricsWriter

Rows = list[dict[str, Any]]
BUDGET = 20
"""``max_completion_length`` of ``dr_grpo``."""


def padded(rows: Rows, name: str) -> Tensor:
    """Shape (B, T), float32, 0 behind the end."""
    return torch.nn.utils.rnn.pad_sequence(
        [torch.tensor(row[name], dtype=torch.float32) for row in rows], batch_first=True
    )


def micro_loss(
    rows: Rows,
    items: int,
    slices: int,
    *,
    loss_type: str = "grpo",
    level: str = "token",
    low: float = 0.2,
    high: float = 0.2,
    beta: float = 0.04,
    kl: str = "k3",
) -> dict[str, float]:
    """One micro-batch: what it adds to the loss of its update, and the fractions that it logs.

    Parameters
    ----------
    items : int
        Loss tokens of the whole update.
    slices : int
        Micro-batches of the update.
    """
    mask = padded(rows, "loss_mask")
    theta, old, ref = (padded(rows, f"logp_{policy}") for policy in ("theta", "old", "ref"))
    advantages = torch.tensor([row["advantage"] for row in rows]).unsqueeze(1)
    log_ratio = theta - old
    if level == "sequence":
        log_ratio = ((log_ratio * mask).sum(-1) / mask.sum(-1).clamp(min=1.0)).unsqueeze(-1)
    ratio = torch.exp(log_ratio)
    if loss_type == "cispo":
        loss = -torch.clamp(ratio, max=1 + high) * advantages * theta
    else:
        loss = -torch.min(ratio * advantages, torch.clamp(ratio, 1 - low, 1 + high) * advantages)
    d = theta - ref
    made = {"k1": d, "k2": d.square() / 2, "k3": torch.exp(-d) + d - 1}[kl]
    loss = (loss + beta * made) * mask
    if loss_type == "grpo":
        total = (loss.sum(-1) / mask.sum(-1).clamp(min=1.0)).mean() / slices
    elif loss_type == "bnpo":
        total = loss.sum() / mask.sum() / slices
    elif loss_type == "dr_grpo":
        total = loss.sum() / (loss.size(0) * BUDGET) / slices
    elif loss_type == "padded":
        # verl's dr_grpo mode before its constant: the divisor is the width of the batch.
        total = (loss.sum(-1) / loss.size(1)).mean() / slices
    elif loss_type == "luspo":
        total = loss.sum(-1).mean() / slices
    else:
        total = loss.sum() / items

    def fraction(clipped: Tensor) -> float:
        clipped = clipped.float()
        if clipped.shape[1] == 1:
            return float(clipped.mean())
        return float((clipped * mask).sum() / mask.sum())

    return {
        "loss": float(total),
        "clip_ratio/low_mean": fraction((ratio < 1 - low) & (advantages < 0)),
        "clip_ratio/high_mean": fraction((ratio > 1 + high) & (advantages > 0)),
        "kl": float((made * mask).sum() / mask.sum()),
    }


def logged(rows: Rows, **options: Any) -> dict[int, dict[str, float]]:
    """Metrics by update: the loss summed over micro-batches, the others their mean."""
    by_update: dict[int, dict[int, Rows]] = {}
    for row in rows:
        by_update.setdefault(row["update"], {}).setdefault(row["micro_batch"], []).append(row)
    found = {}
    for update, parts in by_update.items():
        items = sum(sum(row["loss_mask"]) for part in parts.values() for row in part)
        made = [micro_loss(part, items, len(parts), **options) for part in parts.values()]
        found[update] = {
            name: sum(one[name] for one in made) / (1 if name == "loss" else len(made)) for name in made[0]
        }
    return found


def with_metrics(run: Run, metrics: dict[int, dict[str, float]]) -> Run:
    """Write metrics beside a run and open it again."""
    path = Path(run.path)
    writer = MetricsWriter(path)
    for step, scalars in metrics.items():
        writer.add(step, scalars)
    writer.flush()
    return open_run(path)

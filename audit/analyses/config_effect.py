"""Settings outside the objective: optimiser and sampling in two configs, and the learning rates logged."""

from __future__ import annotations

from typing import Any

import numpy as np

from audit.analyses.findings import Cause, finding
from audit.analyses.logged_scalars import NAMES
from audit.analyses.skipped import Skipped
from audit.logs import Run
from audit.logs.metrics import Metrics

_OPTIMISER = (
    *("learning_rate", "lr", "lr_scheduler_type", "warmup_steps", "warmup_ratio", "weight_decay", "optim"),
    *("adam_beta1", "adam_beta2", "adam_epsilon", "max_grad_norm", "grad_clip", "max_steps"),
    *("per_device_train_batch_size", "gradient_accumulation_steps", "num_iterations", "steps_per_generation"),
    *("generation_batch_size", "ppo_mini_batch_size", "ppo_epochs"),
)
_TEMPERATURE = ("temperature",)
_SUPPORT = ("top_p", "top_k", "min_p", "repetition_penalty")
_GROUPS = (
    ("optimiser", _OPTIMISER, "Optimiser settings differ"),
    ("sampling.temperature", _TEMPERATURE, "The sampling temperature differs"),
    ("sampling.support", _SUPPORT, "The sampling support differs"),
)
SAME_RATE = 1e-5
"""Relative difference of two learning rates that are called the same; heuristic."""


def config_causes(a: Run, b: Run, metrics: tuple[Metrics, Metrics]) -> tuple[list[Cause], list[Skipped]]:
    """Compare the settings that both manifests give; one that only one side gives is not a difference.

    The learning rates that the trainers logged are compared where the configs do not name a difference.
    """
    settings = [(run.manifest.config or {}) | (run.manifest.sampling or {}) for run in (a, b)]
    causes = []
    for id_, keys, title in _GROUPS:
        differing = {key: [s[key] for s in settings] for key in keys if _differ(key, settings)}
        if differing:
            listed = ", ".join(f"{key} {va} against {vb}" for key, (va, vb) in differing.items())
            causes.append(finding(id_, 0.7, f"{title}: {listed}.", differing))
    if not any(cause.id == "optimiser" for cause in causes):
        causes += _logged_rates(*metrics)
    if all(settings):
        return causes, []
    return causes, [Skipped("optimiser and sampling settings", "config in run.json on both sides")]


def gives_optimiser(run: Run, metrics: Metrics) -> bool:
    """Whether anything says how a run was optimised."""
    return bool(run.manifest.config) or bool(learning_rates(metrics))


def learning_rates(metrics: Metrics) -> dict[float, float]:
    """Logged learning rate by step; empty where none was logged."""
    name = next((name for name in NAMES["learning_rate"] if name in metrics.names), None)
    if name is None:
        return {}
    use = (metrics.name == name) & np.isfinite(metrics.value) & np.isfinite(metrics.step)
    return dict(zip(metrics.step[use].tolist(), metrics.value[use].tolist(), strict=True))


def _logged_rates(a: Metrics, b: Metrics) -> list[Cause]:
    rates = learning_rates(a), learning_rates(b)
    common = sorted(rates[0].keys() & rates[1].keys())
    pairs = np.array([(rates[0][step], rates[1][step]) for step in common]).reshape(-1, 2)
    gap = np.abs(pairs[:, 1] - pairs[:, 0])
    apart = gap > SAME_RATE * np.abs(pairs).max(axis=1, initial=0.0)
    if not apart.any() or apart.mean() < 0.5:
        return []
    medians = [float(m) for m in np.median(pairs[apart], axis=0)]
    summary = (
        f"The logged learning rates differ at {int(apart.sum())} of {len(common)} common steps: "
        f"{medians[0]:.3g} in A against {medians[1]:.3g} in B at the median."
    )
    evidence = {"learning_rate": medians, "steps": len(common), "steps_apart": int(apart.sum())}
    return [finding("optimiser", 0.75, summary, evidence)]


def _differ(key: str, settings: list[dict[str, Any]]) -> bool:
    return all(key in s for s in settings) and settings[0][key] != settings[1][key]

"""Settings outside the objective that two configs give differently: optimiser, sampling."""

from __future__ import annotations

from typing import Any

from audit.analyses.findings import Cause, finding
from audit.analyses.skipped import Skipped
from audit.logs import Run

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


def config_causes(a: Run, b: Run) -> tuple[list[Cause], list[Skipped]]:
    """Compare the settings that both manifests give; one that only one side gives is not a difference."""
    settings = [(run.manifest.config or {}) | (run.manifest.sampling or {}) for run in (a, b)]
    if not all(settings):
        return [], [Skipped("optimiser and sampling settings", "config in run.json on both sides")]
    causes = []
    for id_, keys, title in _GROUPS:
        differing = {key: [s[key] for s in settings] for key in keys if _differ(key, settings)}
        if differing:
            listed = ", ".join(f"{key} {va} against {vb}" for key, (va, vb) in differing.items())
            causes.append(finding(id_, 0.7, f"{title}: {listed}.", differing))
    return causes, []


def _differ(key: str, settings: list[dict[str, Any]]) -> bool:
    return all(key in s for s in settings) and settings[0][key] != settings[1][key]

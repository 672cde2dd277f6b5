"""rlaudit: audit logged RL fine-tuning runs of language models.

>>> import audit
>>> run = audit.open_run("sample_logs/team/grpo-seed1")        # doctest: +SKIP
>>> audit.explain(run, audit.open_run("sample_logs/team/dr-grpo-seed1")).verdict.text  # doctest: +SKIP
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from audit.api import (
        check,
        clipping,
        explain,
        explain_many,
        groups,
        kl,
        length_bias,
        mismatch,
        prompts,
        rewards,
        staleness,
        summary,
        weights,
    )
    from audit.errors import AuditError
    from audit.importers import find_runs, open_run
    from audit.logs import RolloutWriter
    from audit.objectives.objective import Objective

_PLACES = {
    **dict.fromkeys(
        (
            "check",
            "clipping",
            "explain",
            "explain_many",
            "groups",
            "kl",
            "length_bias",
            "mismatch",
            "prompts",
            "rewards",
            "staleness",
            "summary",
            "weights",
        ),
        "audit.api",
    ),
    **dict.fromkeys(("find_runs", "open_run"), "audit.importers"),
    "AuditError": "audit.errors",
    "Objective": "audit.objectives.objective",
    "RolloutWriter": "audit.logs",
}

__all__ = [
    "AuditError",
    "Objective",
    "RolloutWriter",
    "check",
    "clipping",
    "explain",
    "explain_many",
    "find_runs",
    "groups",
    "kl",
    "length_bias",
    "mismatch",
    "open_run",
    "prompts",
    "rewards",
    "staleness",
    "summary",
    "weights",
]


def __getattr__(name: str) -> Any:
    # Imported on first use: torch and duckdb take a second, and `import audit` should take none.
    if name not in _PLACES:
        msg = f"module 'audit' has no attribute {name!r}"
        raise AttributeError(msg)
    from importlib import import_module

    return getattr(import_module(_PLACES[name]), name)


def __dir__() -> list[str]:
    return __all__

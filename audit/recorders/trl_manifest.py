"""The run.json of a TRL run."""

from __future__ import annotations

import os
import re
from typing import Any

import msgspec

# They say where a run was written or who ran it, not what it did.
_PLACES = re.compile(
    r"output_dir|logging_dir|run_name|project|trackio_.*|resume_from_checkpoint|hub_.*|push_to_hub.*|"
    r"log_completions_hub_repo|local_rank|vllm_server_.*|vllm_group_port"
)


def manifest_of(trainer: Any, run_id: str, version: str) -> dict[str, Any]:
    """Describe a live GRPOTrainer or RLOOTrainer as run.json does.

    The trainer's arguments stand under ``config`` as they are, without paths and host names.
    """
    args = trainer.args
    model = _model_name(trainer.model)
    trainer_class = (
        "RLOOTrainer" if any(c.__name__ == "RLOOTrainer" for c in type(trainer).__mro__) else "GRPOTrainer"
    )
    return {
        "schema": "rlaudit.run.v1",
        "run_id": run_id,
        "framework": {"name": "trl", "version": version, "trainer": trainer_class},
        "model": model,
        **({"reference": model} if args.beta else {}),
        "group_size": args.num_generations,
        "seed": args.seed,
        "sampling": {
            "temperature": args.temperature,
            "top_p": args.top_p,
            "top_k": args.top_k,
            "min_p": args.min_p,
            "repetition_penalty": args.repetition_penalty,
            "max_tokens": args.max_completion_length,
        },
        "config": recordable_config(args.to_dict()),
    }


def recordable_config(config: dict[str, Any]) -> dict[str, Any]:
    """Return the entries of ``config`` that JSON can hold and that name no place on a machine."""
    return {
        key: value
        for key, value in config.items()
        if not _PLACES.fullmatch(key) and _is_json(value) and not _names_a_path(value)
    }


def _model_name(model: Any) -> str:
    name = getattr(model.config, "_name_or_path", "")
    if not name:
        return type(model).__name__
    return os.path.basename(os.path.normpath(name)) if os.path.isabs(name) else str(name)


def _is_json(value: Any) -> bool:
    try:
        msgspec.json.encode(value)
    except (TypeError, ValueError, OverflowError):
        return False
    return True


def _names_a_path(value: Any) -> bool:
    if isinstance(value, str):
        return os.path.isabs(value)
    if isinstance(value, dict):
        return any(_names_a_path(part) for part in value.values())
    return isinstance(value, list | tuple) and any(_names_a_path(part) for part in value)

"""Configs of verl for the tests of its dialect."""

from __future__ import annotations

from typing import Any

from audit.objectives.dialects import from_framework
from audit.objectives.objective import Objective

CORRECTION = "algorithm.rollout_correction."


def declared(config: dict[str, Any] | None = None, version: str = "0.9.1", **actor: Any) -> Objective:
    """GRPO by default; keywords are options of the actor."""
    settings = {"algorithm.adv_estimator": "grpo", "actor_rollout_ref.actor.entropy_coeff": 0}
    settings |= {f"actor_rollout_ref.actor.{key.replace('__', '.')}": value for key, value in actor.items()}
    return from_framework("verl", version, {**settings, **(config or {})}).objective


def loss(mode: str, version: str = "0.9.1", **actor: Any) -> Objective:
    return declared({}, version, policy_loss__loss_mode=mode, **actor)


def corrected(version: str = "0.9.1", mode: str = "vanilla", **options: Any) -> Objective:
    config = {CORRECTION + key: value for key, value in options.items()}
    return declared(config, version, policy_loss__loss_mode=mode)

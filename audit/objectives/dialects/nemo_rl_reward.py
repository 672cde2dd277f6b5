"""NeMo-RL: reward scaling and shaping, and the advantage estimators; sources in nemo_rl.py."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from audit.errors import BadObjective
from audit.objectives.dialects.config import Options, bounds
from audit.objectives.objective import (
    Baseline,
    Overlong,
    Scale,
    Shaping,
    Whiten,
)

_WHITEN = Whiten(epsilon=1e-8, epsilon_in="floor")


def advantage_of(o: Options, estimator: dict[str, Any]) -> tuple[Baseline, Scale]:
    """Baseline and scale of ``adv_estimator``, whose absent keys are those of ``grpo``.

    Raises
    ------
    BadObjective
        An option that an objective cannot express is in use.
    """
    clip = bounds(o["grpo.advantage_clip_low"], o["grpo.advantage_clip_high"])
    name = estimator["name"]
    if name == "grpo":
        loo = estimator.get("use_leave_one_out_baseline", o["grpo.use_leave_one_out_baseline"])
        baseline = Baseline(kind="leave_one_out" if loo else "group_mean")
        if not estimator.get("normalize_rewards", o["grpo.normalize_rewards"]):
            return baseline, Scale(clip=clip)
        kind: Literal["leave_one_out_std", "group_std"] = "leave_one_out_std" if loo else "group_std"
        return baseline, Scale(kind=kind, ddof=1, epsilon=1e-6, clip=clip)
    if name == "reinforce_plus_plus":
        centred = estimator.get("minus_baseline", True)
        return Baseline(kind="group_mean" if centred else "none"), Scale(whiten=_WHITEN, clip=clip)
    if name == "raw_reward":
        whiten = _WHITEN if estimator.get("normalize_advantages") else None
        return Baseline(), Scale(whiten=whiten, clip=clip)
    raise BadObjective(
        f"NeMo-RL's adv_estimator.name={name!r} is not expressible as an objective from its config "
        "(gdpo: its components are not named; gae: decoupled lambdas; or unknown)."
    )


def shaping_of(o: Options) -> Shaping:
    """Reward scaling (clip to a range, map to another), then the overlong penalty."""
    scaling, shaping = o["grpo.reward_scaling"] or {}, o["grpo.reward_shaping"] or {}
    clip, factor, offset = None, 1.0, 0.0
    if scaling.get("enabled"):
        clip = (scaling.get("source_min", 0.0), scaling.get("source_max", 1.0))
        low, high = scaling.get("target_min", 0.0), scaling.get("target_max", 1.0)
        factor = (high - low) / (clip[1] - clip[0])
        offset = low - factor * clip[0]
    return Shaping(clip=clip, factor=factor, offset=offset, overlong=_overlong(shaping))


def _overlong(shaping: Mapping[str, Any]) -> Overlong | None:
    if not shaping.get("enabled"):
        return None
    coefficient = shaping.get("stop_properly_penalty_coef")
    if coefficient is not None:
        if coefficient == 1:
            return None
        msg = f"NeMo-RL's reward_shaping.stop_properly_penalty_coef={coefficient} is not expressible as an "
        raise BadObjective(f"{msg}objective: the reward of cut-off responses is rescaled.")
    names = ("max_response_length", "overlong_buffer_length", "overlong_buffer_penalty")
    missing = [name for name in names if shaping.get(name) is None]
    if missing:
        raise BadObjective(f"NeMo-RL's reward_shaping needs {missing[0]}, which this config leaves unset.")
    length, cache, penalty = (shaping[name] for name in names)
    return Overlong(max_length=length, cache=cache, penalty=penalty, capped=False)

"""verl's rollout correction: importance weights and rejection for a sampler that is not the trainer's policy.

- ``rollout_is``: the weight old / sampler, ``token`` or ``sequence`` (a product), truncated at the threshold;
  since 0.8.0 a threshold "low_high" masks outside instead (IcePop).
- ``rollout_rs`` since 0.7.1: ``token``, ``seq_sum``, ``seq_mean`` or ``seq_max`` × k1, k2, k3. k1 is
  -log(old / sampler), so a window "a_b" keeps old / sampler in [1/b, 1/a]. k2 and k3 of a token are windows
  of the ratio too; over a response they are not, and are refused. In 0.6.1 and 0.7.0 ``token``, ``sequence``
  and ``geometric`` are windows of old / sampler itself.
- rejected tokens leave the loss and the KL in it; they leave the normaliser too, except where it was counted
  before (trainer of 0.9; bypass with the workers of 0.8).
- 0.6.0 had ``rollout_is_*`` under ``algorithm`` instead, with a veto that is on by default.
- bypass: the sampler stands in for the old policy. The clipped loss then takes no weights, ``reinforce``
  (0.6.1: ``use_policy_gradient``) takes theta / sampler and has no ratio of its own.

Read: verl/trainer/ppo/rollout_corr_helper.py, 0.6.0 mismatch_helper.py; core_algos.py
``compute_policy_loss_bypass_mode``; versions as in :mod:`~audit.objectives.dialects.verl`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from audit.errors import BadObjective
from audit.objectives.dialects.blame import shown
from audit.objectives.dialects.verl_aggregation import legacy_worker
from audit.objectives.dialects.verl_config import Version
from audit.objectives.dialects.verl_windows import rejection_window
from audit.objectives.objective import Correction

Numerator = Literal["old", "theta"]
Level = Literal["token", "product", "sequence"]

_HERE = "algorithm.rollout_correction."
_LEVELS: dict[str, Level] = {"token": "token", "sequence": "product", "geometric": "sequence"}
_RS_LEVELS: dict[str, Level] = {"token": "token", "seq_sum": "product", "seq_mean": "sequence"}


class RolloutCorrection(NamedTuple):
    """What the rollout correction does to the loss."""

    corrections: tuple[Correction, ...] = ()
    bypass: Literal["ppo_clip", "reinforce"] | None = None
    """The sampler stands in for the old policy, in this loss."""


def rollout_correction(config: Mapping[str, Any], number: Version, mode: str) -> RolloutCorrection:
    """Return the rollout correction of a completed config.

    Parameters
    ----------
    mode : str
        policy_loss.loss_mode.

    Raises
    ------
    BadObjective
    """
    if number < (0, 6):
        return RolloutCorrection()
    if number < (0, 6, 1):
        return RolloutCorrection(_weights_of_0_6_0(config))
    if config[_HERE + "rollout_is_batch_normalize"] and config[_HERE + "rollout_is"]:
        msg = (
            f"verl's {_HERE}rollout_is_batch_normalize=True is not expressible as an objective (weights "
            "divided by their mean over the batch)."
        )
        raise BadObjective(msg)
    bypass = _bypass(config, number, mode)
    numerator: Numerator = "old" if bypass is None else "theta"
    if bypass == "ppo_clip" and number < (0, 7):
        return RolloutCorrection((), bypass)
    weights = () if bypass == "ppo_clip" else _weights(config, number, mode, numerator)
    rejection = _rejection(config, number, mode, numerator)
    return RolloutCorrection((*weights, *rejection), bypass)


def _bypass(config: Mapping[str, Any], number: Version, mode: str) -> Literal["ppo_clip", "reinforce"] | None:
    if number < (0, 7):
        if not config[_HERE + "bypass_mode"] and mode != "rollout_correction":
            return None
        gradient = config[_HERE + "use_policy_gradient"] or mode == "rollout_correction"
        return "reinforce" if gradient else "ppo_clip"
    if not config[_HERE + "bypass_mode"] and mode != "bypass_mode":
        return None
    loss = config[_HERE + "loss_type"]
    if loss == "ppo_clip":
        return "ppo_clip"
    if loss == "reinforce":
        return "reinforce"
    raise BadObjective(f"verl has no {_HERE}loss_type {loss!r}.")


def _weights(
    config: Mapping[str, Any], number: Version, mode: str, numerator: Numerator
) -> tuple[Correction, ...]:
    kind, threshold = config[_HERE + "rollout_is"], config[_HERE + "rollout_is_threshold"]
    if kind is None or threshold is None:
        return ()
    if kind not in ("token", "sequence"):
        raise BadObjective(f"verl has no {_HERE}rollout_is {kind!r}.")
    if mode == "geo_mean" and kind == "token":
        raise _not_expressible("rollout_is='token' with geo_mean", "the geometric mean of truncated weights")
    low, high = _bounds(threshold, number)
    action: Literal["truncate", "mask"] = "truncate" if low is None else "mask"
    made = Correction(action=action, level=_LEVELS[kind], numerator=numerator, low=low, high=high)
    return (made,)


def _bounds(threshold: float | str, number: Version) -> tuple[float | None, float]:
    """A single upper bound, or "low_high"."""
    option = _HERE + "rollout_is_threshold"
    if not (isinstance(threshold, str) and "_" in threshold and number >= (0, 8)):
        return None, _number(option, threshold)
    low, high = (_number(option, side) for side in threshold.split("_", 1))
    if low > high:
        raise BadObjective(f"verl's {option}={threshold!r}: low must not exceed high.")
    return low, high


def _rejection(
    config: Mapping[str, Any], number: Version, mode: str, numerator: Numerator
) -> tuple[Correction, ...]:
    options = config[_HERE + "rollout_rs"]
    if config.get(_HERE + "rollout_token_veto_threshold") is not None:
        veto = config[_HERE + "rollout_token_veto_threshold"]
        raise _not_expressible(
            f"rollout_token_veto_threshold={veto!r}", "rows dropped for their least likely token"
        )
    if options is None:
        return ()
    if mode == "geo_mean":
        raise _not_expressible(f"rollout_rs={options!r} with geo_mean", "tokens leave the geometric mean")
    if number < (0, 7, 1):
        windows = [_window_of_0_7_0(config, options)]
    else:
        windows = [
            (_RS_LEVELS[level], low, high)
            for level, low, high in rejection_window(
                options, config[_HERE + "rollout_rs_threshold"], where=_HERE
            )
        ]
    legacy = legacy_worker(config, number)
    counted_before = not legacy and (
        numerator == "theta" or (number >= (0, 9) and config.get("trainer.use_v1", True))
    )
    by_row = mode == "sapo" or config.get("actor.loss_agg_mode") == "seq-mean-token-mean"
    return tuple(
        Correction(
            action="gate",
            level=level,
            numerator=numerator,
            low=low,
            high=high,
            leaves_denominator=not counted_before or by_row,  # a row divides by the tokens it kept
            weighs_kl=numerator == "old",
        )
        for level, low, high in windows
    )


def _window_of_0_7_0(config: Mapping[str, Any], level: str) -> tuple[Level, float, float]:
    if level not in _LEVELS:
        raise BadObjective(f"verl has no {_HERE}rollout_rs {level!r} in this version.")
    own = config[_HERE + "rollout_rs_threshold"] is not None
    upper = _HERE + ("rollout_rs_threshold" if own else "rollout_is_threshold")
    lower = _HERE + "rollout_rs_threshold_lower"
    high = _number(upper, config[upper])
    return _LEVELS[level], 1.0 / high if config[lower] is None else _number(lower, config[lower]), high


def _weights_of_0_6_0(config: Mapping[str, Any]) -> tuple[Correction, ...]:
    threshold = config["algorithm.rollout_is_threshold"]
    if threshold is None or not config["algorithm.rollout_is"]:
        return ()
    veto = config["algorithm.rollout_is_veto_threshold"]
    if veto is not None:
        msg = (
            f"verl's algorithm.rollout_is_veto_threshold={veto!r} is not expressible as an objective (rows "
            "dropped for their least likely token)."
        )
        raise BadObjective(msg)
    kind, action = config["algorithm.rollout_is_level"], config["algorithm.rollout_is_mode"]
    if kind not in _LEVELS or action not in ("truncate", "mask"):
        msg = (
            f"verl 0.6.0 has no algorithm.rollout_is_level {kind!r} with "
            f"algorithm.rollout_is_mode {action!r}."
        )
        raise BadObjective(msg)
    high = _number("algorithm.rollout_is_threshold", threshold)
    if action == "truncate":
        return (Correction(action="truncate", level=_LEVELS[kind], high=high),)
    lower = "algorithm.rollout_is_threshold_lower"
    low = 1.0 / high if config[lower] is None else _number(lower, config[lower])
    return (Correction(action="mask", level=_LEVELS[kind], low=low, high=high),)


def _number(option: str, value: Any) -> float:
    try:
        # float() would read "1_0" as 10.
        number = math.nan if isinstance(value, bool) or "_" in str(value) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not 0.0 < number < math.inf:
        raise BadObjective(f"verl's {option}={shown(value)} must be a positive number.")
    return number


def _not_expressible(option: str, what: str) -> BadObjective:
    return BadObjective(f"verl's {_HERE}{option} is not expressible as an objective ({what}).")

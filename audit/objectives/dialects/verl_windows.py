"""verl's rejection thresholds as windows of the ratio.

Unsloth reads the same options from its environment.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from audit.errors import BadObjective

Window = tuple[str, float, float]
"""Level (token, seq_sum, seq_mean), lowest and highest ratio that is kept."""


def rejection_window(options: str, thresholds: str | float | None, *, where: str = "") -> list[Window]:
    """Return the window of every comma-separated option.

    Parameters
    ----------
    options, thresholds
        Values of rollout_rs and rollout_rs_threshold.
    where : str
        What stands before these names in the config.

    Raises
    ------
    BadObjective
        An option is unknown or is no window of the ratio, or a threshold cannot be read.
    """
    named = list(dict.fromkeys(part.strip() for part in options.split(",") if part.strip()))
    if thresholds is None:
        raise BadObjective(f"verl's {where}rollout_rs={options!r} needs {where}rollout_rs_threshold.")
    specs = [part.strip() for part in str(thresholds).split(",") if part.strip()]
    if len(specs) not in (1, len(named)) or not named:
        raise BadObjective(
            f"verl: {len(specs)} {where}rollout_rs_threshold for {len(named)} rollout_rs options."
        )
    specs = specs * len(named) if len(specs) == 1 else specs
    return [_window(option, spec) for option, spec in zip(named, specs, strict=True)]


def _window(option: str, spec: str) -> Window:
    level, _, estimator = option.rpartition("_")
    known = level in ("token", "seq_sum", "seq_mean", "seq_max") and estimator in ("k1", "k2", "k3")
    if not known or option == "seq_max_k1":
        raise BadObjective(f"verl has no rollout_rs {option!r}.")
    if estimator == "k1":
        low, high = _bounds(option, spec)
        return level, 1.0 / high, 1.0 / low
    if level != "token":
        msg = (
            f"verl's rollout_rs={option!r} is not expressible as an objective ({estimator} over a response "
            "is no window of its ratio)."
        )
        raise BadObjective(msg)
    most = _positive(option, spec)
    if estimator == "k2":
        width = math.sqrt(2.0 * most)
        return level, math.exp(-width), math.exp(width)

    def beyond(log_ratio: float) -> float:
        return math.expm1(log_ratio) - log_ratio - most

    return level, math.exp(_root(beyond, -most - 1.0, 0.0)), math.exp(_root(beyond, 0.0, most + 2.0))


def _bounds(option: str, spec: str) -> tuple[float, float]:
    if "_" in spec:
        first, second = spec.split("_", 1)
        low, high = _positive(option, first), _positive(option, second)
    else:
        high = _positive(option, spec)
        low = 1.0 / high
    if low > high:
        raise BadObjective(
            f"verl refuses rollout_rs_threshold={spec!r} for {option!r}: low must not exceed high."
        )
    return low, high


def _positive(option: str, spec: str) -> float:
    try:
        value = float(spec) if "_" not in spec else math.nan
    except ValueError:
        value = math.nan
    if not 0.0 < value < math.inf:
        raise BadObjective(f"verl cannot read rollout_rs_threshold={spec!r} for {option!r}.")
    return value


def _root(function: Callable[[float], float], low: float, high: float) -> float:
    """Root of a function with one change of sign in [low, high], by bisection to the last bit."""
    rising = function(high) > function(low)
    while True:
        middle = 0.5 * (low + high)
        if middle in (low, high):
            return middle
        if (function(middle) > 0) == rising:
            high = middle
        else:
            low = middle

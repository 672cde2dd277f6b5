"""Two groups of four short responses for the numeric checks of dialects; how a cell of a table is read."""

from __future__ import annotations

import random
from typing import Any

import pytest
from objectives.weight_cases import Row, responses_of, tokens_of

from audit.objectives.dialects import from_framework
from audit.objectives.objective import Objective
from audit.objectives.weights import effective_weights

REWARDS = ((1.0, 0.0, 0.0, 0.0), (1.0, 1.0, 0.0, 0.25))
LENGTHS = ((3, 2, 5, 1), (4, 2, 3, 2))


def batch(
    rewards: tuple[tuple[float, ...], ...] = REWARDS, *, drift: float = 0.3, micro: bool = False
) -> list[Row]:
    """Rows of one update; log-probs differ by up to ``drift`` nats between the policies."""
    dice = random.Random(20260930)
    rows = []
    for group, (of_group, lengths) in enumerate(zip(rewards, LENGTHS, strict=False)):
        for reward, length in zip(of_group, lengths, strict=False):
            base = [-dice.uniform(0.2, 2.0) for _ in range(length)]
            moved = [tuple(x + dice.uniform(-drift, drift) for x in base) for _ in range(4)]
            rows.append(
                Row(
                    reward,
                    mask=(True,) * length,
                    theta=moved[0],
                    old=moved[1],
                    ref=moved[2],
                    sampler=moved[3],
                    group=group,
                    micro=group if micro else 0,
                )
            )
    return rows


def on_policy(rows: list[Row]) -> list[Row]:
    """The same rows with theta = old = sampler."""
    return [
        Row(r.reward, r.mask, r.theta, r.theta, r.ref, r.theta, group=r.group, micro=r.micro) for r in rows
    ]


def weights(objective: Objective, rows: list[Row]) -> list[list[float]]:
    """Weight of every token, response by response."""
    flat = iter(effective_weights(tokens_of(rows), responses_of(rows), objective).weight.tolist())
    return [[next(flat) for _ in row.mask] for row in rows]


def assert_weights(objective: Objective, rows: list[Row], expected: list[list[float]]) -> None:
    """Compare with weights computed elsewhere, token by token."""
    for mine, theirs in zip(weights(objective, rows), expected, strict=True):
        assert mine == pytest.approx(theirs, rel=1e-9, abs=1e-12)


def clipped(ratio: float, advantage: float, low: float, high: float) -> float:
    """PPO's c."""
    off = (advantage > 0 and ratio > 1 + high) or (advantage < 0 and ratio < 1 - low)
    return 0.0 if off else ratio


def cell(where: str, field: str, value: Any, config: dict[str, Any] | None = None, **how: Any) -> Any:
    """A parameter: where METHODS says it, the field that holds it, its value, and the config that asks."""
    return pytest.param(config or {}, field, value, how.get("version"), id=f"{where}: {field}={value}")


def check_cell(framework: str, version: str, config: dict[str, Any], field: str, value: Any) -> None:
    """Compare one field of the declared objective, by its dotted name in JSON; a float to its last digit."""
    found: Any = from_framework(framework, version, config).objective.to_dict()
    for name in field.split("."):
        found = found[int(name)] if isinstance(found, (list, tuple)) else found[name]
    if isinstance(value, float):
        assert found == pytest.approx(value, rel=1e-12)
    else:
        assert found == value


def objective(framework: str, version: str, **config: Any) -> Objective:
    """What a config declares; double underscores stand for dots."""
    dotted = {name.replace("__", "."): value for name, value in config.items()}
    return from_framework(framework, version, dotted).objective

"""What charts should show, from the raw Parquet in plain loops: no function of an analysis is called here."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any

import pyarrow.parquet as pq

SAMPLES = Path(__file__).parents[2] / "sample_logs"
EPSILON, BETA = 0.2, 0.04
"""Clip and KL coefficient of GRPO in the testbed's runs."""
Row = dict[str, Any]


def logged(run: str) -> list[Row]:
    """Rows of a sample log as they stand in its files."""
    return pq.read_table(SAMPLES / run / "rollouts").to_pylist()


def first_pass(rows: Sequence[Row]) -> list[Row]:
    return [row for row in rows if row["epoch"] == 0]


def split(rows: Iterable[Row], key: Callable[[Row], Hashable]) -> dict[Any, list[Row]]:
    """Rows by key, in order of first appearance."""
    found: dict[Any, list[Row]] = defaultdict(list)
    for row in rows:
        found[key(row)].append(row)
    return dict(found)


def step_bins(steps: Sequence[int], most: int) -> dict[int, int]:
    """Bin of each step: the one of ``most`` equal parts that its middle entry falls into."""
    distinct = sorted(set(steps))
    if len(distinct) <= most:
        return {step: at for at, step in enumerate(distinct)}
    part, before = {}, 0
    for step in distinct:
        count = steps.count(step)
        part[step] = math.floor((before + count / 2) * most / len(steps))
        before += count
    rank = {value: at for at, value in enumerate(sorted(set(part.values())))}
    return {step: rank[value] for step, value in part.items()}


def in_bins(rows: Sequence[Row], most: int, of: Sequence[Row] | None = None) -> list[list[Row]]:
    """Rows of each bin of steps; bins are those of the rows ``of``."""
    place = step_bins([row["step"] for row in (rows if of is None else of)], most)
    found: list[list[Row]] = [[] for _ in range(max(place.values()) + 1)]
    for row in rows:
        found[place[row["step"]]].append(row)
    return found


def middle(rows: Sequence[Row]) -> float:
    steps = [row["step"] for row in rows]
    return (min(steps) + max(steps)) / 2


def side(row: Row) -> str:
    return "correct" if row["correct"] else "wrong"


def ratios(row: Row) -> list[float]:
    return [math.exp(a - b) for a, b in zip(row["logp_theta"], row["logp_old"], strict=True)]


def removed(ratio: float, advantage: float, low: float = EPSILON, high: float = EPSILON) -> bool:
    """Whether PPO's clip takes the token out: arXiv:1707.06347, eq. 7."""
    return (advantage > 0 and ratio > 1 + high) or (advantage < 0 and ratio < 1 - low)


def advantages(rows: Sequence[Row], scaled: bool) -> dict[int, float]:
    """Reward less the mean of its group, where ``scaled`` over its standard deviation; by id of row."""
    found = {}
    for group in split(rows, lambda row: (row["group_id"], row["epoch"])).values():
        rewards = [row["reward"] for row in group]
        mean, spread = fmean(rewards), pstdev(rewards) if scaled else 1.0
        for row in group:
            found[id(row)] = (row["reward"] - mean) / spread if spread else 0.0
    return found


def policy_weights(
    row: Row, advantage: float, responses: int, per_token: bool, constant: float = 1.0
) -> list[float]:
    """Token weights of one response, the KL left out: A · ratio, 0 where clipped, over what normalises them.

    ``per_token``: every response is divided by its own length (GRPO), else by a constant (Dr. GRPO).
    """
    size = responses * (len(row["token_ids"]) if per_token else constant)
    return [0.0 if removed(r, advantage) else advantage * r / size for r in ratios(row)]


def kl_weights(row: Row, responses: int, per_token: bool, constant: float = 1.0) -> list[float]:
    """What k3 in the loss adds to the weights: beta (e^r - 1), r = log pi_ref - log pi_theta."""
    size = responses * (len(row["token_ids"]) if per_token else constant)
    gaps = [ref - theta for ref, theta in zip(row["logp_ref"], row["logp_theta"], strict=True)]
    return [BETA * math.expm1(gap) / size for gap in gaps]


def binomial(p: float, size: int) -> list[float]:
    """Probability of 0 … G successes."""
    return [math.comb(size, k) * p**k * (1 - p) ** (size - k) for k in range(size + 1)]


def nearest(values: Iterable[float], to: float) -> float:
    return min(values, key=lambda value: abs(value - to))

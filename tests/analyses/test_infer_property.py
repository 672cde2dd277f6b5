"""Whatever usual candidate made the advantages, it is among those that cannot be told apart from the best."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from synthetic import Rows, write

from audit.analyses.infer import EPSILONS, EXACT, infer
from audit.facts.rows import RunRows

BASELINES = ("group_mean", "leave_one_out", "none", "batch_mean")


@dataclass(frozen=True)
class Truth:
    baseline: str
    scale: str
    ddof: int
    epsilon: float


truths = st.builds(
    Truth,
    st.sampled_from(BASELINES),
    st.sampled_from(("none", "group_std", "batch_std")),
    st.sampled_from((0, 1)),
    st.sampled_from(EPSILONS),
)
rewards = st.one_of(
    st.sampled_from((0.0, 1.0)), st.integers(-8, 8).map(lambda x: x / 4), st.floats(-3, 3, width=32)
)
groups = st.lists(st.lists(st.one_of(rewards, st.none()), min_size=1, max_size=5), min_size=1, max_size=5)
batches = st.lists(groups, min_size=1, max_size=3)


def known(values: list[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def std(values: list[float], ddof: int) -> float:
    if len(values) <= ddof:
        return math.inf
    mean = statistics.fmean(values)
    return math.sqrt(sum((x - mean) ** 2 for x in values) / (len(values) - ddof))


def made(reward: float, group: list[float], batch: list[float], truth: Truth) -> float:
    """One advantage, from the scorable rewards of its group and of its batch."""
    if truth.baseline == "none":
        centred = reward
    elif truth.baseline == "batch_mean":
        centred = reward - statistics.fmean(batch)
    elif max(group) == min(group):
        centred = 0.0
    else:
        centred = reward - statistics.fmean(group)
        if truth.baseline == "leave_one_out":
            centred *= len(group) / (len(group) - 1)
    pool = {"none": [], "group_std": group, "batch_std": batch}[truth.scale]
    if not pool or max(pool) == min(pool):
        return centred
    return centred / (std(pool, truth.ddof) + truth.epsilon)


def log(batches: list[list[list[float | None]]], truth: Truth) -> Rows:
    rows: Rows = []
    for step, held in enumerate(batches):
        whole = [reward for group in held for reward in known(group)]
        for at, group in enumerate(held):
            for index, reward in enumerate(group):
                advantage = 0.0 if reward is None else made(reward, known(group), whole, truth)
                rows.append(
                    {
                        "step": step,
                        "prompt_id": f"p{at}",
                        "group_id": f"{step}-{at}",
                        "sample_index": index,
                        "reward": reward,
                        "advantage": float(np.float32(advantage)),
                    }
                )
    return rows


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(batches, truths)
def test_the_maker_is_never_missing_from_the_equivalent_set(tmp_path_factory, batches, truth) -> None:
    rows = log(batches, truth)
    found = infer(RunRows.read(write(tmp_path_factory.mktemp("run") / "run", rows)), None)
    if all(row["advantage"] == 0.0 for row in rows if row["reward"] is not None):
        assert found.status == "skipped"
        return
    assert found.status == "fits"
    scaled = truth.scale != "none"
    maker = (
        truth.baseline,
        truth.scale,
        truth.ddof if scaled else None,
        truth.epsilon if scaled else None,
    )
    alike = {(c.baseline, c.scale, c.ddof, c.epsilon) for c in found.equivalent}
    assert maker in alike
    assert all(candidate.residual <= EXACT for candidate in found.equivalent)
    assert found.n == sum(row["reward"] is not None for row in rows)
    assert bool(found.not_identifiable) == (len(found.equivalent) > 1)


penalties = st.tuples(st.integers(1, 18), st.integers(1, 12), st.sampled_from((0.1, 0.5, 1.0, 2.5)))


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(penalties, st.sampled_from((None, 0, 1)), st.integers(0, 1000))
def test_any_penalty_of_length_is_found(tmp_path_factory, penalty, ddof, seed) -> None:
    start, width, size = penalty
    rng = np.random.default_rng(seed)
    rows: Rows = []
    for at in range(40):
        length = rng.integers(1, 25, size=6)
        reward = rng.integers(0, 2, size=6).astype(float)
        shaped = [
            float(r - size * min(max((n - start) / width, 0), 1)) for r, n in zip(reward, length, strict=True)
        ]
        mean = statistics.fmean(shaped)
        divisor = 1.0 if ddof is None or max(shaped) == min(shaped) else std(shaped, ddof)
        for index in range(6):
            rows.append(
                {
                    "step": at // 8,
                    "prompt_id": f"p{at}",
                    "group_id": f"{at}",
                    "sample_index": index,
                    "reward": float(reward[index]),
                    "length": int(length[index]),
                    "advantage": float(np.float32((shaped[index] - mean) / divisor)),
                }
            )
    run = write(tmp_path_factory.mktemp("run") / "run", rows, length_unit="tokens")
    found = infer(RunRows.read(run), None)
    assert found.status == "fits"
    assert found.best is not None
    ramp = found.best.overlong
    assert ramp is not None
    for n in range(1, 25):
        told = ramp.penalty * min(max((n - ramp.start) / (ramp.full - ramp.start), 0), 1)
        assert abs(told - size * min(max((n - start) / width, 0), 1)) < 1e-3 * size

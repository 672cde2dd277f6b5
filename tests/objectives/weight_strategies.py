"""Random ragged batches and random objectives for the tests of weights."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from hypothesis import strategies as st
from weight_cases import Row

from audit.objectives.objective import (
    KL,
    Aggregation,
    Baseline,
    Filter,
    LossKL,
    Objective,
    Overlong,
    Ratio,
    RewardKL,
    Scale,
    Shaping,
    from_dict,
)
from audit.objectives.surrogates import CISPOClip, NoClip, PPOClip

POISON = (math.nan, math.inf, -math.inf)

# Bounds with odd digits: no ratio computed from random log-probs, nor the ratio 1, lies exactly on one.
EPSILONS = st.sampled_from([None, 0.0113, 0.0871, 0.2131, 0.4517])

shapings = st.builds(
    Shaping,
    clip=st.sampled_from([None, None, (-0.5, 0.9)]),
    factor=st.sampled_from([1.0, 1.0, 0.75]),
    offset=st.sampled_from([0.0, 0.0, -0.5]),
    overlong=st.none()
    | st.builds(
        Overlong,
        max_length=st.sampled_from([4, 6, 7]),
        cache=st.integers(1, 4),
        penalty=st.sampled_from([1.0, 0.37]),
    ),
)
filters = st.builds(Filter, dynamic_sampling=st.booleans(), mask_truncated=st.booleans())
baselines = st.sampled_from(["none", "group_mean", "leave_one_out", "greedy", "batch_mean", "logged"]).map(
    lambda kind: Baseline(kind=kind)
)
scales = st.builds(
    Scale,
    kind=st.sampled_from(["none", "group_std", "batch_std"]),
    ddof=st.sampled_from([0, 1]),
    epsilon=st.sampled_from([0.0, 1e-9, 1e-6, 1e-4, 0.3]),
    reward_clip=st.sampled_from([None, None, (-0.6131, 0.4517)]),
)
ratios = st.one_of(
    st.just(Ratio()),
    st.builds(
        Ratio,
        denominator=st.sampled_from(["old", "sampler"]),
        level=st.sampled_from(["token", "sequence", "product"]),
    ),
)
clips = st.one_of(
    st.just(NoClip()),
    st.builds(
        PPOClip,
        epsilon_low=EPSILONS,
        epsilon_high=EPSILONS,
        delta=st.sampled_from([None, None, 0.713, 1.0917, 1.913]),
        dual=st.sampled_from([None, None, 0.631, 1.177, 1.521]),
    ),
    st.builds(CISPOClip, epsilon_low=EPSILONS, epsilon_high=EPSILONS),
    st.builds(CISPOClip, epsilon_high=st.sampled_from([-0.7731, 4.0])),
)
aggregations = st.tuples(
    st.sampled_from(
        [
            "seq-mean-token-mean",
            "token-mean",
            "seq-mean-token-sum",
            "seq-mean-token-sum-norm",
            "token-sum",
            "token-sum-norm",
        ]
    ),
    st.sampled_from(["micro_batch", "update", "generation_batch"]),
).map(
    lambda pair: Aggregation(
        kind=pair[0], scope=pair[1], constant=13.5 if pair[0].endswith("-norm") else None
    )
)
kls = st.builds(
    KL,
    reward=st.none()
    | st.builds(
        RewardKL, coefficient=st.sampled_from([0.05, 1.3]), estimator=st.sampled_from(["k1", "k2", "k3"])
    ),
    loss=st.none()
    | st.builds(
        LossKL,
        coefficient=st.sampled_from([0.04, 1.7]),
        estimator=st.sampled_from(["k1", "k2", "k3"]),
        gradient=st.sampled_from(["pathwise", "ratio"]),
    ),
)


@st.composite
def objectives(draw: st.DrawFn) -> Objective:
    """Any valid composition of the fields."""
    baseline = draw(baselines)
    objective = Objective(
        shaping=draw(shapings),
        filter=draw(filters),
        baseline=baseline,
        scale=Scale() if baseline.kind == "logged" else draw(scales),
        ratio=draw(ratios),
        clip=draw(clips),
        aggregation=draw(aggregations),
        kl=draw(kls),
    )
    return from_dict(objective.to_dict())


REWARDS = (0.0, 1.0, 0.0, 1.0, 0.1, 0.3, -0.7, 1.5)


@st.composite
def batches(draw: st.DrawFn, by_token: st.SearchStrategy[bool] | None = None) -> list[Row]:
    """Whole groups in whole updates in whole generation batches; one or two epochs over each of them.

    Groups may be split over micro-batches and over the updates of one generation batch. Every group has a
    greedy row (see without_greedy).
    """
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    spread = draw(st.sampled_from([0.02, 0.3, 0.8]))
    every_token = draw(st.booleans() if by_token is None else by_token)
    rows: list[Row] = []
    group = update = micro = generation = 0
    for _ in range(draw(st.integers(1, 2))):
        sampled: list[Row] = []
        for g in range(draw(st.integers(1, 3))):
            same = draw(st.sampled_from([None, None, 0.1, 1.0]))
            for _ in range(draw(st.integers(1, 5))):
                reward = float(rng.choice(REWARDS)) if same is None else same
                if rng.random() < 0.1:
                    reward = math.nan
                turns = int(rng.choice([1, 1, 1, 1, 2, 3]))
                for _ in range(turns):
                    row = _tokens(Row(reward, group=g, sample_weight=1 / turns), rng, every_token)
                    sampled.append(replace(row, truncated=bool(rng.random() < 0.2)))
            sampled.append(_tokens(Row(float(rng.choice(REWARDS)), group=g, greedy=True), rng, every_token))
        order = rng.permutation(len(sampled)) if draw(st.booleans()) else np.arange(len(sampled))
        sampled = [sampled[i] for i in order]
        groups = 1 + max(r.group for r in sampled)
        steps = draw(st.integers(1, 3))
        slices = draw(st.integers(1, 3))
        for _ in range(draw(st.integers(1, 2))):
            cut = np.sort(rng.integers(0, steps * slices, len(sampled)))
            if draw(st.booleans()):
                cut = np.arange(len(sampled)) * steps * slices // len(sampled)
            for row, place in zip(sampled, cut, strict=True):
                theta = _drift(row, rng, spread)
                rows.append(
                    replace(
                        row,
                        theta=theta,
                        group=group + row.group,
                        generation=generation,
                        update=update + int(place) // slices,
                        micro=micro + int(place),
                    )
                )
            group, update, micro = group + groups, update + steps, micro + steps * slices
            generation += 1
    return _dense(rows)


def without_greedy(rows: list[Row]) -> list[Row]:
    """Drop the greedy rows (and what they alone fill)."""
    return _dense([r for r in rows if not r.greedy])


def _dense(rows: list[Row]) -> list[Row]:
    """Number groups, updates, … without holes."""
    for name in ("group", "update", "micro", "generation"):
        code = {old: new for new, old in enumerate(sorted({getattr(r, name) for r in rows}))}
        rows = [replace(r, **{name: code[getattr(r, name)]}) for r in rows]
    return rows


def _tokens(row: Row, rng: np.random.Generator, by_token: bool) -> Row:
    length = int(rng.integers(0, 9))
    mask = rng.random(length) < rng.choice([0.0, 0.6, 1.0, 1.0])

    def column(values: np.ndarray) -> tuple[float, ...]:
        bad = rng.random(length) < 0.5
        return tuple(
            float(v) if m or not b else POISON[int(rng.integers(3))]
            for v, m, b in zip(values, mask, bad, strict=True)
        )

    old = -rng.exponential(1.5, length)
    return replace(
        row,
        mask=tuple(bool(m) for m in mask),
        theta=column(old),
        old=column(old),
        ref=column(old + rng.normal(0, 0.6, length)),
        sampler=column(old + rng.normal(0, 0.1, length)),
        advantage=float(rng.normal()),
        token_advantage=column(rng.normal(0, 1, length)) if by_token else (),
    )


def _drift(row: Row, rng: np.random.Generator, spread: float) -> tuple[float, ...]:
    return tuple(
        float(o + rng.normal(0, spread)) if m else POISON[int(rng.integers(3))]
        for o, m in zip(row.old, row.mask, strict=True)
    )

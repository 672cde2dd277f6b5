"""Random ragged batches for the tests of weights."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from hypothesis import strategies as st
from weight_cases import Row

POISON = (math.nan, math.inf, -math.inf)

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
                turns, components = int(rng.choice([1, 1, 1, 1, 2, 3])), _components(rng)
                for _ in range(turns):
                    row = Row(reward, group=g, sample_weight=1 / turns, components=components)
                    row = _tokens(row, rng, every_token)
                    sampled.append(replace(row, truncated=bool(rng.random() < 0.2)))
            best = Row(float(rng.choice(REWARDS)), group=g, greedy=True, components=_components(rng))
            sampled.append(_tokens(best, rng, every_token))
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


def _components(rng: np.random.Generator) -> dict[str, float]:
    """Parts of the reward; a quarter of them do not apply."""
    draws = {name: float(rng.choice(REWARDS)) for name in ("right", "form")}
    return {name: math.nan if rng.random() < 0.25 else value for name, value in draws.items()}


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
        value=column(rng.normal(0, 1, length)),
        entropy=column(rng.exponential(1.0, length)),
    )


def _drift(row: Row, rng: np.random.Generator, spread: float) -> tuple[float, ...]:
    return tuple(
        float(o + rng.normal(0, spread)) if m else POISON[int(rng.integers(3))]
        for o, m in zip(row.old, row.mask, strict=True)
    )

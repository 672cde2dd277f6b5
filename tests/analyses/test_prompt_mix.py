"""The test of prompt mixes on draws of every kind: its level under one mix, its power under two."""

from __future__ import annotations

import random

import msgspec
import numpy as np
import pytest
from scipy.stats import binomtest, chi2_contingency
from synthetic import Rows, rollouts, write

from audit.analyses.explain import explain
from audit.analyses.prompt_mix import Draws, compare_mixes

PROMPTS, BATCH = 24, 6


def epochs(rng: np.random.Generator, steps: int, *, weights: np.ndarray | None = None) -> Draws:
    """Shuffled epochs over a list in which each prompt stands once, or ``weights`` times."""
    listed = np.repeat(np.arange(PROMPTS), 1 if weights is None else weights)
    order = np.concatenate([rng.permutation(listed) for _ in range(steps * BATCH // len(listed) + 1)])
    prompt = order[: steps * BATCH]
    return Draws(prompt, np.arange(len(prompt)) // BATCH, PROMPTS)


def independent(rng: np.random.Generator, steps: int, chances: np.ndarray | None = None) -> Draws:
    prompt = rng.choice(PROMPTS, steps * BATCH, p=chances)
    return Draws(prompt, np.arange(len(prompt)) // BATCH, PROMPTS)


def thinned(draws: Draws, kept: np.ndarray) -> Draws:
    return Draws(draws.prompt[kept], draws.step[kept], draws.prompts)


def at_random(rng: np.random.Generator, steps: int) -> Draws:
    draws = epochs(rng, steps)
    return thinned(draws, rng.random(draws.total) > 0.3)


def without_steps(rng: np.random.Generator, steps: int) -> Draws:
    draws = epochs(rng, steps)
    return thinned(draws, draws.step % 3 != 2)


def in_clumps(rng: np.random.Generator, steps: int) -> Draws:
    """Each batch holds one prompt alone: counts scatter six times as far as those of single draws."""
    return Draws(
        np.repeat(rng.integers(0, PROMPTS, steps), BATCH), np.repeat(np.arange(steps), BATCH), PROMPTS
    )


@pytest.mark.parametrize(
    ("make_a", "make_b"),
    [
        (epochs, epochs),
        (epochs, at_random),
        (epochs, without_steps),
        (independent, independent),
        (epochs, independent),
        (in_clumps, in_clumps),
    ],
)
@pytest.mark.parametrize("steps", [14, 43])
def test_one_mix_is_called_two_no_oftener_than_its_p_value_says(make_a, make_b, steps: int) -> None:
    rng = np.random.default_rng(steps)
    said = sum(compare_mixes(make_a(rng, steps), make_b(rng, steps)).p_value < 0.02 for _ in range(300))
    # Not significantly oftener than 1 in 50.
    assert binomtest(said, 300, 0.02, alternative="greater").pvalue > 1e-3


def test_independent_draws_are_tested_by_shuffling_which_run_they_belong_to() -> None:
    rng = np.random.default_rng(0)
    a, b = independent(rng, 6), independent(rng, 7)
    mix = compare_mixes(a, b)
    seen = (a.counts + b.counts) > 0
    pool = np.concatenate([a.prompt, b.prompt])

    def pearson(order: np.ndarray) -> float:
        table = [np.bincount(part, minlength=PROMPTS)[seen] for part in np.split(order, [a.total])]
        return float(chi2_contingency(table, correction=False).statistic)

    found = pearson(pool)
    made = np.array([pearson(rng.permutation(pool)) for _ in range(500)])
    assert mix.scatter == (1.0, 1.0)
    assert mix.p_value == pytest.approx((made >= found - 1e-9).mean(), abs=0.07)
    assert mix.p_larger <= mix.p_value


def test_of_shuffled_epochs_the_last_one_alone_is_left_to_chance() -> None:
    rng = np.random.default_rng(1)
    a, b = epochs(rng, 9), epochs(rng, 9)
    mix = compare_mixes(a, b)
    of_a, of_b = (set(np.flatnonzero(each.counts == each.counts.max()).tolist()) for each in (a, b))
    rest = 9 * BATCH % PROMPTS
    # The statistic grows with the prompts that one last epoch holds and the other does not.
    shared = [len(set(rng.permutation(PROMPTS)[:rest]) & set(range(rest))) for _ in range(4000)]
    assert mix.p_value == pytest.approx(np.mean(np.array(shared) <= len(of_a & of_b)), abs=0.03)
    assert mix.p_larger == pytest.approx(np.mean(np.array(shared) < len(of_a & of_b)), abs=0.03)


def test_what_epochs_lose_of_some_prompts_is_found_where_chi_square_is_blind() -> None:
    rng = np.random.default_rng(1)
    blind = found = 0
    for _ in range(50):
        a, full = epochs(rng, 20), epochs(rng, 20)
        b = thinned(full, (rng.random(full.total) > 0.6) | (full.prompt < PROMPTS // 2))
        mix = compare_mixes(a, b)
        found += mix.p_value < 0.01
        blind += chi2_contingency([a.counts, b.counts]).pvalue > 0.01
        assert mix.missing[0] == 0.0
        assert mix.missing[1] == pytest.approx(1 - b.total / full.total, abs=0.06)
    assert blind >= 40
    assert found >= 40


def test_a_list_that_holds_some_prompts_twice_is_another_mix() -> None:
    rng = np.random.default_rng(2)
    twice = np.where(np.arange(PROMPTS) < PROMPTS // 2, 2, 1)
    mixes = [compare_mixes(epochs(rng, 48), epochs(rng, 48, weights=twice)) for _ in range(20)]
    assert sum(mix.p_value < 1e-3 for mix in mixes) >= 19
    # By hand: half of the prompts have 2/3 of the draws.
    assert np.mean([mix.distance for mix in mixes]) == pytest.approx(2 / 3 - 1 / 2, abs=0.02)


def test_a_smaller_batch_is_no_missing_group() -> None:
    rng = np.random.default_rng(3)
    a, full = epochs(rng, 40), epochs(rng, 20)
    smaller = Draws(full.prompt, np.arange(full.total) // (BATCH // 2), PROMPTS)
    assert compare_mixes(a, smaller).missing == (0.0, 0.0)


def evenly(seed: int) -> Rows:
    """A run whose groups go through 12 prompts in epochs, 4 a step."""
    rows = rollouts(seed=seed, steps=18, groups=4, size=6, longest=4, epochs=1)
    rng = random.Random(seed)
    order = [f"p{p}" for _ in range(6) for p in rng.sample(range(12), 12)]
    names = dict(zip(dict.fromkeys(row["group_id"] for row in rows), order, strict=True))
    rates = {f"p{p}": (p + 1) / 14 for p in range(12)}
    kept = ("step", "update", "epoch", "group_id", "sample_index")
    return [
        {key: row[key] for key in kept}
        | {"prompt_id": names[row["group_id"]], "reward": float(rng.random() < rates[names[row["group_id"]]])}
        for row in rows
    ]


def causes(tmp_path, kept) -> list[str]:
    rows = [evenly(1), evenly(2)]
    rewards: dict[str, list[float]] = {}
    for row in rows[1]:
        rewards.setdefault(row["group_id"], []).append(row["reward"])
    groups = {row["group_id"]: row["prompt_id"] for row in rows[1]}
    stay = {g for g, p in groups.items() if kept(int(p[1:]), rewards[g])}
    rows[1] = [row for row in rows[1] if row["group_id"] in stay]
    found = explain(write(tmp_path / "a", rows[0]), write(tmp_path / "b", rows[1]))
    msgspec.json.encode(found)  # as the command writes it: no number of numpy's
    return [cause.id for cause in found.verdict.causes]


def test_groups_that_are_missing_have_the_reason_that_they_share(tmp_path) -> None:
    rng = random.Random(4)
    assert causes(tmp_path / "all", lambda _p, _r: True) == []
    assert causes(tmp_path / "mix", lambda p, _: p < 6 or rng.random() > 0.8)[0] == "data.prompts"
    assert causes(tmp_path / "any", lambda _p, _r: rng.random() > 0.3)[0] == "logging"
    assert causes(tmp_path / "filter", lambda _, r: len(set(r)) > 1)[0] == "objective.filter"

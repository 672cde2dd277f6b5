"""The charts of the page Groups & prompts carry what the raw rows say."""

from __future__ import annotations

import math
from itertools import pairwise
from statistics import fmean

import pytest
from by_hand import (
    SAMPLES,
    advantages,
    binomial,
    first_pass,
    in_bins,
    logged,
    middle,
    policy_weights,
    split,
)
from shown import Drawn, chart, opened

RUN = "testbed/grpo-seed0"
SIZE = 8
EDGES = (0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0)
"""Bins of success rates, the last with its end."""


class Group:
    """One group of the run, and the visits to its prompt that are nearest in time."""

    def __init__(self, rows: list[dict]) -> None:
        self.rows, self.step, self.prompt = rows, rows[0]["step"], rows[0]["prompt_id"]
        self.right = sum(row["reward"] for row in rows)
        self.near: list[Group] = []

    @property
    def alike(self) -> bool:
        return len({row["reward"] for row in self.rows}) == 1

    @property
    def rate(self) -> float:
        return sum(group.right for group in self.near) / (SIZE * len(self.near))

    @property
    def bin(self) -> int:
        return max(at for at, low in enumerate(EDGES[:-1]) if self.rate >= low)


@pytest.fixture(scope="module")
def rows() -> list[dict]:
    return logged(RUN)


@pytest.fixture(scope="module")
def groups(rows) -> list[Group]:
    found = [Group(held) for held in split(first_pass(rows), lambda row: row["group_id"]).values()]
    for visits in split(found, lambda group: group.prompt).values():
        visits.sort(key=lambda group: group.step)
        for at, group in enumerate(visits):
            # The next and the one before; at the ends of the run two of one side.
            around = [at + 1, at - 1, at + 2, at - 2]
            group.near = [visits[place] for place in around if 0 <= place < len(visits)][:2]
    return found


def shares(drawn: Drawn, series: str) -> tuple[list, list]:
    frame = drawn.frame.filter(drawn.frame["series"] == series)
    return frame["step"].to_list(), frame["value"].to_list()


def alike_share(right: float, samples: int, size: int) -> float:
    """Share of the subsets of ``size`` samples that are all right or all wrong."""
    k = round(right)
    return (math.comb(k, size) + math.comb(samples - k, size)) / math.comb(samples, size)


def binned(groups: list[Group]) -> list[list[Group]]:
    of = {id(row): group for group in groups for row in group.rows[:1]}
    return [[of[id(row)] for row in rows] for rows in in_bins([group.rows[0] for group in groups], 10)]


def test_groups_without_signal_are_counted_and_expected(groups, monkeypatch) -> None:
    drawn = chart(opened(monkeypatch, SAMPLES, "groups", RUN), "Groups without signal over steps")
    bins = binned(groups)
    middles = [middle([group.rows[0] for group in inside]) for inside in bins]
    assert shares(drawn, "observed") == (middles, pytest.approx([fmean(g.alike for g in b) for b in bins]))
    expected = [
        fmean(alike_share(sum(near.right for near in g.near), 2 * SIZE, SIZE) for g in b) for b in bins
    ]
    assert shares(drawn, "expected") == (middles, pytest.approx(expected))
    assert set(drawn.frame["n"]) == {len(inside) for inside in bins}


def test_other_group_sizes_take_subsets_of_what_was_sampled(groups, monkeypatch) -> None:
    drawn = chart(opened(monkeypatch, SAMPLES, "groups", RUN), "At other group sizes").frame
    found = dict(drawn.select("size", "value").rows())
    assert set(found) == {2, 4, 8, 16, 32, 64}
    for size, share in found.items():
        visits, made = max(size // SIZE, 1), []
        for each in split(groups, lambda group: group.prompt).values():
            for first in range(0, len(each), visits):
                pool = each[first : first + visits]
                if len(pool) == visits:
                    made += [alike_share(sum(g.right for g in pool), SIZE * visits, size)] * visits
        assert share == pytest.approx(fmean(made))
        assert drawn.filter(drawn["size"] == size)["n"].item() == len(made)
    assert drawn.filter(drawn["own"])["size"].to_list() == [SIZE]


def exact(objective: str, p: float) -> float:
    """E[Σ A (r - p)] over that of leave-one-out, G p (1 - p), by listing the groups."""
    top = 0.0
    for k, probability in enumerate(binomial(p, SIZE)):
        f = k / SIZE
        spread = math.sqrt(f * (1 - f))
        scale = {"grpo": 1 / spread if spread else 0.0, "dr_grpo": 1.0, "rloo": SIZE / (SIZE - 1)}[objective]
        top += probability * scale * (k * (1 - f) * (1 - p) + (SIZE - k) * -f * -p)
    return top / (SIZE * p * (1 - p))


def test_exact_weights_of_a_prompt_by_success_rate(monkeypatch) -> None:
    at = opened(monkeypatch, SAMPLES, "groups", RUN, view="Weights")
    lines = chart(at, "Weight of a prompt by success rate").layer("line").frame
    for objective in ("grpo", "dr_grpo", "rloo"):
        line = dict(lines.filter(lines["objective"] == objective).select("rate", "value").rows())
        assert len(line) == 51
        assert [v for p, v in line.items() if 0 < p < 1] == pytest.approx(
            [exact(objective, p) for p in line if 0 < p < 1], rel=1e-9
        )
        # At 0 and 1 the limit, which a rate close to it comes near.
        assert (line[0.0], line[1.0]) == pytest.approx((exact(objective, 1e-6),) * 2, rel=1e-4)
    assert max(v for v in lines.filter(lines["objective"] == "grpo")["value"]) == pytest.approx(
        2.65, abs=0.01
    )


def test_observed_weights_of_prompts_are_ratios_of_sums(groups, monkeypatch) -> None:
    at = opened(monkeypatch, SAMPLES, "groups", RUN, view="Weights")
    points = chart(at, "Weight of a prompt by success rate").layer("point").frame
    for objective, scaled in (("grpo", True), ("dr_grpo", False)):
        found = points.filter(points["objective"] == objective).to_dicts()
        held = split(groups, lambda group: group.bin)
        assert [point["n"] for point in found] == [len(held[at]) for at in sorted(held)]
        for point, place in zip(found, sorted(held), strict=True):
            own = unbiased = rate = 0.0
            for group in held[place]:
                advantage = advantages(group.rows, scaled)
                # Advantages of a group sum to 0: what rewards are centred by has no part in it.
                own += sum(advantage[id(row)] * row["reward"] for row in group.rows)
                k = group.right
                unbiased += k * (SIZE - k) / (SIZE - 1)
                rate += k * (SIZE - k) * (k - 1) / (SIZE - 2)
            assert point["bin"] == f"{EDGES[place]:.0%} to {EDGES[place + 1]:.0%}"
            assert point["value"] == pytest.approx(own / unbiased, rel=1e-5)
            assert point["rate"] == pytest.approx(rate / sum(g.right * (SIZE - g.right) for g in held[place]))


@pytest.mark.parametrize(
    ("objective", "scaled", "per_token"), [("grpo", True, True), ("dr_grpo", False, False)]
)
def test_lorenz_curves_sum_the_gradient_of_prompts(rows, monkeypatch, objective, scaled, per_token) -> None:
    at = opened(monkeypatch, SAMPLES, "groups", RUN, view="Weights")
    frame = chart(at, "How unequal the gradient is between prompts").frame
    responses = {update: len(held) for update, held in split(rows, lambda row: row["update"]).items()}
    advantage = advantages(rows, scaled)
    amount: dict[str, float] = {}
    for row in rows:
        weights = policy_weights(row, advantage[id(row)], responses[row["update"]], per_token)
        amount[row["prompt_id"]] = amount.get(row["prompt_id"], 0.0) + abs(sum(weights))
    held = sorted(amount.values())
    corners = [(at / len(held), sum(held[:at]) / sum(held)) for at in range(len(held) + 1)]
    for x, y in frame.filter(frame["objective"] == objective).select("x", "y").rows():
        (x0, y0), (x1, y1) = next(pair for pair in pairwise(corners) if x <= pair[1][0] + 1e-12)
        assert y == pytest.approx(y0 + (y1 - y0) * (x - x0) / (x1 - x0), rel=1e-4, abs=1e-6)
    samples = frame.filter(frame["objective"] == "samples")
    assert samples["y"].to_list() == pytest.approx(samples["x"].to_list())

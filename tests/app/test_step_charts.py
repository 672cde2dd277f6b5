"""The charts of What if, and the token weights of Tokens, are those that the raw rows of a step give."""

from __future__ import annotations

import math
import re
from statistics import fmean

import pytest
from by_hand import (
    BETA,
    SAMPLES,
    advantages,
    binomial,
    kl_weights,
    logged,
    policy_weights,
    ratios,
    removed,
)
from shown import chart, opened

RUN, STEP = "testbed/grpo-seed0", 30
CHANGED = "scale.kind=none kl.loss=null aggregation.kind=seq-mean-token-sum"
"""From the run's own GRPO: no scale, no division by length, no KL."""
OWN, OTHER = "the run's own", "what if"


@pytest.fixture(scope="module")
def rows() -> list[dict]:
    return [row for row in logged(RUN) if row["step"] == STEP]


@pytest.fixture(scope="module")
def amounts(rows) -> dict[str, dict[int, float]]:
    """|sum of the policy weights| of each response, by objective and id of the row."""
    found = {}
    for name, scaled, per_token in ((OWN, True, True), (OTHER, False, False)):
        a = advantages(rows, scaled)
        found[name] = {
            id(row): abs(sum(policy_weights(row, a[id(row)], len(rows), per_token))) for row in rows
        }
    return found


def share(amount: dict[int, float], inside: list[dict]) -> float:
    return sum(amount[id(row)] for row in inside) / sum(amount.values())


def right(rows, row) -> float:
    return fmean(other["correct"] for other in rows if other["group_id"] == row["group_id"])


def parts(rows, kind: str, name: str) -> list[dict]:
    """Rows of a part by its name."""
    if kind == "length":
        low, _, high = name.partition("–")
        return [row for row in rows if int(low) <= len(row["token_ids"]) <= int(high or low)]
    if kind == "sign":
        a = advantages(rows, scaled=True)
        return [row for row in rows if (a[id(row)] > 0) == (">" in name) and a[id(row)] != 0]
    held = {
        "none right": lambda rate: rate == 0,
        "up to 1/3 right": lambda rate: 0 < rate <= 1 / 3,
        "up to 2/3 right": lambda rate: 1 / 3 < rate <= 2 / 3,
        "over 2/3 right": lambda rate: 2 / 3 < rate < 1,
        "all right": lambda rate: rate == 1,
    }[name]
    return [row for row in rows if held(right(rows, row))]


TITLES = {
    "length": "response length",
    "sign": "sign of the advantage",
    "difficulty": "success rate of the group",
}


@pytest.mark.parametrize("measure", ["share of the gradient", "weight of a token"])
def test_what_if_shows_both_objectives_by_part(rows, amounts, monkeypatch, measure) -> None:
    at = opened(monkeypatch, SAMPLES, "what_if", RUN, step=str(STEP), set=CHANGED, measure=measure)
    for kind, title in TITLES.items():
        frame = chart(at, f"{measure[:1].upper()}{measure[1:]} by {title}").frame
        held = 0
        for name in frame["part"].unique():
            inside = parts(rows, kind, name)
            held += len(inside)
            for objective, amount in amounts.items():
                (line,) = frame.filter((frame["part"] == name) & (frame["objective"] == objective)).to_dicts()
                value = share(amount, inside)
                if measure == "weight of a token":
                    size = sum(len(row["token_ids"]) for row in inside)
                    value *= sum(len(row["token_ids"]) for row in rows) / size
                assert line["value"] == pytest.approx(value, rel=1e-5, abs=1e-12), (kind, name, objective)
                assert measure == "weight of a token" or line["n"] == len(inside)
        # Responses without an advantage have no sign; the other parts hold every response.
        assert held == len(rows) if kind != "sign" else held < len(rows)


def test_what_if_shows_the_weight_of_the_kl(monkeypatch) -> None:
    at = opened(monkeypatch, SAMPLES, "what_if", RUN, step=str(STEP), set="scale.kind=none")
    frame = chart(at, "Effective beta by success rate").frame
    for p, value, objective in frame.select("rate", "value", "objective").rows():
        # Of the mean baseline without a scale G - 1 of G is left.
        factor = 7 / 8
        if objective == OWN:
            spread = sum(q * math.sqrt(k / 8 * (1 - k / 8)) for k, q in enumerate(binomial(p, 8)))
            factor = spread / (p * (1 - p))
        assert value == pytest.approx(BETA / factor)
    assert len(frame) == 2 * 19


def test_tokens_shows_the_weight_of_each_token(monkeypatch) -> None:
    run = "team/grpo-seed1"
    rows = [row for row in logged(run) if row["step"] == 2]

    def weigh(row: dict) -> list[float]:
        own = policy_weights(row, row["advantage"], len(rows), per_token=True)
        return [w + k for w, k in zip(own, kl_weights(row, len(rows), per_token=True), strict=True)]

    row = next(row for row in rows if any(removed(r, row["advantage"]) for r in ratios(row)))
    place = {"group": row["group_id"], "sample": str(row["sample_index"]), "step": "2", "token": "0"}
    at = opened(monkeypatch, SAMPLES, "tokens", run, **place)
    every = [w for each in rows for w in weigh(each)]
    typical, expected = math.sqrt(fmean(w * w for w in every)), weigh(row)
    shown = "".join(element.proto.body for element in at.get("html"))
    said = re.findall(r'title="(\d+): [^"]*? (-?[\d.e+-]+); ([^"]*)"', shown)
    assert [int(token) for token, _, _ in said] == list(range(len(expected)))
    for (_, number, branch), weight, ratio in zip(said, expected, ratios(row), strict=True):
        decimals = len(number.partition(".")[2])
        assert float(number) == pytest.approx(weight / typical, abs=0.51 * 10**-decimals)
        assert branch.startswith("removed") == removed(ratio, row["advantage"])
    (formula,) = [each.value for each in at.code if each.value.startswith("w = ")]
    assert float(formula.rpartition("= ")[2].replace("−", "-")) == pytest.approx(expected[0], rel=1e-2)
    group = [each for each in rows if each["group_id"] == row["group_id"]]
    advantages_shown = at.dataframe[0].value["A · the run's own"].tolist()
    by_place = sorted(group, key=lambda each: each["sample_index"])
    assert advantages_shown == pytest.approx([each["advantage"] for each in by_place], rel=1e-5)

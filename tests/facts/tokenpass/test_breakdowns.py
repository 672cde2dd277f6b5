"""Counts of tokens by place, probability, ratio and grid, against a loop over tokens."""

from __future__ import annotations

import math
import random
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from synthetic import rollouts, write

from audit.facts.engines.local import compute
from audit.facts.tokenpass.breakdowns import Beyond, Breakdown, OnGrid, Placeholder, Within, name_of, parse
from audit.facts.tokenpass.factors import PolicyFactor
from audit.logs import Run
from audit.objectives.parts import Ratio
from audit.objectives.surrogates import GMPO, PPOClip

OLD = Ratio(denominator="old")
CLIP = PPOClip(epsilon_low=0.2, epsilon_high=0.28, dual=1.5)
UP, DOWN = (PolicyFactor(OLD, CLIP.for_sign(sign), sign) for sign in (1, -1))
SEQUENCE = PolicyFactor(Ratio(denominator="old", level="sequence"), PPOClip(epsilon_high=0.01), 1)


def log_rows(*, masked: bool) -> list[dict[str, Any]]:
    rng = random.Random(5)
    rows = rollouts(steps=3, longest=23)
    for k, row in enumerate(rows):
        row["logp_theta"] = [x + rng.gauss(0.0, 0.3) for x in row["logp_old"]]
        row["logp_sampler"] = [rng.choice([0.0, -0.5, -1.5, x]) for x in row["logp_old"]]
        if masked:
            row["loss_mask"] = [(k + t) % 3 > 0 for t in range(row["length"])]
        else:
            del row["loss_mask"]
    return rows


def f32(x: float) -> float:
    return struct.unpack("f", struct.pack("f", x))[0]


def clipped(row: dict[str, Any], t: int, factor: PolicyFactor) -> bool:
    held = [i for i in range(row["length"]) if row.get("loss_mask", [True] * 99)[i]]
    logs = [f32(row["logp_theta"][i]) - f32(row["logp_old"][i]) for i in range(row["length"])]
    if factor is SEQUENCE:
        return math.exp(math.fsum(logs[i] for i in held) / max(len(held), 1)) > 1.01
    rho = math.exp(logs[t])
    return rho > 1.28 if factor is UP else rho < 0.8 or rho > 1.5


def loop(row: dict[str, Any], fact: Breakdown) -> float:
    total = 0.0
    for t in range(row["length"]):
        if not row.get("loss_mask", [True] * 99)[t]:
            continue
        theta, old, sampler = (f32(row[f"logp_{p}"][t]) for p in ("theta", "old", "sampler"))
        by_name = {"theta": theta, "old": old, "sampler": sampler}
        if isinstance(fact, Beyond):
            rho = math.exp(by_name[fact.upper] - by_name[fact.lower])
            total += rho > fact.bound if fact.side == "above" else rho < fact.bound
        elif isinstance(fact, Placeholder):
            total += by_name[fact.policy] == 0 and by_name[fact.other] < -1
        elif isinstance(fact, OnGrid):
            bits = struct.unpack("I", struct.pack("f", by_name[fact.policy]))[0]
            half = struct.unpack("e", struct.pack("e", by_name[fact.policy]))[0] == by_name[fact.policy]
            short = {"any": True, "bfloat16": bits % 65536 == 0, "float16": half}[fact.format]
            total += by_name[fact.policy] != 0 and short
        else:
            x = {"position": t, "tenth": 10 * t / row["length"], "logp": old}[fact.by]
            inside = (fact.low is None or x >= fact.low) and (fact.high is None or x < fact.high)
            amount = {"loss": 1.0, "mismatch": abs(old - sampler)}.get(fact.of)
            if amount is None:
                amount = float(clipped(row, t, fact.factor))
            total += inside * amount
    return total


FACTS: list[Breakdown] = [
    *(Within("loss", "position", low, high) for low, high in ((0, 1), (1, 4), (4, 16), (16, None))),
    *(Within("loss", "tenth", low, low + 1) for low in range(10)),
    *(Within("loss", "logp", low, high) for low, high in ((None, -2.0), (-2.0, -1.0), (-1.0, None))),
    *(Within("mismatch", "position", low, high) for low, high in ((0, 2), (2, 8), (8, None))),
    *(
        Within("zeroed", by, low, high, factor)
        for factor in (UP, DOWN, SEQUENCE)
        for by, low, high in (
            ("position", 0, 4),
            ("position", 4, None),
            ("tenth", 3, 4),
            ("tenth", 9, 10),
            ("logp", None, -1.0),
            ("logp", -1.0, None),
        )
    ),
    Beyond("above", "theta", "old", 1.28),
    Beyond("below", "theta", "old", 0.8),
    Beyond("above", "old", "sampler", 2.0),
    *(OnGrid("sampler", form) for form in ("any", "bfloat16", "float16")),
    Placeholder("sampler", "old"),
]


def made(run: Run, facts: list[Breakdown], device: str = "cpu") -> dict[str, np.ndarray]:
    names = [name_of(fact) for fact in facts]
    tables = [table for _, table in compute(run.parts, names, device=device)]
    return {name: np.concatenate([table[name].to_numpy() for table in tables]) for name in names}


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("device", ["cpu", "torch-cpu"])
def test_counts_are_those_of_a_loop_over_tokens(tmp_path: Path, masked: bool, device: str) -> None:
    rows = log_rows(masked=masked)
    found = made(write(tmp_path / "run", rows), FACTS, device)
    for fact in FACTS:
        expected = [loop(row, fact) for row in rows]
        np.testing.assert_allclose(found[name_of(fact)], expected, rtol=1e-12, err_msg=name_of(fact))
        assert any(expected), fact


def test_parts_sum_to_the_whole_also_where_a_surrogate_is_no_ratio_clip(tmp_path: Path) -> None:
    from audit.facts.tokenpass.factor_facts import zeroed

    run = write(tmp_path / "run", log_rows(masked=True))
    gmpo = GMPO(epsilon_low=0.1, epsilon_high=0.1)
    factor = PolicyFactor(OLD, gmpo.for_sign(1), 1)
    parts = [Within("zeroed", "tenth", low, low + 1, factor) for low in range(10)]
    found = made(run, parts)
    [(_, table)] = compute(run.parts, [zeroed(factor).name])
    whole = table[0].to_numpy()
    assert whole.sum() > 0
    np.testing.assert_array_equal(sum(found.values()), whole)


def test_a_name_is_read_back_and_other_names_are_no_breakdowns() -> None:
    for fact in FACTS:
        assert parse(name_of(fact)) == fact
    assert parse("tokens") is None
    assert parse('["zeroed",[]]') is None


def test_a_column_that_was_not_logged_makes_the_fact_nan(tmp_path: Path) -> None:
    rows = [{k: v for k, v in row.items() if k != "logp_sampler"} for row in log_rows(masked=False)]
    found = made(write(tmp_path / "run", rows), [Placeholder("sampler", "old")])
    assert all(np.isnan(values).all() for values in found.values())

"""Clipped tokens against a fixture whose every clipped token is known, and against a loop over tokens."""

from __future__ import annotations

import math
import random
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from synthetic import centred, rollouts, standardised, with_advantages, write

from audit.analyses.clipping import Clipping, clipping
from audit.analyses.clipping_text import token_texts
from audit.facts.chosen import chosen_objective
from audit.facts.declared import read_objective
from audit.facts.rows import RunRows
from audit.importers import open_run
from audit.logs import Run
from audit.objectives.objective import Objective

SAMPLES = Path(__file__).parents[2] / "sample_logs"


def measured(run: Run, objective: Objective | None = None) -> Clipping:
    rows = RunRows.read(run)
    return clipping(rows, *chosen_objective(rows, objective))


def known_rows() -> list[dict[str, Any]]:
    """Two prompts of two responses of ten tokens; ratios of 1 but where a token is named."""
    rows = []
    moved = {
        ("p0", 0): {0: 1.5, 3: 1.25, 4: 0.5},  # A > 0: two above the band are removed, one below is kept
        ("p0", 1): {1: 0.7, 9: 0.1, 5: 1.9},  # A < 0: two below are removed, one above is kept
        ("p1", 0): {2: 1.3},  # A > 0, and the token is masked
        ("p1", 1): {8: 5.0, 9: 1.5},  # A < 0: a dual clip at 3 removes the first
    }
    for slot, prompt in enumerate(("p0", "p1")):
        for i in range(2):
            ratio = moved[prompt, i]
            rows.append(
                {
                    "step": 1,
                    "update": 1,
                    "epoch": 0,
                    "prompt_id": prompt,
                    "group_id": f"g{slot}",
                    "sample_index": i,
                    "reward": 1.0 - i,
                    "advantage": 1.0 - 2 * i,
                    "token_ids": [7 if t in ratio else 3 for t in range(10)],
                    "response": "".join("x" if t in ratio else "y" for t in range(10)),
                    "loss_mask": [(prompt, i, t) != ("p1", 0, 2) for t in range(10)],
                    "logp_old": [math.log(0.4)] * 10,
                    "logp_theta": [math.log(0.4 * ratio.get(t, 1.0)) for t in range(10)],
                }
            )
    return rows


def test_every_clipped_token_of_the_fixture_is_counted_where_it_stands(tmp_path: Path) -> None:
    run = write(tmp_path / "run", known_rows(), "ppo")
    result = measured(run)
    assert (result.tokens, result.zeroed, result.responses) == (39, 4, 4)
    assert result.share is not None
    assert result.share.value == pytest.approx(4 / 39)
    assert result.outside_kept is not None
    assert result.outside_kept.value == pytest.approx(4 / 39)
    counts = {name: {b.name: (b.part, b.tokens) for b in buckets} for name, buckets in result.by.items()}
    assert counts["side"] == {"above the band, A > 0": (2, 39), "below the band, A < 0": (2, 39)}
    assert counts["sign"] == {"A > 0": (2, 19), "A < 0": (2, 20), "A = 0": (0, 0)}
    assert counts["position"] == {
        "0": (1, 4),
        "1": (1, 4),
        "2–3": (1, 7),
        "4–7": (0, 16),
        "from 8": (1, 8),
    }
    assert [part for part, _ in counts["tenth"].values()] == [1, 1, 0, 1, 0, 0, 0, 0, 0, 1]
    assert counts["logp"] == {"0.1 ≤ p < 0.5": (4, 39)}
    assert [(t.id, t.zeroed, t.tokens) for t in result.ids] == [(7, 4, 8)]
    assert result.ids[0].share.value == pytest.approx(0.5)
    assert result.ids[0].lift.value == pytest.approx(0.5 / (4 / 39))


def test_other_trust_regions_on_the_fixture(tmp_path: Path) -> None:
    run = write(tmp_path / "run", known_rows(), "ppo")
    bounds = {one.objective: one for one in measured(run).bounds}
    removed = {"ppo": 4, "dapo": 3, "ppo_dual_clip": 5, "cispo": 0, "grpo_two_sided": 5}
    assert {name: bounds[name].zeroed for name in removed} == removed
    # Sum over tokens of rho: 10 at a ratio of 1, plus what the named tokens add; PPO's rows have 1/L each.
    weight = [10 + 0.5 + 0.25 - 0.5, 10 - 0.3 - 0.9 + 0.9, 9.0, 10 + 4.0 + 0.5]
    lost = [1.5 + 1.25, 0.7 + 0.1, 0.0, 0.0]
    lengths = [10, 10, 9, 10]
    expected = sum(x / n for x, n in zip(lost, lengths, strict=True))
    expected /= sum(x / n for x, n in zip(weight, lengths, strict=True))
    from audit.objectives.catalogue import CATALOGUE

    by_row = CATALOGUE["grpo"].objective.replace(kl=type(CATALOGUE["grpo"].objective.kl)())
    found = {one.objective: one for one in measured(run, by_row).bounds}["ppo"].lost
    assert found is not None
    # GRPO recomputes advantages of +1 and -1 from the rewards: the same as logged.
    assert found.value == pytest.approx(expected, rel=1e-6)
    cispo = {one.objective: one for one in measured(run, by_row).bounds}["cispo"].lost
    assert cispo is not None
    assert cispo.value == pytest.approx(0.0, abs=1e-6)
    assert bounds["gspo"].unit == "response"


def f32(x: float) -> float:
    return struct.unpack("f", struct.pack("f", x))[0]


def loop(rows: list[dict[str, Any]], low: float, high: float) -> tuple[int, int, dict[tuple[str, int], int]]:
    """Removed tokens, loss tokens, and removed tokens by (sign, epoch), one token at a time."""
    zeroed = tokens = 0
    by: dict[tuple[str, int], int] = {}
    for row in rows:
        for t in range(row["length"]):
            if not row["loss_mask"][t]:
                continue
            tokens += 1
            rho = math.exp(f32(row["logp_theta"][t]) - f32(row["logp_old"][t]))
            if (row["advantage"] > 0 and rho > high) or (row["advantage"] < 0 and rho < low):
                zeroed += 1
                key = ("+" if row["advantage"] > 0 else "-", row["epoch"])
                by[key] = by.get(key, 0) + 1
    return zeroed, tokens, by


@pytest.fixture(scope="module")
def long_rows() -> list[dict[str, Any]]:
    rng = random.Random(2)
    rows = with_advantages(rollouts(epochs=3), centred)
    for k, row in enumerate(rows):
        row["loss_mask"] = [(k + t) % 5 > 0 for t in range(row["length"])]
        row["logp_sampler"] = [x - abs(rng.gauss(0, 0.1)) for x in row["logp_old"]]
        row["entropy"] = [1.0] * row["length"]
    return rows


def test_counts_of_a_run_are_those_of_a_loop(tmp_path: Path, long_rows: list[dict[str, Any]]) -> None:
    result = measured(write(tmp_path / "run", long_rows, "dapo"))
    zeroed, tokens, by = loop(long_rows, 0.8, 1.28)
    # DAPO drops groups without signal: their rows have A = 0, and their tokens take no loss.
    assert result.zeroed == zeroed > 50
    assert result.tokens < tokens
    own = measured(write(tmp_path / "ppo", long_rows, "dr_grpo"))
    zeroed, tokens, by = loop(long_rows, 0.8, 1.2)
    assert (own.zeroed, own.tokens) == (zeroed, tokens)
    sign = {b.name: b.part for b in own.by["sign"]}
    assert sign["A > 0"] == sum(n for (s, _), n in by.items() if s == "+")
    assert {b.name: b.part for b in own.by["epoch"]} == {
        f"inner epoch {e}": sum(n for (_, at), n in by.items() if at == e) for e in range(3)
    }
    for name in ("length", "position", "tenth", "logp", "update"):
        assert sum(b.part for b in own.by[name]) == zeroed
        assert sum(b.tokens for b in own.by[name]) == tokens
    assert own.steps is not None
    assert sum(point.part for point in own.steps.points) == zeroed
    assert sum(t.zeroed for t in own.ids) == zeroed
    assert own.first_update is not None
    assert own.first_update.exact
    assert not own.first_update.always_one


@pytest.mark.parametrize("by_token", [False, True])
@pytest.mark.parametrize(("name", "low", "high"), [("ppo", 0.8, 1.2), ("gspo", 0.9997, 1.0004)])
def test_tokens_outside_the_band_without_an_advantage_have_no_gradient_to_keep(
    tmp_path: Path, name: str, low: float, high: float, by_token: bool
) -> None:
    equal = [
        row | {"prompt_id": "p2", "group_id": "g2", "reward": 1.0, "advantage": 0.0}
        for row in known_rows()[:2]
    ]
    rows = [*known_rows(), *equal]
    kept = tokens = 0
    for row in rows:
        mask, a = row["loss_mask"], row["advantage"]
        log = [new - old for new, old in zip(row["logp_theta"], row["logp_old"], strict=True)]
        mean = sum(v for v, m in zip(log, mask, strict=True) if m) / sum(mask)
        for value, takes_loss in zip(log, mask, strict=True):
            rho = math.exp(mean if name == "gspo" else value)
            kept += takes_loss and ((a > 0 and rho < low) or (a < 0 and rho > high))
            tokens += takes_loss
    if by_token:
        rows = [row | {"token_advantage": [row["advantage"]] * 10} for row in rows]
    found = measured(write(tmp_path / "run", rows, name)).outside_kept
    assert found is not None
    assert found.value == pytest.approx(kept / tokens, rel=1e-12)
    assert kept


def test_one_advantage_a_token_is_walked_and_agrees(tmp_path: Path, long_rows: list[dict[str, Any]]) -> None:
    by_response = measured(write(tmp_path / "a", long_rows, "dr_grpo"))
    spread = [row | {"token_advantage": [row["advantage"]] * row["length"]} for row in long_rows]
    by_token = measured(write(tmp_path / "b", spread, "dr_grpo"))
    assert any("differ by token" in doubt for doubt in by_token.doubts)
    for name, buckets in by_response.by.items():
        assert [(b.name, b.part, b.tokens) for b in by_token.by[name]] == [
            (b.name, b.part, b.tokens) for b in buckets
        ], name
    assert by_token.outside_kept is not None
    assert by_response.outside_kept is not None
    assert by_token.outside_kept.value == pytest.approx(by_response.outside_kept.value)
    assert [t.zeroed for t in by_token.ids] == [t.zeroed for t in by_response.ids]
    ours = {b.objective: b for b in by_response.bounds}
    for one in by_token.bounds:
        assert one.zeroed == ours[one.objective].zeroed, one.objective
        if one.lost is not None:
            assert one.lost.value == pytest.approx(ours[one.objective].lost.value, rel=1e-9, abs=1e-12)


def test_a_response_ratio_removes_whole_responses(tmp_path: Path, long_rows: list[dict[str, Any]]) -> None:
    result = measured(write(tmp_path / "run", long_rows, "gspo"))
    expected = 0
    for row in long_rows:
        held = [t for t in range(row["length"]) if row["loss_mask"][t]]
        logs = [f32(row["logp_theta"][t]) - f32(row["logp_old"][t]) for t in held]
        s = math.exp(math.fsum(logs) / max(len(logs), 1))
        a = row["advantage"]
        expected += len(held) if (a > 0 and s > 1.0004) or (a < 0 and s < 0.9997) else 0
    assert result.zeroed == expected
    assert result.unit == "response"
    assert any("whole response" in doubt for doubt in result.doubts)


@pytest.mark.parametrize("name", ["clip_cov", "kimi", "sapo", "reinforce", "vespo", "gmpo", "dppo_tv"])
def test_every_kind_of_trust_region_gives_an_answer(
    tmp_path: Path, long_rows: list[dict[str, Any]], name: str
) -> None:
    result = measured(write(tmp_path / "run", long_rows, name))
    assert result.share is not None
    assert result.verdict


def test_nothing_can_be_clipped_where_the_ratio_is_one(tmp_path: Path) -> None:
    rows = with_advantages(rollouts(epochs=1), standardised(0, 0.0))
    for row in rows:
        row["logp_theta"] = row["logp_old"]
    result = measured(write(tmp_path / "run", rows, "grpo"))
    assert result.zeroed == 0
    assert result.verdict.startswith("The ratio is exactly 1")


def test_a_ratio_that_is_not_one_at_the_start_is_told(tmp_path: Path) -> None:
    rows = with_advantages(rollouts(epochs=1), standardised(0, 0.0))
    for row in rows:
        row["logp_theta"] = [x - 0.25 for x in row["logp_old"]]
    first = measured(write(tmp_path / "run", rows, "grpo")).first_update
    assert first is not None
    assert not first.exact
    assert first.largest == pytest.approx(0.25, abs=1e-6)
    assert first.typical == pytest.approx(0.25, abs=1e-6)


LOGS = [*sorted((SAMPLES / "team").glob("[cgr]*1")), SAMPLES / "trl_completions/completions"]


@pytest.mark.parametrize("path", LOGS, ids=lambda path: path.name)
def test_sample_logs_give_a_result_or_a_named_skip(path: Path) -> None:
    opened = open_run(path)
    objective = None if opened.manifest.declared else read_objective("grpo")
    result = measured(opened, objective)
    assert result.share is not None or result.skipped


def test_text_of_ids_is_told_only_where_it_writes_every_response(tmp_path: Path) -> None:
    rows = rollouts(steps=3)
    known, how = token_texts(write(tmp_path / "a", rows))
    assert known == dict(enumerate("abcd"))
    assert "every" in how or "all" in how
    for row in rows:
        row["response"] = row["response"].replace("ab", "x")
    known, how = token_texts(write(tmp_path / "b", rows))
    assert set(known) <= {0, 1, 2, 3}
    assert all(known[id_] == "abcd"[id_] for id_ in known)
    marked = [
        row | {"token_ids": [*row["token_ids"], 9], "length": row["length"] + 1} for row in rollouts(steps=3)
    ]
    bare = [{k: v for k, v in row.items() if not k.startswith(("logp", "loss"))} for row in marked]
    known, _ = token_texts(write(tmp_path / "c", bare))
    assert known == {**dict(enumerate("abcd")), 9: ""}
    known, how = token_texts(
        write(tmp_path / "d", [{k: v for k, v in r.items() if k != "response"} for r in rows])
    )
    assert known == {}
    assert "no response" in how


def test_odd_ids_are_left_out_and_counted(tmp_path: Path) -> None:
    rows = known_rows()
    rows[0]["token_ids"] = [-4, *rows[0]["token_ids"][1:]]
    result = measured(write(tmp_path / "run", rows, "ppo"))
    assert any("1 loss tokens left out of the ids" in doubt for doubt in result.doubts)
    assert [(t.id, t.zeroed) for t in result.ids] == [(7, 3)]


def test_share_interval_covers_over_simulated_runs() -> None:
    from audit.analyses.bucket_shares import by_code, parts

    rng = np.random.default_rng(0)
    covered = 0
    for _ in range(60):
        rate = rng.beta(2, 18, size=40)
        prompt = np.repeat(np.arange(40), 6)
        tokens = rng.integers(5, 30, size=240)
        zeroed = rng.binomial(tokens, rate[prompt])
        [one] = by_code(["all"], np.zeros(240, dtype=int), zeroed, tokens, prompt)
        assert one.value.low is not None
        assert one.value.high is not None
        covered += one.value.low <= 0.1 <= one.value.high
    assert 51 <= covered <= 60
    assert parts(["all"], [zeroed], [tokens], prompt) == [one]


def test_a_run_that_declares_no_objective_is_a_named_skip(tmp_path: Path) -> None:
    rows = RunRows.read(write(tmp_path / "run", rollouts(steps=1)))
    found = clipping(rows, None)
    assert found.zeroed == 0
    assert found.share is None
    assert [(skip.check, "--objective" in skip.needs) for skip in found.skipped] == [
        ("clip-zeroed tokens", True)
    ]

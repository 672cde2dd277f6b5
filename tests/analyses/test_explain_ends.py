"""Budgets, ends and prompts that one of two runs logs wrongly: each put into a clean pair by hand."""

from __future__ import annotations

import numpy as np
import pytest
from synthetic import Rows, write
from test_explain_causes import each_row, made

from audit.analyses.explain import Explanation, explain

LISTS = ("token_ids", "loss_mask", "logp_theta", "logp_old", "logp_ref", "logp_sampler")
END = 8


def told(tmp_path, a: Rows, b: Rows) -> Explanation:
    return explain(write(tmp_path / "a", a, "grpo"), write(tmp_path / "b", b, "grpo"))


def ended(rows: Rows) -> Rows:
    """Responses that stopped end with one token."""
    stops = each_row(
        lambda r: {"token_ids": [*r["token_ids"][:-1], END]} if r["finish_reason"] == "stop" else {}
    )
    return [{k: v for k, v in row.items() if k != "logp_ref"} for row in stops(rows)]


def cut_at(budget_of):
    def change(row):
        n = min(budget_of(row), row["length"])
        short = {key: row[key][:n] for key in LISTS if key in row}
        return (
            short
            | {"length": n, "response": row["response"][:n]}
            | ({"finish_reason": "length"} if n == budget_of(row) else {"finish_reason": "stop"})
        )

    return each_row(change)


# P43
def test_rows_that_stopped_and_are_called_truncated_are_a_fault_of_the_log(tmp_path) -> None:
    a, b = ended(made(1)), ended(made(2))
    wrong = each_row(lambda _: {"finish_reason": "length"})(b)
    found = told(tmp_path, a, wrong)
    cause = found.verdict.causes[0]
    assert cause.id == "logging"
    assert cause.evidence["b"] == pytest.approx(np.mean([r["token_ids"][-1] == END for r in wrong]))
    assert "data.truncation" not in {c.id for c in found.verdict.causes}


# P43
def test_padding_that_counts_as_response_is_named(tmp_path) -> None:
    def padded(row):
        more = 12 - row["length"]
        filled = {key: row[key] + [-0.01] * more for key in LISTS if key.startswith("logp_") and key in row}
        return filled | {
            "token_ids": row["token_ids"] + [9] * more,
            "loss_mask": [True] * 12,
            "length": 12,
        }

    a, b = ended(made(1)), ended(made(2))
    cause = told(tmp_path, a, each_row(padded)(b)).verdict.causes[0]
    assert cause.id == "tokens.mask"
    assert cause.evidence["b"] == 1.0
    stopped = [r for r in a if r["finish_reason"] == "stop" and r["epoch"] == 0]
    assert cause.evidence["a"] == pytest.approx(np.mean([r["length"] == 12 for r in stopped]))


def test_a_budget_of_prompt_and_response_together_is_compared_as_such(tmp_path) -> None:
    lengths = {f"p{p}": 2 + p % 4 for p in range(12)}
    known = each_row(lambda r: {"prompt_length": lengths[r["prompt_id"]]})
    whole = [known(made(seed)) for seed in (1, 2)]

    def limited(total: int):
        return cut_at(lambda row: total - row["prompt_length"])

    alike = told(tmp_path / "alike", limited(10)(whole[0]), limited(10)(whole[1]))
    assert "data.truncation" not in {c.id for c in alike.verdict.causes}
    other = told(tmp_path / "other", limited(10)(whole[0]), limited(8)(whole[1]))
    cause = next(c for c in other.verdict.causes if c.id == "data.truncation")
    assert cause.evidence["budget"] == [10.0, 8.0]
    assert "prompt included" in cause.summary


# P36
def test_a_gap_on_the_same_few_prompts_is_named_with_them(tmp_path) -> None:
    rng = np.random.default_rng(3)

    def off(row):
        if row["prompt_id"] not in ("p1", "p2"):
            return {}
        return {"logp_sampler": [-abs(x + rng.normal(0, 0.6)) - 1e-4 for x in row["logp_sampler"]]}

    a, b = made(1), each_row(off)(made(2))
    (cause,) = told(tmp_path, a, b).verdict.causes
    assert cause.id == "numerics.mismatch"
    assert sorted(cause.evidence["prompts"]) == ["p1", "p2"]
    first = [r for r in b if r["epoch"] == 0]
    gaps = [sum(abs(o - s) for o, s in zip(r["logp_old"], r["logp_sampler"], strict=True)) for r in first]
    of_two = [gap for r, gap in zip(first, gaps, strict=True) if r["prompt_id"] in ("p1", "p2")]
    assert cause.evidence["share_of_gap"] == pytest.approx(sum(of_two) / sum(gaps), rel=1e-3)
    assert cause.evidence["share_of_responses"] == pytest.approx(len(of_two) / len(first))


def test_a_cut_text_without_the_end_token_is_not_retokenised(tmp_path) -> None:
    a = ended(made(1))
    # The same texts, many of which were cut just before their end token.
    b = []
    for at, row in enumerate(ended(made(1))):
        if row["finish_reason"] != "stop" or row["length"] < 2 or (at // 2) % 2:
            b.append(row)
        else:
            short = {key: row[key][:-1] for key in LISTS if key in row}
            b.append(row | short | {"length": row["length"] - 1, "finish_reason": "length"})
    named = {cause.id for cause in told(tmp_path, a, b).verdict.causes}
    assert "tokens.retokenised" not in named

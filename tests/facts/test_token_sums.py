"""Sums made chunk by chunk on several threads are those of all tokens at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from synthetic import rollouts, write

from audit.facts import token_walk
from audit.facts.rows import RunRows
from audit.facts.token_sums import token_sums
from audit.facts.tokens import token_batches, token_rows
from audit.objectives.catalogue import named
from audit.objectives.objective import Filter, Objective
from audit.objectives.surrogates import KLCov
from audit.objectives.weights import effective_weights

OBJECTIVES: dict[str, Objective] = {
    **{
        name: named(name)
        for name in ("reinforce_pp", "ppo_gae", "kimi", "sapo", "clip_cov", "kl_cov", "grpo")
    },
    "KL-Cov of many tokens": named("kl_cov").replace(clip=KLCov(fraction=0.3)),
    "highest entropy": named("grpo").replace(filter=Filter(top_entropy=0.4)),
}


@pytest.fixture
def rows(tmp_path) -> RunRows:
    """Micro-batches whose rows are mixed with those of others, masked tokens, critic values, entropies."""
    data: list[dict[str, Any]] = rollouts(steps=3)
    for at, row in enumerate(data):
        row["micro_batch"] = at % 3
        row["value"] = [0.1 * k - 0.2 for k in range(row["length"])]
        row["entropy"] = [float((7 * at + 3 * k) % 5) for k in range(row["length"])]
        row["loss_mask"] = [(at + k) % 7 != 0 for k in range(row["length"])]
    return RunRows.read(write(tmp_path / "run", data, "grpo"))


@pytest.mark.parametrize("name", OBJECTIVES)
def test_chunks_change_no_sum(rows: RunRows, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token_walk, "CHUNK_TOKENS", 40)
    objective, grpo = OBJECTIVES[name], named("dr_grpo_longest")
    (tokens,) = token_batches(rows.run, max_tokens=10**9)
    a, b = (effective_weights(tokens, rows.responses(o), o) for o in (objective, grpo))
    of_row = tokens.layout.rows.numpy()
    expected = [a.policy, a.weight * a.weight, a.zeroed, a.weight * b.weight]
    made = token_sums(rows, [objective, grpo], [(0, 1)])
    found = [*made.sums[0], made.products[:, 0]]
    for sums, values in zip(found, expected, strict=True):
        plain = np.zeros(rows.num_rows)
        for row, value in zip(of_row, values.double().tolist(), strict=True):
            plain[row] += value
        np.testing.assert_allclose(sums, plain, rtol=1e-9, atol=1e-14)
    assert np.any(made.sums[0].policy)


@pytest.mark.parametrize("most", [1, 30, 200, 10**6])
def test_rows_of_one_code_come_together_and_in_order(rows: RunRows, most: int) -> None:
    plain = list(token_rows(rows.run, max_tokens=most))
    assert [part.first for part in plain] == [0, *np.cumsum([p.batch.num_rows for p in plain])[:-1]]
    pieces = list(token_rows(rows.run, max_tokens=most, together=rows.update))
    held = [set(rows.update[p.first : p.first + p.batch.num_rows].tolist()) for p in pieces]
    assert sum(len(codes) for codes in held) == len(np.unique(rows.update))
    assert sum(p.batch.num_rows for p in pieces) == rows.num_rows
    lengths = np.concatenate([p.tokens([]).layout.lengths.numpy() for p in pieces])
    np.testing.assert_array_equal(lengths, rows.length)


def test_few_tokens_of_many_files_are_walked_together(rows: RunRows) -> None:
    assert len(list(token_rows(rows.run, max_tokens=10**6))) == 1


def test_columns_that_nobody_looks_at_become_no_tensors(rows: RunRows) -> None:
    (whole,) = token_rows(rows.run, max_tokens=10**6)
    tokens = whole.tokens({"logp_theta", "loss_mask"})
    assert tokens.logp_theta is not None
    assert (tokens.logp_old, tokens.entropy) == (None, None)
    assert not tokens.mask.all()

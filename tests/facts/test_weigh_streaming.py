"""Streamed weights equal those of one call, whatever the batch of tokens."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from synthetic import rollouts, write

from audit.facts.rows import RunRows
from audit.facts.tokens import token_batches
from audit.facts.weigh import weigh
from audit.objectives.corrections import Correction
from audit.objectives.objective import KL, Baseline, Filter, Objective, Ratio, RewardKL, Scale, Whiten
from audit.objectives.surrogates import ClipCov, KLCov
from audit.objectives.weights import effective_weights

OLD = Ratio(denominator="old")
TO_GO = KL(reward=RewardKL(coefficient=0.3, stage="after_scale", form="to_go"))
GATE = Correction(action="gate", numerator="theta", against="old", low=0.9, high=1.1, leaves_denominator=True)
CASES: dict[str, dict[str, Any]] = {
    "KL to go, whitened": {"kl": TO_GO, "scale": Scale(whiten=Whiten(ddof=1, epsilon=1e-8))},
    "KL centred": {"kl": KL(reward=RewardKL(coefficient=0.3, stage="after_scale", form="centred"))},
    "GAE, whitened": {"baseline": Baseline(kind="gae", gamma=0.9, lam=0.9), "scale": Scale(whiten=Whiten())},
    "GAE without rows of advantage 0": {
        "baseline": Baseline(kind="gae"),
        "filter": Filter(zero_advantage=True),
    },
    "gated tokens leave the denominator": {"ratio": Ratio(denominator="old", corrections=(GATE,))},
    "Clip-Cov": {"clip": ClipCov(fraction=0.1, low=0.0)},
    "KL-Cov": {"clip": KLCov(fraction=0.1)},
}


@pytest.mark.parametrize("case", CASES)
def test_streaming_changes_nothing(tmp_path, case: str) -> None:
    data = rollouts(steps=2)
    for row in data:
        row["value"] = [0.1 * k - 0.2 for k in range(row["length"])]
    rows = RunRows.read(write(tmp_path / "run", data, "grpo"))
    objective = Objective(**({"baseline": Baseline(kind="group_mean"), "ratio": OLD} | CASES[case]))
    (tokens,) = token_batches(rows.run, max_tokens=10**9)
    whole = effective_weights(tokens, rows.responses(objective), objective).weight
    assert whole.ne(0).any()
    for max_tokens in (1, 13, 10**9):
        parts = [batch.weights.weight for batch in weigh(rows, objective, max_tokens=max_tokens)]
        torch.testing.assert_close(torch.cat(parts), whole, rtol=1e-12, atol=1e-15)

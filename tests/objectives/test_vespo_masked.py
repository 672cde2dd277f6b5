"""VESPO with a sampler correction: tokens that take no loss stay out of the response's ratio."""

from __future__ import annotations

import torch
from weight_cases import Row, responses_of, tokens_of

from audit.objectives.objective import Aggregation, Baseline, Correction, Objective, Ratio
from audit.objectives.surrogates import VESPO
from audit.objectives.weights import effective_weights

OBJECTIVE = Objective(
    baseline=Baseline(kind="logged"),
    ratio=Ratio(denominator="old", corrections=(Correction(high=1.5),)),
    clip=VESPO(),
    aggregation=Aggregation(kind="token-sum"),
)


def weights(keep: tuple[int, ...], mask: tuple[bool, ...]) -> torch.Tensor:
    columns = {
        "theta": (-0.9, -1.7, -0.4),
        "old": (-1.0, -1.5, -0.5),
        "ref": (0.0, 0.0, 0.0),
        "sampler": (-1.1, -1.2, -0.6),
    }
    chosen = {name: tuple(values[i] for i in keep) for name, values in columns.items()}
    row = Row(1.0, mask=mask, advantage=1.0, **chosen)
    return effective_weights(tokens_of([row]), responses_of([row]), OBJECTIVE).weight


def test_a_masked_token_is_as_good_as_none() -> None:
    with_it = weights((0, 1, 2), (True, False, True))
    without = weights((0, 2), (True, True))
    assert with_it[1] == 0
    torch.testing.assert_close(with_it[[0, 2]], without, rtol=0, atol=0)
    assert without.gt(0.5).all()

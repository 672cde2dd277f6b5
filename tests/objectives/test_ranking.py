"""Ranks within a batch, ties and interleaved batches included, against plain loops."""

from __future__ import annotations

import random

import pytest
import torch

from audit.objectives.batch import Tokens
from audit.objectives.entropy import high_entropy
from audit.objectives.ranking import highest, loss_tokens_by_batch, quantile
from audit.objectives.surrogates import KLCov, Step
from audit.ragged import Layout


def ragged(rng: random.Random, rows: int) -> Tokens:
    """Responses of 0 to 5 tokens, some of them masked; few distinct values, so that many are tied."""
    lengths = [rng.randrange(6) for _ in range(rows)]
    count = sum(lengths)
    return Tokens(
        layout=Layout.from_lengths(torch.tensor(lengths)),
        mask=torch.tensor([rng.random() < 0.8 for _ in range(count)], dtype=torch.bool),
        logp_theta=torch.tensor([-float(rng.randrange(4)) for _ in range(count)], dtype=torch.float64),
        logp_old=torch.tensor([-float(rng.randrange(4)) for _ in range(count)], dtype=torch.float64),
        entropy=torch.tensor([float(rng.randrange(3)) for _ in range(count)], dtype=torch.float64),
    )


def by_batch(tokens: Tokens, batch: torch.Tensor) -> dict[int, list[int]]:
    """Places of the loss tokens of each batch, one token after the other."""
    found: dict[int, list[int]] = {}
    for place, row in enumerate(tokens.layout.rows.tolist()):
        if tokens.mask[place]:
            found.setdefault(int(batch[row]), []).append(place)
    return dict(sorted(found.items()))


@pytest.mark.parametrize("seed", range(20))
def test_batches_whose_rows_are_mixed_come_out_apart(seed: int) -> None:
    rng = random.Random(seed)
    tokens = ragged(rng, rng.randrange(12))
    batch = torch.tensor([rng.randrange(3) for _ in range(tokens.layout.num_rows)], dtype=torch.int64)
    found = [places.tolist() for places in loss_tokens_by_batch(tokens, batch)]
    assert found == list(by_batch(tokens, batch).values())


@pytest.mark.parametrize("seed", range(20))
def test_of_tied_values_the_first_are_chosen(seed: int) -> None:
    rng = random.Random(seed)
    values = [rng.choice([0.0, 1.5, -2.0, float("inf"), float("nan")]) for _ in range(rng.randrange(1, 20))]
    count = rng.randrange(1, len(values) + 1)
    ranked = [float("inf") if value != value else value for value in values]
    expected = sorted(sorted(range(len(values)), key=lambda at: -ranked[at])[:count])
    assert highest(torch.tensor(values, dtype=torch.float64), count).nonzero().flatten().tolist() == expected


@pytest.mark.parametrize("seed", range(20))
def test_the_quantile_is_that_of_torch(seed: int) -> None:
    rng = random.Random(seed)
    values = torch.tensor([float(rng.randrange(5)) / 3 for _ in range(rng.randrange(1, 30))])
    values = values.double()
    for share in (0.0, 0.2, 0.5, 1.0, rng.random()):
        assert quantile(values, share) == torch.quantile(values, share)
    values[rng.randrange(len(values))] = float("nan")
    assert quantile(values, 0.5).isnan()


@pytest.mark.parametrize("seed", range(10))
def test_kl_cov_chooses_the_tokens_of_a_plain_loop_in_batches_of_ties(seed: int) -> None:
    rng = random.Random(seed)
    tokens = ragged(rng, 12)
    rows = tokens.layout.num_rows
    batch = torch.tensor([rng.randrange(2) for _ in range(rows)], dtype=torch.int64)
    advantage = tokens.layout.spread(
        torch.tensor([float(rng.randrange(-1, 2)) for _ in range(rows)]).double()
    )
    assert tokens.logp_theta is not None
    assert tokens.logp_old is not None
    log = tokens.unmasked(tokens.logp_theta - tokens.logp_old)
    clip = KLCov(fraction=0.3, coefficient=0.5)
    step = Step(
        tokens=tokens,
        log_ratio=log,
        ratio=log.exp(),
        denominator=tokens.logp_old,
        advantage=advantage,
        log_correction=torch.zeros_like(log),
        batch=batch,
    )
    pulled = (clip.slope(step)[0] - advantage * log.exp()).tolist()
    expected = [0.0] * len(pulled)
    for places in by_batch(tokens, batch).values():
        # Sums of few small integers: both routes divide equal numbers, so that ties stay ties.
        mean_a = sum(advantage[p].item() for p in places) / len(places)
        mean_p = sum(tokens.logp_theta[p].item() for p in places) / len(places)
        rank = {p: (advantage[p].item() - mean_a) * (tokens.logp_theta[p].item() - mean_p) for p in places}
        for p in sorted(places, key=lambda p: -rank[p])[: max(1, int(len(places) * 0.3))]:
            expected[p] = -0.5 * ((log[p] > 0).item() - (log[p] < 0).item())
    assert pulled == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("seed", range(10))
def test_high_entropy_keeps_what_reaches_the_quantile_of_its_batch(seed: int) -> None:
    rng = random.Random(seed)
    tokens = ragged(rng, 12)
    batch = torch.tensor([rng.randrange(3) for _ in range(12)], dtype=torch.int64)
    kept = high_entropy(tokens, batch, 0.4).tolist()
    expected = [0.0] * len(kept)
    assert tokens.entropy is not None
    for places in by_batch(tokens, batch).values():
        inside = sorted(tokens.entropy[p].item() for p in places)
        rank = 0.6 * (len(inside) - 1)
        low, high = inside[int(rank)], inside[min(int(rank) + 1, len(inside) - 1)]
        least = low + (rank - int(rank)) * (high - low)
        for p in places:
            expected[p] = float(tokens.entropy[p].item() >= least - 1e-12)
    assert kept == expected

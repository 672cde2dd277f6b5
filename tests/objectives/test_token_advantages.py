"""Sums to the end of a response, and generalised advantages, against loops from the last token back."""

from __future__ import annotations

import math
import random

import pytest
import torch

from audit.objectives.batch import Tokens
from audit.objectives.token_advantages import gae, suffix_sum, token_moments
from audit.ragged import Layout


def ragged(rng: random.Random) -> tuple[Tokens, list[int]]:
    """Responses of 0 to 40 tokens, some masked, with critic values."""
    lengths = [rng.choice([0, 1, 2, 3, rng.randrange(41)]) for _ in range(rng.randrange(1, 8))]
    count = sum(lengths)
    tokens = Tokens(
        layout=Layout.from_lengths(torch.tensor(lengths)),
        mask=torch.tensor([rng.random() < 0.7 for _ in range(count)], dtype=torch.bool),
        value=torch.tensor([rng.gauss(0, 1) for _ in range(count)], dtype=torch.float64),
    )
    return tokens, lengths


@pytest.mark.parametrize("seed", range(20))
def test_sums_run_to_the_end_of_each_response(seed: int) -> None:
    rng = random.Random(seed)
    tokens, lengths = ragged(rng)
    given = [rng.gauss(0, 1) * 10.0 ** rng.randrange(-8, 9) for _ in range(sum(lengths))]
    expected, start = [], 0
    for length in lengths:
        expected += [math.fsum(given[at : start + length]) for at in range(start, start + length)]
        start += length
    found = suffix_sum(tokens, torch.tensor(given, dtype=torch.float64)).tolist()
    assert found == pytest.approx(expected, rel=1e-12, abs=1e-7)


def test_an_infinite_token_stays_in_its_response() -> None:
    tokens = Tokens(layout=Layout.from_lengths(torch.tensor([3, 2])), mask=torch.ones(5, dtype=torch.bool))
    values = torch.tensor([1.0, math.inf, 2.0, 3.0, 4.0], dtype=torch.float64)
    assert suffix_sum(tokens, values).tolist() == [math.inf, math.inf, 2.0, 7.0, 4.0]
    assert suffix_sum(tokens, values.flip(0)).tolist() == [9.0, 5.0, 2.0, math.inf, 1.0]


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize(("gamma", "lam"), [(1.0, 1.0), (0.9, 0.8), (1.0, 0.0)])
def test_gae_passes_over_masked_tokens(seed: int, gamma: float, lam: float) -> None:
    rng = random.Random(seed)
    tokens, lengths = ragged(rng)
    assert tokens.value is not None
    reward = [rng.choice([0.0, 1.0, math.nan]) for _ in lengths]
    paid = [rng.gauss(0, 0.1) for _ in range(sum(lengths))]
    expected, start = [0.0] * sum(lengths), 0
    for length, final in zip(lengths, reward, strict=True):
        following = running = 0.0
        ends = True
        for at in range(start + length - 1, start - 1, -1):
            if not tokens.mask[at]:
                continue
            earned = -paid[at] + (0.0 if not ends or math.isnan(final) else final)
            value = tokens.value[at].item()
            running = earned + gamma * following - value + gamma * lam * running
            expected[at], following, ends = running, value, False
        start += length
    as_tensor = (torch.tensor(values, dtype=torch.float64) for values in (reward, paid))
    assert gae(tokens, *as_tensor, gamma, lam).tolist() == pytest.approx(expected, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("seed", range(10))
def test_moments_are_those_of_the_loss_tokens(seed: int) -> None:
    tokens, lengths = ragged(random.Random(seed))
    assert tokens.value is not None
    found, start = token_moments(tokens, tokens.value).tolist(), 0
    for length, (count, total, within, low, high) in zip(lengths, found, strict=True):
        at = range(start, start + length)
        values = [tokens.value[p].item() for p in at if tokens.mask[p]]
        mean = math.fsum(values) / max(len(values), 1)
        assert (count, low, high) == (
            len(values),
            min(values, default=math.inf),
            max(values, default=-math.inf),
        )
        assert total == pytest.approx(math.fsum(values), abs=1e-12)
        assert within == pytest.approx(math.fsum((v - mean) ** 2 for v in values), abs=1e-12)
        start += length

"""A language small enough to list, policies that are not the reference, and brute force over responses."""

from __future__ import annotations

import itertools
import math

import torch

from audit.ragged import Layout
from audit.testbed.language import Language
from audit.testbed.sampling import Draw

SMALL = Language(rates=(0.3, 0.65), letters=2, budget=3, stop=0.35)


def random_logits(language: Language, seed: int = 0, runs: int = 1) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    shape = (runs, language.prompts, language.prefixes, language.tokens)
    logits = torch.randn(shape, generator=generator, dtype=torch.float64)
    logits[..., 0, language.letters] = -torch.inf
    return logits


def random_policy(language: Language, seed: int = 0, runs: int = 1) -> torch.Tensor:
    return random_logits(language, seed, runs).log_softmax(-1)


def spelled_out(language: Language) -> list[tuple[int, ...]]:
    """Every response as its token ids, in the order of the package's numbering."""
    stopped = [
        (*letters, language.letters)
        for n in range(1, language.budget)
        for letters in itertools.product(range(language.letters), repeat=n)
    ]
    return stopped + list(itertools.product(range(language.letters), repeat=language.budget))


def prefix_number(language: Language, letters: tuple[int, ...]) -> int:
    """Place of a prefix among all prefixes, shorter ones first, then in the order of a dictionary."""
    shorter = sum(language.letters**n for n in range(len(letters)))
    return shorter + sum(a * language.letters**k for k, a in enumerate(reversed(letters)))


def log_probability(language: Language, table: torch.Tensor, response: tuple[int, ...]) -> torch.Tensor:
    """log pi(response), as a sum over its tokens; ``table`` has the shape (S, V)."""
    return sum(table[prefix_number(language, response[:t]), token] for t, token in enumerate(response))


def is_correct(language: Language, prompt: int, response: tuple[int, ...]) -> bool:
    letters = [token for token in response if token < language.letters]
    return letters[-1 if language.answer == "last" else 0] == prompt % language.letters


def listed(language: Language, table: torch.Tensor, prompt: int) -> list[tuple[float, int, bool]]:
    """Probability, tokens and correctness of every response; ``table`` has the shape (S, V)."""
    return [
        (math.exp(float(log_probability(language, table, y))), len(y), is_correct(language, prompt, y))
        for y in spelled_out(language)
    ]


def draw_of(language: Language, prompt: int, rows: list[tuple[int, int, tuple[int, ...]]]) -> Draw:
    """A draw made by hand: (update, place in the group, token ids) of each response to one prompt."""
    tokens = [y for _, _, y in rows]
    letters = [[token for token in y if token < language.letters] for y in tokens]
    places = [prefix_number(language, y[:t]) for y in tokens for t in range(len(y))]
    return Draw(
        run=torch.tensor([update for update, _, _ in rows]),
        prompt=torch.full((len(rows),), prompt),
        sample=torch.tensor([place for _, place, _ in rows]),
        greedy=torch.zeros(len(rows), dtype=torch.bool),
        length=torch.tensor([len(y) for y in tokens]),
        cut=torch.tensor([y[-1] != language.letters for y in tokens]),
        last=torch.tensor([seen[-1] for seen in letters]),
        first=torch.tensor([seen[0] for seen in letters]),
        token=torch.tensor([token for y in tokens for token in y]),
        row=torch.tensor(places) + prompt * language.prefixes,
        layout=Layout.from_lengths(torch.tensor([len(y) for y in tokens])),
    )

"""Letters, prompts, prefixes, and the reference policy of the testbed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import torch
from torch import Tensor

RATES = (0.017, 0.12, 0.28, 0.44, 0.58, 0.71)
"""Reference success rates of the standard prompts: a hard one, a medium one and an easy one among them."""


@dataclass(frozen=True)
class Language:
    """Responses of up to ``budget`` tokens over ``letters`` letters and a stop token.

    Prefixes are numbered level by level, the empty one first: the letters after prefix s lead to
    ``s * letters + 1``, …, ``s * letters + letters``. So the children of a level are the next one, in order.
    Token ids: 0 … letters - 1 are letters, ``letters`` is the stop token.

    A response is numbered by the prefix at which it stops, less one (the empty response does not exist), and
    after those come the cut-off ones, in the order of their letters.
    """

    rates: tuple[float, ...] = RATES
    """Reference success rate of each prompt; the number of prompts P."""
    letters: int = 3
    budget: int = 7
    """T, in tokens."""
    stop: float = 0.25
    """h: probability that the reference stops after a letter."""
    answer: Literal["last", "first"] = "last"
    """The letter that the prompt asks for: where a response ends, or where it begins."""

    @property
    def prompts(self) -> int:
        """Number of prompts P."""
        return len(self.rates)

    @property
    def tokens(self) -> int:
        """Size of the vocabulary V, the stop token included."""
        return self.letters + 1

    @property
    def prefixes(self) -> int:
        """Number of prefixes S at which a token is still to come: 0 to T - 1 letters."""
        return self.first(self.budget)

    @property
    def responses(self) -> int:
        """Number of distinct responses R."""
        return self.prefixes - 1 + int(self.letters**self.budget)

    def first(self, letters: int) -> int:
        """Number of the first prefix with that many letters."""
        return sum(int(self.letters**n) for n in range(letters))

    @cached_property
    def wanted(self) -> Tensor:
        """Letter that each prompt asks for, int64, shape (P,)."""
        return torch.arange(self.prompts) % self.letters

    @cached_property
    def response_length(self) -> Tensor:
        """Tokens of each response, int64, shape (R,)."""
        counts = [[n + 1] * int(self.letters**n) for n in range(1, self.budget)]
        cut = [self.budget] * int(self.letters**self.budget)
        return torch.tensor([*(n for level in counts for n in level), *cut])

    @cached_property
    def response_last(self) -> Tensor:
        """Last letter of each response, int64, shape (R,)."""
        return torch.arange(self.responses) % self.letters

    @cached_property
    def response_first(self) -> Tensor:
        """First letter of each response, int64, shape (R,)."""
        levels = [*range(1, self.budget), self.budget]
        return torch.cat([torch.arange(self.letters**n) // self.letters ** (n - 1) for n in levels])

    @cached_property
    def reward(self) -> Tensor:
        """1.0 where a response is correct, shape (P, R), float64."""
        letter = self.response_last if self.answer == "last" else self.response_first
        return (letter == self.wanted[:, None]).to(torch.float64)

    @cached_property
    def reference(self) -> Tensor:
        """Log-probs of the reference policy, shape (P, S, V), float64; -inf for the empty response."""
        rate = torch.tensor(self.rates, dtype=torch.float64)
        letter = ((1.0 - rate) / (self.letters - 1))[:, None].repeat(1, self.letters)
        letter[torch.arange(self.prompts), self.wanted] = rate
        stop = torch.full((self.prompts, 1), self.stop, dtype=torch.float64)
        later = torch.cat([(1.0 - self.stop) * letter, stop], dim=1)
        table = later[:, None, :].repeat(1, self.prefixes, 1)
        table[:, 0] = torch.cat([letter, torch.zeros_like(stop)], dim=1)
        return table.log()

    def prompt_text(self, prompt: int) -> str:
        """What a log shows as the prompt."""
        where = "end" if self.answer == "last" else "begin"
        return f"{where} with {self.spell([int(self.wanted[prompt])])} ({self.rates[prompt]:g})"

    def spell(self, token_ids: Sequence[int]) -> str:
        """Return the text of some tokens: letters, and a full stop for the stop token."""
        return "".join("." if token == self.letters else chr(ord("a") + token) for token in token_ids)

"""Drawing responses from a policy, and what an objective sees of them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from audit.objectives.batch import Responses
from audit.objectives.objective import Objective
from audit.objectives.shaping import combined_reward
from audit.ragged import Layout
from audit.testbed.language import Language

COMPONENTS = ("accuracy", "format")
"""Reward components: the last letter is the wanted one; the first letter is ``a``."""


@dataclass(frozen=True)
class Draw:
    """R responses of N tokens in all, ordered by run, prompt and place in the group.

    Tensors of shape (R,) or (N,), int64 unless said otherwise. K runs (seeds) lie side by side: run k has its
    own tables of the shape (P, S, V).
    """

    run: Tensor
    prompt: Tensor
    sample: Tensor
    """Place in the group."""
    greedy: Tensor
    """bool; the most likely token was taken at every prefix."""
    length: Tensor
    cut: Tensor
    """bool; cut off after T tokens, without a stop token."""
    last: Tensor
    """Last letter."""
    first: Tensor
    """First letter."""
    token: Tensor
    """Token ids, shape (N,)."""
    row: Tensor
    """Row of the tables, flattened to (K · P · S, V), at which each token was drawn; shape (N,)."""
    layout: Layout

    def at_tokens(self, table: Tensor) -> Tensor:
        """Entries of a table (K, P, S, V), or one of every token's prefix (K, P, S), shape (N,)."""
        if table.ndim == 3:
            return table.reshape(-1)[self.row]
        return table.reshape(-1, table.shape[-1])[self.row, self.token]

    def correct(self, language: Language) -> Tensor:
        """bool, shape (R,)."""
        letter = self.last if language.answer == "last" else self.first
        return letter == language.wanted[self.prompt]


def sample(language: Language, policy: Tensor, uniforms: Tensor, *, greedy: bool = False) -> Draw:
    """Draw G responses per prompt and run, and with ``greedy`` one greedy decode more.

    Parameters
    ----------
    policy : Tensor, shape (K, P, S, V)
        Log-probs.
    uniforms : Tensor, shape (K, P, G, T), float64
        Uniform on [0, 1): the same numbers give the same responses.
    """
    runs, prompts, group, budget = uniforms.shape
    size = group + int(greedy)
    table = policy.exp().reshape(-1, language.tokens)
    base = torch.arange(runs * prompts)[:, None] * language.prefixes
    prefix = torch.zeros(runs * prompts, size, dtype=torch.int64)
    going = torch.ones_like(prefix, dtype=torch.bool)
    last, first = torch.zeros_like(prefix), torch.zeros_like(prefix)
    tokens, rows, taken = [], [], []
    drawn = uniforms.reshape(runs * prompts, group, budget)
    for t in range(budget):
        row = base + prefix
        up_to = table[row].cumsum(-1)
        level = drawn[..., t, None] * up_to[:, :group, -1:]
        token = (up_to[:, :group] <= level).sum(-1)
        if greedy:
            token = torch.cat([token, table[row[:, group:]].argmax(-1)], dim=1)
        tokens.append(token)
        rows.append(row)
        taken.append(going)
        letter = going & (token < language.letters)
        last = torch.where(letter, token, last)
        first = token if t == 0 else first
        # Beyond the last level there is no prefix; nothing is looked up there.
        prefix = torch.where(letter, prefix * language.letters + 1 + token, prefix)
        going = letter
    kept = torch.stack(taken, dim=-1)
    layout = Layout.from_lengths(kept.sum(-1).flatten())
    place = torch.arange(runs * prompts)[:, None].expand(-1, size)
    index = torch.arange(size).expand(runs * prompts, -1)
    return Draw(
        run=(place // prompts).flatten(),
        prompt=(place % prompts).flatten(),
        sample=index.flatten(),
        greedy=(index >= group).flatten(),
        length=layout.lengths,
        cut=going.flatten(),
        last=last.flatten(),
        first=first.flatten(),
        token=torch.stack(tokens, dim=-1)[kept],
        row=torch.stack(rows, dim=-1)[kept],
        layout=layout,
    )


def responses_of(
    language: Language, draw: Draw, objective: Objective, *, micro_batches: int = 1
) -> Responses:
    """What an objective sees of the responses: the runs are updates of their own, and so never mix."""
    group = draw.run * language.prompts + draw.prompt
    correct = draw.correct(language).to(torch.float64)
    made = Responses(
        reward=correct,
        length=draw.length,
        loss_tokens=draw.length,
        group=group,
        update=draw.run,
        generation_batch=draw.run,
        micro_batch=draw.run * micro_batches + micro_batch(language, draw, micro_batches),
        greedy=draw.greedy if bool(draw.greedy.any()) else None,
        truncated=draw.cut,
        components={"accuracy": correct, "format": (draw.first == 0).to(torch.float64)},
    )
    return replace(made, reward=combined_reward(made, objective.shaping))


def micro_batch(language: Language, draw: Draw, micro_batches: int) -> Tensor:
    """Micro-batch of each response inside its update, shape (R,): prompts in equal shares, groups whole."""
    return draw.prompt * micro_batches // language.prompts

"""Groups whose rewards are all equal: their share, what the success rate predicts, and what they dilute."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from audit.analyses.checks.look import Entry, Look, problem
from audit.analyses.groups import groups_of
from audit.analyses.samples import samples_of
from audit.analyses.zero_expected import expected, predicted_alike
from audit.schema import Problem

MOST = 0.5
"""Share of groups from which this is worth saying; heuristic."""
LARGER = 8


def _find(look: Look) -> Iterator[Problem]:
    groups = groups_of(look.rows)
    some = groups.size > 0
    if not some.any() or float(groups.dead[some].mean()) <= MOST:
        return
    marked = look.grouped & np.isfinite(look.reward) & (groups.dead & some)[look.rows.sample]
    share = float(groups.dead[some].mean())
    said = f"{share:.0%} of {int(some.sum())} groups carry no signal: all rewards equal."
    said += _expected(look, groups.typical_size)
    if look.loss_tokens is not None:
        whole = look.loss_tokens[look.grouped].sum()
        held = look.loss_tokens[marked].sum() / whole if whole else 0.0
        said += f" They hold {held:.0%} of the loss tokens."
    yield problem(look, "group.zero-signal", marked, said, "info", column="reward")


def _expected(look: Look, size: int) -> str:
    """For a reward of two values with mean rate p: p^G + (1 - p)^G of independent draws (DESIGN 5)."""
    reward = look.reward[look.grouped & np.isfinite(look.reward)]
    values = np.unique(reward)
    if len(values) != 2 or size < 1:
        return ""
    rate = float((reward == values[1]).mean())
    chance = [rate**n + (1.0 - rate) ** n for n in (size, LARGER)]
    said = f" Expected at p = {rate:.2f}, G = {size}: {chance[0]:.0%}"
    said += f"; G = {LARGER} would give {chance[1]:.0%}" if size < LARGER else ""
    return said + _by_prompt(look) + "."


def _by_prompt(look: Look) -> str:
    """What the rates of the prompts predict: prompts that are all easy or hard make more silent groups."""
    samples = samples_of(look.rows)
    found = expected(samples, predicted_alike(samples)).predicted
    return "" if found.value is None else f"; by the rates of their prompts {found.value:.0%} (n = {found.n})"


CHECK = Entry(
    "groups without signal",
    {"group.zero-signal": "most groups have equal rewards: their share, the expected share, their tokens"},
    _find,
    ("group_id", "reward"),
)

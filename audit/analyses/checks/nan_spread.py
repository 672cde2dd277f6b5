"""Rewards that are not a number, and the advantages that they spoil."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow.compute as pc

from audit.analyses.checks.look import Entry, Look, problem
from audit.logs.arrays import valid
from audit.schema import Problem


def _find(look: Look) -> Iterator[Problem]:
    rows = look.rows
    spoiled = _not_a_number(look)
    missing = ~np.isfinite(look.reward) & ~rows.greedy
    if spoiled is not None and spoiled.any() and missing.any():
        first = int(rows.step[spoiled].min())
        here = rows.step == first
        null = missing & ~valid(rows.table["reward"])
        kind = "null" if null.any() and not (missing & ~null).any() else "NaN"
        said = (
            f"Step {first}: {int((missing & here).sum())} {kind} rewards, "
            f"{int((spoiled & here).sum())} NaN advantages. "
            f"{int(missing.sum())} such rewards in all spoil {int(spoiled.sum())} advantages."
        )
        yield problem(
            look,
            "reward.nan-spreads",
            spoiled,
            said + _afterwards(look, spoiled) + _gradient(look),
            "error",
            column="advantage",
            hint="A plain mean over NaN is NaN: leave unscorable rows out of the group statistics.",
        )
    for name, values in look.components.items():
        lost = ~np.isfinite(values) & np.isfinite(look.reward) & _given(look, name)
        if lost.any():
            yield problem(
                look,
                "component.nan",
                lost,
                f"Component '{name}' is NaN or infinite in {int(lost.sum())} rows whose reward is a number.",
                column="reward_components",
            )


def _not_a_number(look: Look) -> np.ndarray | None:
    rows = look.rows
    if rows.has("advantage"):
        given = valid(rows.table["advantage"])
        return np.asarray(given & ~np.isfinite(rows.numpy("advantage")) & ~rows.greedy)
    logged = rows.logged_advantage
    trained = look.loss_tokens
    return None if logged is None or trained is None else ~np.isfinite(logged) & (trained > 0)


def _afterwards(look: Look, spoiled: np.ndarray) -> str:
    steps, step = np.unique(look.rows.step, return_inverse=True)
    advantage = look.rows.logged_advantage
    assert advantage is not None
    learns = np.bincount(step, weights=np.isfinite(advantage) & (advantage != 0.0), minlength=len(steps)) > 0
    dead = np.flatnonzero(learns)
    last = int(dead.max()) + 1 if len(dead) else 0
    if last < len(steps) and spoiled[step >= last].any():
        return f" Nothing was learned from step {steps[last]} on ({len(steps) - last} steps)."
    return ""


def _gradient(look: Look) -> str:
    found = look.metric("grad_norm")
    if found is None or np.isfinite(found[2]).all():
        return ""
    name, steps, values = found
    return f" {name} is not finite from step {steps[~np.isfinite(values)][0]:.0f}."


def _given(look: Look, name: str) -> np.ndarray:
    """Rows whose map holds the component, though perhaps as NaN."""
    column = look.run.responses(["reward_components"])["reward_components"].combine_chunks()
    found = pc.map_lookup(column, name, "last")
    return np.asarray(valid(found))


CHECK = Entry(
    "rewards that are not a number",
    {
        "reward.nan-spreads": "NaN or null rewards made the advantages of other rows NaN",
        "component.nan": "a reward component is NaN where the reward is not",
    },
    _find,
    ("reward",),
)

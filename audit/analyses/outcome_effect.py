"""What came out differently: reward, length, truncation, over the steps that both runs reached."""

from __future__ import annotations

import numpy as np

from audit.analyses.findings import Effect
from audit.analyses.outcomes import truncated
from audit.analyses.pair import Pair
from audit.analyses.skipped import Skipped


def outcome_effects(pair: Pair) -> tuple[list[Effect], list[Skipped]]:
    """Differences in what came out; one run a side, so the interval does not cover seed noise."""
    a, b = pair.sides
    measures: dict[str, tuple[np.ndarray | None, np.ndarray | None, str]] = {
        "reward": (a.numpy("reward"), b.numpy("reward"), "reward"),
        "length": (a.length, b.length, "token_ids or length"),
        "truncated share": (truncated(a), truncated(b), "finish_reason"),
    }
    ends = [int(rows.step.max(initial=0)) for rows in pair.sides]
    note = f"up to step {pair.last}, which both runs reached" if ends[0] != ends[1] else ""
    effects: list[Effect] = []
    skipped: list[Skipped] = []
    for name, (in_a, in_b, column) in measures.items():
        effect = None
        if in_a is not None and in_b is not None:
            of = ((in_a, np.ones_like(in_a)), (in_b, np.ones_like(in_b)))
            effect = pair.share(name, of, pair.trained, note)
        if effect is None:
            skipped.append(Skipped(name, column))
        else:
            effects.append(effect)
    return effects, skipped

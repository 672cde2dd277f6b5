"""Wrong answers that are punished less per token the longer they are, while they grow."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from audit.analyses.checks.look import Entry, Group, Look, correlation, problem
from audit.schema import Problem

GROWTH = 1.2
"""Mean length of the last third of steps over the first from which wrong answers grow; heuristic."""


def _find(look: Look) -> Iterator[Problem]:
    declared, advantage, loss = look.declared, look.rows.logged_advantage, look.loss_tokens
    if declared is None or declared.aggregation.kind != "seq-mean-token-mean":
        return
    if advantage is None or loss is None:
        return
    wrong = look.first & np.isfinite(advantage) & (advantage < 0) & (loss > 0)
    if wrong.sum() < 20:
        return
    steps = look.rows.step[wrong]
    r = correlation(steps.astype(float), loss[wrong])
    thirds = np.quantile(steps, [1 / 3, 2 / 3])
    early, late = loss[wrong][steps <= thirds[0]], loss[wrong][steps > thirds[1]]
    if not len(late) or not r > 0.1 or late.mean() < GROWTH * early.mean():
        return
    low, high = np.quantile(loss[wrong], [0.25, 0.75])
    weight = np.abs(advantage) / np.maximum(loss, 1)
    short, long = weight[wrong & (loss <= low)].mean(), weight[wrong & (loss >= high)].mean()
    flat = Group(np.where(loss <= low, 0, 1), wrong & ((loss <= low) | (loss >= high)))
    constant = flat.mean(np.abs(advantage))
    yield problem(
        look,
        "length.wrong-cheaper",
        wrong,
        f"The per-token weight of wrong answers falls as 1/length: {short / max(long, 1e-12):.2g}x between "
        "the shortest and longest quarter (under a constant divisor "
        f"{constant[0] / max(constant[-1], 1e-12):.2g}x); "
        f"their length went from {early.mean():.3g} to {late.mean():.3g} tokens.",
        "info",
        column="length",
        certainty="likely",
        hint="rlaudit length RUN measures the pressure; this makes no statement about the next step.",
    )


CHECK = Entry(
    "what a token of a long wrong answer weighs",
    {"length.wrong-cheaper": "wrong answers grow, and weigh less per token the longer they are"},
    _find,
    ("advantage|token_advantage", "length|token_ids"),
)

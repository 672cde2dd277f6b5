"""Responses that were generated and not trained on: whether those that were kept are shorter."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from audit.analyses.checks.look import Entry, Look, problem
from audit.schema import Problem
from audit.stats import ratio_of_sums

NOTABLE = 0.05
"""Relative difference in length from which it is said; heuristic."""
METRICS = ("mean_length", "response_length_mean", "completion_length", "response_length", "generated_length")


def _find(look: Look) -> Iterator[Problem]:
    length = look.rows.length
    use = look.first & np.isfinite(length)
    kept = _kept(look, use)
    if kept is not None:
        out = use & ~kept
        mean, whole = float(length[use & kept].mean()), float(length[use].mean())
        left = (~kept[use]).astype(float)
        apart = ratio_of_sums(left * length[use], left, look.rows.prompt[use], int(out.sum()))
        differs = apart.low is not None and apart.high is not None and not apart.low <= mean <= apart.high
        if whole > 0 and abs(mean / whole - 1.0) >= NOTABLE and differs:
            yield problem(
                look,
                "rollout.kept-shorter" if mean < whole else "rollout.kept-longer",
                out,
                f"Kept rows are {abs(mean / whole - 1.0):.0%} {'shorter' if mean < whole else 'longer'} than "
                f"generated ones (mean {mean:.4g} against {whole:.4g} tokens): {int(out.sum())} of "
                f"{int(use.sum())} rows were not trained on.",
                column="length",
                certainty="likely",
                hint="Throwing slow rollouts away favours short answers.",
            )
    yield from _beside_metric(look, use, length)


def _kept(look: Look, use: np.ndarray) -> np.ndarray | None:
    """Rows that train; None where all do."""
    kept = np.ones(len(use), dtype=bool)
    if look.loss_tokens is not None:
        kept &= (look.loss_tokens > 0) | (np.nan_to_num(look.rows.length) == 0)
    if look.rows.has("advantage"):
        kept &= np.isfinite(look.rows.numpy("advantage"))
    cut = look.rows.truncated
    if cut is not None:
        # Truncated rows are masked on purpose (DAPO); that is another matter.
        use = use & ~cut
    out = use & ~kept
    return None if out.sum() < 3 or not (use & kept).any() else kept


def _beside_metric(look: Look, use: np.ndarray, length: np.ndarray) -> Iterator[Problem]:
    """The mean length that the trainer logged of what it generated, against that of the rows."""
    logged = look.metric(*METRICS)
    if logged is None:
        return
    name, steps, values = logged
    shared = np.intersect1d(np.unique(look.rows.step[use]), steps)
    pairs = [
        (length[use & (look.rows.step == s)].mean(), values[steps == s].mean())
        for s in shared
        if np.isfinite(values[steps == s]).all()
    ]
    if len(pairs) < 3:
        return
    rows, told = np.array(pairs).T
    ratio = rows / np.maximum(told, 1e-9)
    apart = float(rows.mean() / told.mean() - 1.0)
    if abs(apart) < NOTABLE or (np.sign(ratio - 1.0) == np.sign(apart)).mean() < 0.9:
        return
    yield problem(
        look,
        "rollout.kept-shorter" if apart < 0 else "rollout.kept-longer",
        None,
        f"The rows of the log are {abs(apart):.0%} {'shorter' if apart < 0 else 'longer'} than {name} says "
        f"(mean {rows.mean():.4g} against {told.mean():.4g}, {len(pairs)} steps): responses were generated "
        "that are not among them.",
        column="length",
        steps=tuple(int(s) for s in shared[:5]),
        certainty="likely",
    )


CHECK = Entry(
    "responses that were thrown away",
    {
        "rollout.kept-shorter": "rows that train are shorter than those generated",
        "rollout.kept-longer": "rows that train are longer than those generated",
    },
    _find,
    ("length|token_ids",),
)

"""How far are the inference engine's log-probs from the trainer's on the same tokens, and does it matter?"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import msgspec
import numpy as np

from audit.analyses.bucket_shares import Bucket, Trend, parts, trend
from audit.analyses.mismatch_corrections import CorrectionEffect, correction_facts, corrections
from audit.analyses.mismatch_gap import GAP_FACTS, Gap, gap_of
from audit.analyses.mismatch_storage import Grid, grids, placeholders, storage_facts
from audit.analyses.mismatch_tail import Tail, resets, tail
from audit.analyses.mismatch_weights import Weights, weights
from audit.analyses.mismatch_words import hints, verdict
from audit.analyses.outcomes import first_pass
from audit.analyses.skipped import Skipped
from audit.analyses.skips import Skips
from audit.analyses.token_parts import edges_of, part_names
from audit.facts.rows import RunRows
from audit.facts.tokenpass.breakdowns import Dimension, Within, name_of
from audit.objectives.objective import Objective
from audit.stats import FEW_CLUSTERS

_DIMENSIONS: tuple[Dimension, ...] = ("position", "logp")


class Mismatch(msgspec.Struct, frozen=True):
    """The contract of ``rlaudit mismatch --json``."""

    run: str
    responses: int
    tokens: int
    gap: Gap | None
    by: dict[str, list[Bucket]]
    """Mean |g| by ``position`` in the response and by ``logp``, the probability under the old policy."""
    tail: Tail | None
    weights: Weights | None
    corrections: list[CorrectionEffect]
    grids: list[Grid]
    placeholders: int
    """Sampler log-probs that are exactly 0 where the trainer's lie below -1."""
    steps: Trend | None
    """Mean |g| over steps."""
    resets: list[int]
    """Steps at which it falls back; heuristic."""
    skipped: list[Skipped]
    doubts: list[str]
    verdict: str
    schema: str = "rlaudit.mismatch.v1"


def mismatch(rows: RunRows, objective: Objective | None = None, notes: Sequence[str] = ()) -> Mismatch:
    """Compare the log-probs of sampler and trainer on the tokens of the first inner pass.

    Parameters
    ----------
    objective : Objective, optional
        Whose corrections for the sampler are shown beside those of the catalogue.
    notes : sequence of str
        What was assumed about the objective; repeated among the doubts.
    """
    skips = Skips(rows)
    doubts = [*notes, *(f"{skip.path.name} was left out: {skip.reason}" for skip in rows.run.skipped)]
    facts = rows.facts
    if skips.lacks("sampler against trainer", "logp_sampler", "logp_old") or facts is None:
        return _nothing(rows, skips, doubts)
    of_parts = [name for by in _DIMENSIONS for pair in _parts_of(rows, by) for name in pair]
    facts.read([*GAP_FACTS, *storage_facts(), *correction_facts(objective), *of_parts])
    trained = first_pass(rows)
    use = (
        trained
        & np.isfinite(facts["mismatch"])
        & np.isfinite(facts["sampler_gap"])
        & (facts["loss_tokens"] > 0)
    )
    lost = int((trained & (facts["loss_tokens"] > 0) & ~use).sum())
    if lost:
        doubts.append(f"{lost} responses left out: sampler or trainer log-probs are missing or not finite")
    if not use.any():
        skips.add("sampler against trainer", "a response with finite logp_sampler and logp_old")
        return _nothing(rows, skips, doubts)
    gap = gap_of(rows, use)
    found_weights = skips.attempt("importance weights", lambda: weights(rows, use))
    found_grids, filled = grids(rows, use), placeholders(rows, use)
    spread = tail(rows, use)
    total, tokens = facts["mismatch"], facts["loss_tokens"].astype(np.float64)
    prompts = len(np.unique(rows.prompt[use]))
    if prompts < FEW_CLUSTERS:
        doubts.append(f"only {prompts} prompts: intervals by prompt are rough")
    steps = skips.attempt("over steps", lambda: trend(rows, use, total, tokens))
    fallen = skips.attempt("resets", lambda: resets(rows.step[use], total[use], tokens[use])) or []
    return Mismatch(
        run=rows.run.run_id,
        responses=int(use.sum()),
        tokens=int(tokens[use].sum()),
        gap=gap,
        by=_by(rows, use),
        tail=spread,
        weights=found_weights,
        corrections=corrections(rows, use, objective, skips),
        grids=found_grids,
        placeholders=filled,
        steps=steps,
        resets=fallen,
        skipped=skips.found,
        doubts=doubts + hints(gap, spread, found_grids, filled),
        verdict=verdict(gap, spread, found_weights, steps),
    )


def _nothing(rows: RunRows, skips: Skips, doubts: list[str]) -> Mismatch:
    return Mismatch(
        run=rows.run.run_id,
        responses=0,
        tokens=0,
        gap=None,
        by={},
        tail=None,
        weights=None,
        corrections=[],
        grids=[],
        placeholders=0,
        steps=None,
        resets=[],
        skipped=skips.found,
        doubts=doubts,
        verdict="This log cannot say how the sampler's log-probs compare with the trainer's.",
    )


def _by(rows: RunRows, use: np.ndarray) -> dict[str, list[Bucket]]:
    assert rows.facts is not None
    found = {}
    for by in _DIMENSIONS:
        pairs = _parts_of(rows, by)
        above = [rows.facts[name][use] for name, _ in pairs]
        below = [rows.facts[name][use] for _, name in pairs]
        buckets = parts(part_names(rows, by), above, below, rows.prompt[use])
        found[str(by)] = [bucket for bucket in buckets if bucket.tokens]
    return found


def _parts_of(rows: RunRows, by: Dimension) -> list[tuple[str, str]]:
    """Facts of each part: Σ |g|, and loss tokens."""
    return [
        (name_of(Within("mismatch", by, low, high)), name_of(Within("loss", by, low, high)))
        for low, high in itertools.pairwise(edges_of(rows, by))
    ]

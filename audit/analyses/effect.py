"""How far apart two objectives push the same rollouts, and which of their parts does it."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np

from audit.analyses.coalitions import (
    TIE,
    Coalitions,
    coalition_sums,
    distances,
    log_scales,
    shapley_matrix,
    tied_parts,
)
from audit.analyses.skipped import Skipped
from audit.errors import AuditError, MissingColumn
from audit.facts.budget import with_budget
from audit.facts.rows import RunRows
from audit.objectives.needs import needs, without
from audit.objectives.objective import Objective, differing_fields, differing_parts
from audit.stats import Estimate, bootstrap, estimate

SAME_DIRECTION = 1e-6
"""1 - cosine below this is rounding of float32 log-probs, not a difference of direction."""


class PartEffect(msgspec.Struct, frozen=True):
    """What one differing part contributes; the parts of an effect sum to the whole."""

    part: str
    """Name of the part; parts that only make sense together are joined, as ``baseline+scale``."""
    change: str
    """The fields that differ, as 'kind group_std → none'."""
    distance: Estimate
    """Shapley value in 1 - cosine."""
    share: Estimate
    """The same as a fraction of the whole distance."""
    log_scale: Estimate
    """Shapley value in log(norm of B's weights / norm of A's)."""


class ObjectiveEffect(msgspec.Struct, frozen=True):
    """Two objectives applied to the same rollouts."""

    on: list[str]
    """Runs whose rollouts were used."""
    distance: Estimate
    """1 - cosine of the two weight vectors over all tokens; 0 same direction, 1 orthogonal."""
    log_scale: Estimate
    parts: list[PartEffect]
    not_compared: list[Skipped]
    """Parts that these rollouts cannot carry, with the missing column."""
    tokens: int


class Comparison(msgspec.Struct, frozen=True):
    """Per-prompt sums of one run, with what had to be left out."""

    run_id: str
    coalitions: Coalitions | None
    """None where nothing that differs can be compared."""
    changes: dict[str, str]
    not_compared: list[Skipped]
    prompts: list[str]


def objective_effects(
    runs: list[RunRows], a: Objective, b: Objective
) -> tuple[list[ObjectiveEffect], list[Skipped]]:
    """Apply both objectives to the rollouts of each run, and to all of them together.

    Returns
    -------
    effects : list of ObjectiveEffect
        One per run, and one over all of them where they could carry the same parts. Empty where the two
        objectives are the same.
    skipped : list of Skipped
        Runs that cannot carry the comparison, with the reason.
    """
    done: list[Comparison] = []
    skipped: list[Skipped] = []
    for rows in runs:
        try:
            comparison = _compare(rows, a, b)
        except AuditError as error:
            skipped.append(Skipped.because(f"objective effect on {rows.run.run_id}", error))
            continue
        if comparison.coalitions is None:
            skipped += comparison.not_compared
        else:
            done.append(comparison)
    effects = [_effect([comparison]) for comparison in done]
    if len(done) > 1 and len({tuple(comparison.changes) for comparison in done}) == 1:
        effects.append(_effect(done))
    return effects, skipped


def _compare(rows: RunRows, a: Objective, b: Objective) -> Comparison:
    if rows.facts is None:
        raise MissingColumn.needed_for("token_ids, or length in tokens", "the objective effect")
    (a, _), (b, _) = with_budget(a, rows), with_budget(b, rows)
    not_compared = []
    for column, part in (needs(a) | needs(b)).items():
        if column not in rows.run.columns:
            not_compared.append(Skipped(f"objective effect of {part} on {rows.run.run_id}", column))
            # What one side cannot carry is taken out of both, so that it cannot pass for a difference.
            a, b = without(a, part), without(b, part)
    parts = tied_parts(a, b, differing_parts(a, b))
    ids = rows.table["prompt_id"].to_pylist()
    prompts = [ids[first] for first in np.unique(rows.prompt, return_index=True)[1]]
    coalitions = coalition_sums(rows, a, b, parts) if parts else None
    if coalitions is not None and coalitions.left_out:
        not_compared.append(
            Skipped(
                f"objective effect on {coalitions.left_out} of the responses of {rows.run.run_id}",
                "finite rewards and log-probs",
            )
        )
    return Comparison(
        run_id=rows.run.run_id,
        coalitions=coalitions,
        changes=_changes(a, b, parts),
        not_compared=not_compared,
        prompts=prompts,
    )


def _changes(a: Objective, b: Objective, parts: tuple[str, ...]) -> dict[str, str]:
    alone = describe_changes(a, b)
    return {part: "; ".join(alone[name] for name in part.split(TIE)) for part in parts}


def describe_changes(a: Objective, b: Objective) -> dict[str, str]:
    """Part → the fields in which two objectives differ, as 'kind group_std → none'."""
    listed: dict[str, list[str]] = {}
    for field, in_a, in_b in differing_fields(a, b):
        part, _, leaf = field.partition(".")
        listed.setdefault(part, []).append(f"{leaf} {_value(in_a)} → {_value(in_b)}")
    return {part: ", ".join(changes) for part, changes in listed.items()}


def _value(value: Any) -> str:
    if isinstance(value, dict):
        return "(" + ", ".join(f"{key} {_value(inner)}" for key, inner in value.items()) + ")"
    if isinstance(value, float):
        return f"{value:g}"
    return "none" if value is None else str(value)


def _effect(comparisons: list[Comparison]) -> ObjectiveEffect:
    coalitions = [comparison.coalitions for comparison in comparisons if comparison.coalitions is not None]
    sums = _pool_prompts(comparisons)
    parts, count = coalitions[0].parts, 2 ** len(coalitions[0].parts)
    shapley = shapley_matrix(len(parts))
    n = sum(c.responses for c in coalitions)

    def statistic(totals: np.ndarray) -> np.ndarray:
        distance, scale = distances(totals, count), log_scales(totals, count)
        phi = distance @ shapley.T
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.where(distance[..., -1:] > SAME_DIRECTION, phi / distance[..., -1:], np.nan)
        return np.concatenate([distance[..., -1:], scale[..., -1:], phi, share, scale @ shapley.T], axis=-1)

    interval = bootstrap(sums, statistic)
    k = len(parts)
    entries = [
        PartEffect(
            part=part,
            change=comparisons[0].changes[part],
            distance=estimate(interval, n, 2 + i),
            share=estimate(interval, n, 2 + k + i),
            log_scale=estimate(interval, n, 2 + 2 * k + i),
        )
        for i, part in enumerate(parts)
    ]
    return ObjectiveEffect(
        on=[comparison.run_id for comparison in comparisons],
        distance=estimate(interval, n, 0),
        log_scale=estimate(interval, n, 1),
        parts=sorted(entries, key=lambda entry: -(entry.distance.value or 0.0)),
        not_compared=[note for comparison in comparisons for note in comparison.not_compared],
        tokens=sum(c.tokens for c in coalitions),
    )


def _pool_prompts(comparisons: list[Comparison]) -> np.ndarray:
    """Sum the per-prompt rows of several runs, so that a prompt is one cluster wherever it was sampled."""
    ids = [prompt for comparison in comparisons for prompt in comparison.prompts]
    _, codes = np.unique(np.asarray(ids, dtype=object).astype(str), return_inverse=True)
    stacked = np.vstack([comparison.coalitions.sums for comparison in comparisons if comparison.coalitions])
    pooled = np.zeros((int(codes.max()) + 1, stacked.shape[1]))
    np.add.at(pooled, codes, stacked)
    return pooled

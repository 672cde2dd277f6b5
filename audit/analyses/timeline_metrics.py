"""What a timeline follows: per response a numerator and a denominator, in both runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from audit.analyses.groups import groups_of
from audit.analyses.outcomes import correctness, first_pass, truncated
from audit.analyses.pair import Pair
from audit.analyses.skipped import Skipped
from audit.errors import AuditError
from audit.facts.rows import RunRows
from audit.facts.weight_sums import weight_sums
from audit.objectives.objective import Objective

Both = tuple[np.ndarray, np.ndarray]


class Metric(NamedTuple):
    """Σ numerator / Σ denominator over the responses that count; shapes (R_a,) and (R_b,)."""

    name: str
    unit: str
    numerator: Both
    denominator: Both
    use: Both


class Kind(NamedTuple):
    """How a metric is read off one run."""

    name: str
    unit: str
    needs: tuple[str, ...]
    """Columns, of which a run must have each; "a|b" is either."""
    of: Callable[[RunRows], tuple[np.ndarray, np.ndarray, np.ndarray]]
    """Numerator, denominator, and the rows that count."""


def _plain(values: Callable[[RunRows], np.ndarray]) -> Callable[[RunRows], tuple[np.ndarray, ...]]:
    return lambda rows: (values(rows), np.ones(rows.num_rows), first_pass(rows))


def _lengths(right: float) -> Callable[[RunRows], tuple[np.ndarray, ...]]:
    def of(rows: RunRows) -> tuple[np.ndarray, ...]:
        return rows.length, np.ones(rows.num_rows), first_pass(rows) & (correctness(rows)[0] == right)

    return of


def _zero_signal(rows: RunRows) -> tuple[np.ndarray, ...]:
    groups = groups_of(rows)
    use = first_pass(rows) & rows.grouped & np.isfinite(rows.numpy("reward"))
    _, at = np.unique(np.where(use, rows.sample, -1), return_index=True)
    one = np.zeros(rows.num_rows, dtype=bool)
    one[at] = True
    return groups.dead[rows.sample].astype(float), np.ones(rows.num_rows), one & use


def _tokens(fact: str) -> Callable[[RunRows], tuple[np.ndarray, ...]]:
    """Sum of a fact per loss token."""

    def of(rows: RunRows) -> tuple[np.ndarray, ...]:
        assert rows.facts is not None
        return rows.facts[fact], rows.facts["loss_tokens"].astype(float), first_pass(rows)

    return of


def _log_ratio(rows: RunRows) -> tuple[np.ndarray, ...]:
    """Root mean square within a response, over every inner pass; a mean of squares has too heavy a tail."""
    assert rows.facts is not None
    loss = rows.facts["loss_tokens"].astype(float)
    square = np.divide(rows.facts["log_ratio_square"], loss, out=np.full(len(loss), np.nan), where=loss > 0)
    return np.sqrt(square), np.ones(rows.num_rows), ~rows.greedy


def _truncated(rows: RunRows) -> np.ndarray:
    ended = truncated(rows)
    return np.full(rows.num_rows, np.nan) if ended is None else ended


_LENGTH = "token_ids|length"
KINDS: tuple[Kind, ...] = (
    Kind("reward", "", ("reward",), _plain(lambda rows: rows.numpy("reward"))),  # type: ignore[arg-type]
    Kind("length of correct", "tokens", (_LENGTH, "reward"), _lengths(1.0)),  # type: ignore[arg-type]
    Kind("length of wrong", "tokens", (_LENGTH, "reward"), _lengths(0.0)),  # type: ignore[arg-type]
    Kind("zero-signal share", "of groups", ("group_id", "reward"), _zero_signal),  # type: ignore[arg-type]
    Kind("truncated share", "of responses", ("finish_reason",), _plain(_truncated)),  # type: ignore[arg-type]
    Kind("KL to the reference (k3)", "nats", ("logp_theta", "logp_ref"), _tokens("kl_theta_ref_k3")),  # type: ignore[arg-type]
    Kind("rms log ratio", "nats", ("logp_theta", "logp_old"), _log_ratio),  # type: ignore[arg-type]
    Kind("sampler mismatch", "nats", ("logp_old", "logp_sampler"), _tokens("mismatch")),  # type: ignore[arg-type]
    Kind("entropy", "nats", ("entropy",), _tokens("entropy")),  # type: ignore[arg-type]
    Kind("log-prob of the samples", "nats", ("logp_old",), _tokens("logp_old")),  # type: ignore[arg-type]
)
CLIPPED = "clip-zeroed share"


def timeline_metrics(
    pair: Pair, objectives: tuple[Objective | None, Objective | None]
) -> tuple[list[Metric], list[Skipped]]:
    """Form every metric that both logs hold; the others with what they need."""
    metrics, unseen = [], []
    for kind in KINDS:
        lacking = pair.lacking(*kind.needs)
        tokens = any(need.startswith(("logp", "entropy")) for need in kind.needs)
        if not lacking and tokens and any(rows.facts is None for rows in pair.sides):
            lacking = "token lists"
        if lacking:
            unseen.append(Skipped(kind.name, lacking))
            continue
        a, b = (kind.of(rows) for rows in pair.sides)
        metrics.append(Metric(kind.name, kind.unit, (a[0], b[0]), (a[1], b[1]), (a[2], b[2])))
    _clipped(pair, objectives, metrics, unseen)
    return metrics, unseen


def _clipped(
    pair: Pair,
    objectives: tuple[Objective | None, Objective | None],
    metrics: list[Metric],
    unseen: list[Skipped],
) -> None:
    parts = []
    for rows, objective in zip(pair.sides, objectives, strict=True):
        if objective is None or rows.facts is None:
            unseen.append(Skipped(CLIPPED, f"an objective and token lists in {rows.run.run_id}"))
            return
        try:
            zeroed = weight_sums(rows, objective).zeroed
        except AuditError as error:
            unseen.append(Skipped(CLIPPED, str(error)))
            return
        parts.append((zeroed, rows.facts["loss_tokens"].astype(float), ~rows.greedy))
    a, b = parts
    metrics.append(Metric(CLIPPED, "of loss tokens", (a[0], b[0]), (a[1], b[1]), (a[2], b[2])))

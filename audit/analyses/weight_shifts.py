"""Where do two objectives put their weight? The same rollouts, by length, by difficulty and by sign."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import msgspec
import numpy as np

from audit.analyses.explain import Known, best_known
from audit.analyses.known_parts import with_loss_parts
from audit.analyses.length_bins import clusters
from audit.analyses.outcomes import first_pass
from audit.analyses.pair import Pair
from audit.analyses.rate_bins import EDGES, rate_bins
from audit.analyses.reward_weights import reward_weights, with_weights
from audit.analyses.samples import samples_of
from audit.analyses.skipped import Skipped
from audit.errors import AuditError
from audit.facts.budget import with_budget
from audit.facts.rows import RunRows
from audit.facts.weight_sums import weight_sums
from audit.objectives.needs import needs, without
from audit.objectives.objective import Objective
from audit.stats import Estimate, bootstrap, cluster_sums, estimate

PARTS = 10
"""Parts of the responses by length; fewer where many are equally long."""


class Shift(msgspec.Struct, frozen=True):
    """A part of the responses, and the share of the weight that each objective gives it."""

    name: str
    responses: float
    """Share of the responses."""
    a: Estimate
    b: Estimate
    moved: Estimate
    """Share under B minus share under A, with an interval that resamples prompts."""


class WeightShifts(msgspec.Struct, frozen=True):
    """Shares of Σ |weight| on the pooled rollouts of both runs."""

    by_length: list[Shift]
    by_difficulty: list[Shift]
    """By the success rate of the prompt, estimated without the response's own group."""
    by_sign: list[Shift]
    """Pushed up, pushed down; the sign that each objective itself gives."""
    on: list[str]
    n: int
    skipped: list[Skipped]
    schema: str = "rlaudit.weight_shifts.v1"


def shifts_between(of_a: Known, of_b: Known) -> WeightShifts:
    """Compare the objectives of two runs, as far as their logs show them, on the rollouts of both.

    Raises
    ------
    AuditError
        The objective of a run is not known, or no run can carry both.
    """
    objectives = (
        best_known(of_a.declared, of_a.inferred, of_b.declared),
        best_known(of_b.declared, of_b.inferred, of_a.declared),
    )
    weights = reward_weights(Pair(of_a.rows, of_b.rows))
    a, b = with_weights(with_loss_parts(objectives, (of_a.side, of_b.side)), weights)
    if a is None or b is None:
        lacking = [of.rows.run.run_id for of, known in ((of_a, a), (of_b, b)) if known is None]
        msg = f"a declared objective, or logged advantages, of {' and '.join(lacking)} would be needed."
        raise AuditError(msg)
    return weight_shifts([of_a.rows, of_b.rows], a, b)


def weight_shifts(runs: Sequence[RunRows], a: Objective, b: Objective) -> WeightShifts:
    """Weigh the responses of ``runs`` with both objectives, and compare where the weight falls.

    Raises
    ------
    AuditError
        No run can carry both objectives.

    Notes
    -----
    The weight of a response is |Σ_t w_t| of the policy part of its tokens' weights: tokens of one response
    share the sign of its advantage, so that this is Σ_t |w_t| unless advantages are given per token. Columns
    that one side cannot carry are taken out of both.
    """
    masses, lengths, rates, prompts, on = [], [], [], [], []
    skipped: list[Skipped] = []
    for rows in runs:
        try:
            sums = np.column_stack([weight_sums(rows, o).policy for o in _carried(rows, a, b, skipped)])
        except AuditError as error:
            skipped.append(Skipped.because(f"weights on {rows.run.run_id}", error))
            continue
        use = first_pass(rows) & np.isfinite(sums).all(axis=1)
        masses.append(sums[use])
        lengths.append(rows.length[use])
        rates.append(_rates(rows)[use])
        prompts.append(np.asarray(rows.table["prompt_id"].to_pylist(), dtype=object)[use].astype(str))
        on.append(rows.run.run_id)
    if not on:
        raise AuditError("; ".join(f"{skip.check} needs {skip.needs}" for skip in skipped) + ".")
    mass, length, rate = np.concatenate(masses), np.concatenate(lengths), np.concatenate(rates)
    prompt, _ = clusters(np.concatenate(prompts))
    names, code = _length_parts(length)
    by_length = _shifts(names, np.column_stack([code, code]), mass, prompt)
    if not by_length:
        skipped.append(Skipped("weight by length", "token_ids or length"))
    by_rate = _shifts(_RATES, np.column_stack([rate, rate]), mass, prompt)
    if not by_rate:
        skipped.append(
            Skipped("weight by difficulty", "prompts that come back, with right and wrong answers")
        )
    signs = np.where(mass > 0, 0, np.where(mass < 0, 1, -1))
    by_sign = _shifts(("pushed up", "pushed down"), signs, mass, prompt)
    return WeightShifts(by_length, by_rate, by_sign, on, len(mass), list(dict.fromkeys(skipped)))


_RATES = tuple(f"{100 * low:.0f}–{100 * high:.0f} %" for low, high in itertools.pairwise(EDGES))


def _carried(
    rows: RunRows, a: Objective, b: Objective, skipped: list[Skipped]
) -> tuple[Objective, Objective]:
    """Both objectives without the parts that this log cannot carry."""
    (a, _), (b, _) = with_budget(a, rows), with_budget(b, rows)
    for column, part in (needs(a) | needs(b)).items():
        if column not in rows.run.columns:
            skipped.append(Skipped(f"weight that {part} moves, on {rows.run.run_id}", column))
            a, b = without(a, part), without(b, part)
    return a, b


def _rates(rows: RunRows) -> np.ndarray:
    """Bin of the success rate of each row's prompt, int64, shape (R,); -1 where not known."""
    samples = samples_of(rows)
    if not samples.num_groups:
        return np.full(rows.num_rows, -1, dtype=np.int64)
    bins = rate_bins(samples)
    group = samples.group_of_row
    return np.where(group >= 0, bins[group], -1)


def _length_parts(length: np.ndarray) -> tuple[list[str], np.ndarray]:
    """Names of parts of about as many responses by length, and the part of each; -1 where not known."""
    known = np.isfinite(length)
    code = np.full(len(length), -1, dtype=np.int64)
    if not known.any():
        return [], code
    cuts = np.unique(np.quantile(length[known], np.arange(1, PARTS) / PARTS, method="inverted_cdf"))
    found = np.searchsorted(cuts, length[known], side="left")
    _, code[known] = np.unique(found, return_inverse=True)
    names = []
    for part in range(int(code.max()) + 1):
        inside = length[code == part]
        low, high = int(inside.min()), int(inside.max())
        names.append(f"{low}" if low == high else f"{low}–{high}")
    return names, code


def _shifts(names: Sequence[str], code: np.ndarray, mass: np.ndarray, prompt: np.ndarray) -> list[Shift]:
    """Compare shares; ``code`` and ``mass``, shape (R, 2): a column an objective, code -1 in no part."""
    count = len(names)
    use = (code >= 0).any(axis=1)
    if not count or not use.any():
        return []
    columns = np.zeros((int(use.sum()), 2 * count))
    at = np.arange(int(use.sum()))
    for side in (0, 1):
        held = code[use, side] >= 0
        columns[at[held], side * count + code[use, side][held]] = np.abs(mass[use, side][held])
    _, cluster = np.unique(prompt[use], return_inverse=True)
    n = int(use.sum())

    def shares(totals: np.ndarray) -> np.ndarray:
        a, b = totals[..., :count], totals[..., count:]
        with np.errstate(divide="ignore", invalid="ignore"):
            a, b = a / a.sum(axis=-1, keepdims=True), b / b.sum(axis=-1, keepdims=True)
        return np.concatenate([a, b, b - a], axis=-1)

    interval = bootstrap(cluster_sums(columns, cluster), shares)
    return [
        Shift(
            name=name,
            responses=float((code[use, 0] == place).mean()),
            a=estimate(interval, n, place),
            b=estimate(interval, n, count + place),
            moved=estimate(interval, n, 2 * count + place),
        )
        for place, name in enumerate(names)
        if (code[use] == place).any()
    ]

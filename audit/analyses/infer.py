"""Which objective made the logged advantages?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import msgspec
import numpy as np

from audit.analyses.infer_blocks import Centring, centring
from audit.analyses.infer_candidate import Candidate, candidate_of
from audit.analyses.infer_grid import EPSILONS, raw_singletons, usual
from audit.analyses.infer_problem import EXACT, ROUNDED, Problem, fitted, like
from audit.analyses.infer_readings import poisoned, regrouped
from audit.analyses.infer_stages import stages
from audit.analyses.infer_words import not_identifiable
from audit.analyses.row_copies import row_copies
from audit.errors import AuditError
from audit.facts.rows import RunRows
from audit.facts.weigh import coefficients_of
from audit.objectives.advantages import advantages
from audit.objectives.batch import Responses
from audit.objectives.coefficients import needs_token_pass
from audit.objectives.objective import Objective, Shaping

__all__ = ["EPSILONS", "EXACT", "Candidate", "Inference", "infer"]

SHOWN = 12
"""Rows of the residual table."""


class Inference(msgspec.Struct, frozen=True):
    """What the logged advantages say about the objective."""

    status: str
    """``fits``: a candidate reproduces them; ``none_fits``; ``skipped``: the log cannot say."""
    reason: str
    best: Candidate | None = None
    equivalent: list[Candidate] = []
    """Every candidate that fits as well as the best: what this log cannot tell apart."""
    declared_residual: float | None = None
    agrees: bool | None = None
    """Whether the declared objective reproduces the advantages; None where nothing was declared."""
    n: int = 0
    table: list[Candidate] = []
    """The candidates that come closest, the closest first; of each way, the epsilon that fits best."""
    tried: int = 0
    """Candidates with a residual; the rarer ones are tried only where no usual one fits."""
    not_identifiable: list[str] = []
    """The choices in which the equivalent candidates differ, in words."""
    same_groups: list[str] = []
    """Rules of grouping that give the groups of group_id: this log cannot tell them apart."""
    centring: Centring | None = None
    """Over which rows the advantages sum to 0."""


@np.errstate(over="ignore", invalid="ignore", divide="ignore")
def infer(rows: RunRows, declared: Objective | None) -> Inference:
    """Recompute the advantages under every candidate and name the ones that fit.

    Usual candidates: baseline × scale × ddof × epsilon, with the declared reward shaping. Only where none of
    them fits, nor the declared objective: other groupings, other rows in the statistics, rarer baselines and
    scales, KL and prices of length in the reward, other weights of the reward components.
    """
    logged = rows.logged_advantage
    if logged is None:
        return Inference(status="skipped", reason="needs column 'advantage'")
    use = ~rows.greedy & np.isfinite(logged) & np.isfinite(rows.numpy("reward"))
    n = int(use.sum())
    if n == 0 or not np.any(np.abs(logged[use]) > 0):
        return Inference(status="skipped", reason="every logged advantage is zero or missing", n=n)
    shaping = declared.shaping if declared is not None else Shaping()
    try:
        problem, copies = _problem(rows, logged, use, shaping)
        declared_residual = None
        found = list(_usual(problem))
        if declared is not None and declared.baseline.kind != "logged":
            declared_residual = problem.residual(_declared_advantage(rows, declared, copies))
            if declared_residual < _bar(problem, found) and not _fits(problem, found):
                found.append(candidate_of(declared, declared_residual))
        readings, same_groups = regrouped(rows, problem)
        for stage in stages(rows, problem, readings):
            if _fits(problem, found):
                break
            found += stage()
    except AuditError as error:
        # The declared shaping cannot be applied to this log: its components were not logged.
        return Inference(status="skipped", reason=str(error), n=n)
    return _concluded(problem, found, declared_residual, same_groups)


def _problem(
    rows: RunRows, logged: np.ndarray, use: np.ndarray, shaping: Shaping
) -> tuple[Problem, np.ndarray]:
    """The plain reading, and the rows that it leaves out: copies, which the trainer had once."""
    copies = row_copies(rows)
    problem = Problem(logged, rows.responses(Objective(shaping=shaping)), use, shaping)
    if copies is None or not copies.any():
        return problem, np.zeros(rows.num_rows, dtype=bool)
    return problem.read(use & ~copies, traits={}, sample_weight=_once(problem.responses, copies)), copies


def _once(responses: Responses, copies: np.ndarray) -> np.ndarray:
    weight = responses.sample_weight
    return np.where(copies, 0.0, 1.0 if weight is None else np.asarray(weight))


def _declared_advantage(rows: RunRows, declared: Objective, copies: np.ndarray) -> np.ndarray:
    aggregation = declared.aggregation
    if aggregation.kind.endswith("-norm") and aggregation.constant is None:
        # A budget that was not logged scales the loss; no advantage depends on it.
        declared = declared.replace(aggregation=msgspec.structs.replace(aggregation, constant=1.0))
    if not copies.any() or needs_token_pass(declared):
        return np.asarray(coefficients_of(rows, declared).advantage)
    responses = rows.responses(declared)
    weight = like(responses.reward, _once(responses, copies))
    return np.asarray(advantages(replace(responses, sample_weight=weight), declared))


def _concluded(
    problem: Problem, found: list[Candidate], declared_residual: float | None, same_groups: list[str]
) -> Inference:
    bar = _bar(problem, found)
    ranked = sorted(found, key=lambda c: (c.residual >= bar, c.oddities * (c.residual < bar), c.residual))
    if poisoned(problem):
        ranked = [msgspec.structs.replace(candidate, missing="poisons") for candidate in ranked]
    best = ranked[0]
    fits = best.residual < bar
    agrees = None
    if declared_residual is not None:
        agrees = declared_residual < max(bar, 1.5 * best.residual if fits else 0.0)
    ceiling = max(2.0 * best.residual, bar)
    equivalent = [c for c in ranked if c.residual <= ceiling] if fits else [best]
    return Inference(
        status="fits" if fits else "none_fits",
        reason=_reason(bar, fits=fits),
        best=best,
        equivalent=equivalent,
        declared_residual=declared_residual,
        agrees=agrees,
        n=int(problem.use.sum()),
        table=_closest(ranked),
        tried=len(found),
        not_identifiable=not_identifiable(equivalent),
        same_groups=same_groups,
        centring=centring(problem),
    )


def _reason(bar: float, *, fits: bool) -> str:
    if not fits:
        return "no candidate reproduces the logged advantages; the closest is named"
    coarse = f"the advantages were stored with a relative rounding of {bar / ROUNDED:.1g}"
    return coarse if bar > EXACT else ""


def _closest(ranked: list[Candidate]) -> list[Candidate]:
    shown: dict[str, Candidate] = {}
    for candidate in ranked:
        way = msgspec.structs.replace(candidate, epsilon=0.0, residual=0.0)
        shown.setdefault(msgspec.json.encode(way).decode(), candidate)
    return list(shown.values())[:SHOWN]


def _bar(problem: Problem, found: Iterable[Candidate]) -> float:
    """Misfit below which a candidate fits: of float32, or of coarser storage where nothing is as near."""
    exact = any(candidate.residual < EXACT for candidate in found)
    return EXACT if exact else max(EXACT, problem.rounding)


def _fits(problem: Problem, found: list[Candidate]) -> bool:
    bar = _bar(problem, found)
    return any(candidate.residual < bar for candidate in found)


def _usual(problem: Problem) -> Iterator[Candidate]:
    yield from fitted(problem, usual())
    if (np.bincount(problem.group[problem.use]) == 1).any():
        yield from fitted(problem, raw_singletons())

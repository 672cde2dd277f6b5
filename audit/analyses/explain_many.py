"""Why do several runs disagree? Distances of every pair, clusters, what splits them, and seed noise."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec
import numpy as np

from audit.analyses.distances import DistanceMatrix, pairs_of
from audit.analyses.effect import ObjectiveEffect, objective_effects
from audit.analyses.explain import Known, RunId, best_known, explain_known, known
from audit.analyses.many_verdict import ManyVerdict, decide_many
from audit.analyses.outcome_distance import outcome_distances
from audit.analyses.run_clusters import Cluster, clusters_of, comparable
from audit.analyses.run_distance import objective_distances
from audit.analyses.run_fields import Configuration, configurations, fields_of_runs
from audit.analyses.run_outcomes import RunOutcome, run_outcomes
from audit.analyses.run_parts import Unknown, filled, open_parts, unseen_of_runs, with_known_parts
from audit.analyses.run_splits import PairCause, Split, splits_of
from audit.analyses.seed_comparison import SeedComparison, Spread, seed_comparisons, spreads
from audit.analyses.skipped import Skipped
from audit.errors import AuditError
from audit.facts.rows import RunRows
from audit.logs import Run
from audit.logs.broken import BrokenRun
from audit.objectives.objective import Objective

MOST_RUNS = 50
"""More runs would be a page that nobody reads, and 1,225 distances."""
ALL_PAIRS = 6
"""Up to so many runs every pair is explained one by one; of more, medoids of clusters and runs in none."""
SAME_OBJECTIVE = 0.02
"""1 - cosine up to which runs are one cluster; heuristic."""
SAME_OUTCOME = 3.0
"""Standard deviations between seeds up to which outcomes are one cluster; heuristic."""


class ManyExplanation(msgspec.Struct, frozen=True):
    """The contract of ``rlaudit explain A B C … --json`` (schemas/explain_many.v1.schema.json)."""

    runs: list[RunId]
    configurations: list[Configuration]
    """Runs that differ in the seed alone."""
    objective: DistanceMatrix | None
    outcome: DistanceMatrix | None
    cut: float
    """1 - cosine at which the tree of objectives is cut; heuristic."""
    clusters: list[Cluster]
    splits: list[Split]
    outcome_cut: float
    """Standard deviations between seeds at which the tree of outcomes is cut; heuristic."""
    outcome_clusters: list[Cluster]
    outcomes: list[RunOutcome]
    spreads: list[Spread]
    comparisons: list[SeedComparison]
    pairs: list[PairCause]
    """Pairs that were explained one by one."""
    skipped: list[Skipped]
    left_out: list[BrokenRun]
    """Runs that were given and are not compared, with the reason."""
    verdict: ManyVerdict
    schema: str = "rlaudit.explain_many.v1"


def explain_many(runs: Sequence[Run], left_out: Sequence[BrokenRun] = ()) -> ManyExplanation:
    """Compare several runs; each is read once.

    Parameters
    ----------
    runs : sequence of Run
        Three or more, each once. Runs of one id are told apart by their paths.
    left_out
        What was given beside them and could not be used.

    Raises
    ------
    AuditError
        A log cannot be read, there are more than :data:`MOST_RUNS`, or nothing can be compared.
    """
    if len(runs) > MOST_RUNS:
        msg = (
            f"explain compares up to {MOST_RUNS} runs; {len(runs)} were given. "
            "Name fewer of them, or a directory that holds fewer."
        )
        raise AuditError(msg)
    labels = labels_of(runs)
    sides = [known(run) for run in runs]
    rows = [side.rows for side in sides]
    parts = [one.side for one in sides]
    objectives, unknown = with_known_parts(
        [best_known(one.declared, one.inferred, None) for one in sides], parts
    )
    still_open = open_parts(parts, unknown)
    fields = fields_of_runs(runs, objectives, unknown)
    groups = configurations(labels, sides, fields)
    skipped = [
        Skipped(f"rows of {label} in {s.path.name}", f"a readable file of rollouts ({s.reason})")
        for label, run in zip(labels, runs, strict=True)
        for s in run.skipped
    ]
    angle, missing = objective_distances(labels, rows, objectives, unknown)
    skipped += missing
    outcomes, metrics, missing = run_outcomes(labels, rows)
    skipped += missing
    if angle is None and not metrics:
        needs = "; ".join(f"{s.check} needs {s.needs}" for s in skipped)
        msg = f"these {len(runs)} runs have nothing in common that can be compared: {needs}."
        raise AuditError(msg)
    apart, missing = outcome_distances(labels, rows, outcomes, metrics, groups)
    skipped += missing
    clusters, forks = clusters_of(angle, SAME_OBJECTIVE) if angle is not None else ([], [])
    pairs = _pairs(labels, sides, clusters)
    by_label = dict(zip(labels, zip(objectives, unknown, strict=True), strict=True))
    carriers = [] if angle is None else [rows[labels.index(run)] for run in angle.on]
    splits = splits_of(
        forks,
        dict(zip(labels, fields, strict=True)),
        lambda side: _medoid(angle, side),
        lambda a, b: _effect(by_label[a], by_label[b], carriers),
        pairs,
    )
    comparisons = seed_comparisons(outcomes, metrics, groups)
    return ManyExplanation(
        runs=[
            RunId(label, r.num_rows, len(np.unique(r.step)), r.run.tier, r.run.format)
            for label, r in zip(labels, rows, strict=True)
        ],
        configurations=groups,
        objective=angle,
        outcome=apart,
        cut=SAME_OBJECTIVE,
        clusters=clusters,
        splits=splits,
        outcome_cut=SAME_OUTCOME,
        outcome_clusters=[] if apart is None else clusters_of(apart, SAME_OUTCOME)[0],
        outcomes=outcomes,
        spreads=spreads(outcomes, metrics, groups),
        comparisons=comparisons,
        pairs=pairs,
        skipped=list(dict.fromkeys(skipped)),
        left_out=list(left_out),
        verdict=decide_many(
            groups,
            None if angle is None else clusters,
            splits,
            comparisons,
            blocks=[] if angle is None else comparable(angle),
            unknown=dict(zip(labels, still_open, strict=True)),
            not_identifiable=unseen_of_runs(labels, parts, still_open),
        ),
    )


def labels_of(runs: Sequence[Run]) -> list[str]:
    """Names that tell the runs apart: the run id, with as much of the path before it as that takes."""
    often = Counter(run.run_id for run in runs)
    labels = []
    for run in runs:
        twins = [other for other in runs if other.run_id == run.run_id]
        if often[run.run_id] == 1:
            labels.append(run.run_id)
            continue
        parts, depth = run.path.resolve().parts, 1
        while depth < len(parts) and sum(_tail(other, depth) == _tail(run, depth) for other in twins) > 1:
            depth += 1
        labels.append(f"{run.run_id} ({'/'.join(_tail(run, depth))})")
    return labels


def _tail(run: Run, depth: int) -> tuple[str, ...]:
    return run.path.resolve().parts[-depth:]


def _pairs(labels: Sequence[str], sides: Sequence[Known], clusters: Sequence[Cluster]) -> list[PairCause]:
    """Explain every pair of a few runs; of many, every pair of medoids and of runs in no cluster."""
    chosen = list(range(len(labels)))
    if len(labels) > ALL_PAIRS:
        clustered = {run for cluster in clusters for run in cluster.runs}
        medoids = [labels.index(cluster.medoid) for cluster in clusters]
        alone = [at for at, label in enumerate(labels) if label not in clustered]
        chosen = sorted([*medoids, *alone][:ALL_PAIRS])
    made = []
    for i, j in pairs_of(len(chosen)):
        a, b = chosen[i], chosen[j]
        verdict = explain_known(sides[a], sides[b]).verdict
        first = verdict.causes[0] if verdict.causes else None
        made.append(
            PairCause(
                labels[a],
                labels[b],
                [cause.id for cause in verdict.causes],
                None if first is None else first.share,
                None if first is None else first.confidence,
                verdict.text,
                [unseen.cause for unseen in verdict.not_identifiable],
            )
        )
    return made


def _medoid(matrix: DistanceMatrix | None, side: Sequence[str]) -> str:
    assert matrix is not None
    at = [matrix.runs.index(run) for run in side]
    return side[int(matrix.array()[np.ix_(at, at)].sum(axis=1).argmin())]


def _effect(
    of_a: tuple[Objective | None, Unknown], of_b: tuple[Objective | None, Unknown], carriers: list[RunRows]
) -> ObjectiveEffect | None:
    """The effect of two objectives on the rollouts that the matrix is of."""
    (one, unknown_a), (other, unknown_b) = of_a, of_b
    if one is None or other is None:
        return None
    effects, _ = objective_effects(carriers, *filled(one, other, (unknown_a, unknown_b)))
    return max(effects, key=lambda effect: (len(effect.parts), len(effect.on)), default=None)

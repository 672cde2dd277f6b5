"""How far apart the objectives of several runs push the same rollouts: 1 - cosine of every pair."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from audit.analyses.distances import DistanceMatrix, pairs_of, squared
from audit.analyses.known_parts import on_policy
from audit.analyses.run_parts import Unknown, in_order, listed
from audit.analyses.skipped import Skipped
from audit.errors import AuditError
from audit.facts.budget import with_budget
from audit.facts.rows import RunRows
from audit.facts.weight_sums import inner_products
from audit.objectives.needs import needs, without
from audit.objectives.objective import Filter, Objective
from audit.stats import bootstrap, cluster_sums


def objective_distances(
    labels: Sequence[str],
    runs: Sequence[RunRows],
    objectives: Sequence[Objective | None],
    unknown: Sequence[Unknown] = (),
) -> tuple[DistanceMatrix | None, list[Skipped]]:
    """Apply the objective of every run to the pooled rollouts, and measure the angles between the weights.

    Rollouts are those of the runs whose logs carry every objective; where none does, of those that carry the
    most parts, and what they lack is taken out of all objectives alike. Runs are held against each other only
    where the same parts are known of them: a default that stands for an unknown part is no difference.

    Parameters
    ----------
    labels, runs, objectives : sequences of length N
        An objective is None where neither run.json nor the log gives it.
    unknown : sequence of length N, or empty
        Parts that a run neither declares nor shows; empty: every part of every run is known.

    Returns
    -------
    matrix : DistanceMatrix or None
        None where no two objectives can be held against each other, or no log can carry them.
    skipped : list of Skipped
    """
    skipped = [
        Skipped(f"objective distance of {label}", "a declared objective, or logged advantages")
        for label, objective in zip(labels, objectives, strict=True)
        if objective is None
    ]
    known = [objective for objective in objectives if objective is not None]
    if len(known) < 2:
        return None, skipped
    lacking = [_lacking(rows, known) for rows in runs]
    usable = [at for at, rows in enumerate(runs) if rows.facts is not None and rows.num_rows]
    if not usable:
        return None, [*skipped, Skipped("objective distances", "token_ids, or length in tokens")]
    least = min((lacking[at] for at in usable), key=lambda parts: (len(parts), sorted(parts)))
    carriers = [at for at in usable if lacking[at] <= least]
    skipped += [Skipped(f"objective distances of {part}", column) for column, part in sorted(least)]
    skipped += [
        Skipped(f"objective distances on {labels[at]}", _columns(lacking[at] - least))
        for at in usable
        if at not in carriers
    ]
    left_out = {part for _, part in least}
    idle = left_out | _idle(known, [runs[at] for at in carriers], left_out)
    plain = all(objective.filter == Filter() for objective in known)
    lacks = [
        # What a run masked is in its mask.
        parts - idle - ({"filter"} if plain and rows.has("loss_mask") else set())
        for parts, rows in zip(unknown or [frozenset()] * len(runs), runs, strict=True)
    ]
    blocks_of = _blocks(objectives, lacks)
    skipped += _apart(labels, objectives, blocks_of)
    objectives = [
        objective if len(blocks_of[lack]) > 1 else None
        for objective, lack in zip(objectives, lacks, strict=True)
    ]
    if all(objective is None for objective in objectives):
        return None, skipped
    kinds, index = _distinct(objectives, left_out)
    blocks, prompts, used, n = [], [], [], 0
    for at in carriers:
        try:
            sums, names, count = _gram(runs[at], kinds)
        except AuditError as error:
            skipped.append(Skipped.because(f"objective distances on {labels[at]}", error))
            continue
        blocks.append(sums)
        prompts.append(names)
        used.append(labels[at])
        n += count
    if not blocks:
        return None, skipped
    _, codes = np.unique(np.concatenate(prompts), return_inverse=True)
    sums = cluster_sums(np.vstack(blocks), codes)
    interval = bootstrap(sums, lambda totals: cosine_distances(totals, len(kinds)))
    matrix = DistanceMatrix(
        measure="1 - cosine of the token weights",
        unit="0 same direction, 1 orthogonal",
        runs=list(labels),
        values=[
            [cell if lacks[i] == lacks[j] else None for j, cell in enumerate(row)]
            for i, row in enumerate(squared(interval, n, index))
        ],
        on=used,
        n=n,
        note=_note(labels, blocks_of),
    )
    return matrix, skipped


def cosine_distances(totals: np.ndarray, kinds: int) -> np.ndarray:
    """1 - cosine of every pair of K weight vectors.

    Parameters
    ----------
    totals : ndarray, shape (..., K (K + 1) / 2)
        Inner products: the K squared norms, then every pair in the order of :func:`pairs_of`.

    Returns
    -------
    ndarray, shape (..., K (K - 1) / 2)
        NaN where a vector is zero.
    """
    pairs = np.array(pairs_of(kinds), dtype=np.int64).reshape(-1, 2)
    with np.errstate(divide="ignore", invalid="ignore"):
        norms = np.sqrt(totals[..., pairs[:, 0]] * totals[..., pairs[:, 1]])
        return np.asarray(1.0 - np.clip(totals[..., kinds:] / norms, -1.0, 1.0))


def _idle(known: Sequence[Objective], carriers: Sequence[RunRows], left_out: set[str]) -> set[str]:
    """Parts that do nothing on these rollouts, whatever they are."""
    idle: set[str] = set()
    if "ratio" in left_out or all(on_policy(rows) for rows in carriers):
        idle |= {"ratio", "clip"}
    if not any(objective.kl.loss for objective in known) and not any(map(_has_reference, carriers)):
        idle.add("kl")
    return idle


def _has_reference(rows: RunRows) -> bool:
    return rows.has("logp_ref")


def _blocks(objectives: Sequence[Objective | None], lacks: Sequence[Unknown]) -> dict[Unknown, list[int]]:
    """Runs of which the same parts are unknown, those that lack least first."""
    blocks: dict[Unknown, list[int]] = {
        lack: [] for lack in sorted(set(lacks), key=lambda parts: (len(parts), sorted(parts)))
    }
    for at, (objective, lack) in enumerate(zip(objectives, lacks, strict=True)):
        if objective is not None:
            blocks[lack].append(at)
    return blocks


def _apart(
    labels: Sequence[str], objectives: Sequence[Objective | None], blocks: dict[Unknown, list[int]]
) -> list[Skipped]:
    """Why runs of different blocks have no distance."""
    count = sum(objective is not None for objective in objectives)
    return [
        Skipped(
            f"objective distances of {listed([labels[at] for at in block])} to the other runs",
            f"{', '.join(in_order(lack))} of their objectives, declared or shown by logged losses",
        )
        for lack, block in blocks.items()
        if lack and block and len(block) < count
    ]


def _note(labels: Sequence[str], blocks: dict[Unknown, list[int]]) -> str:
    """What the distances of runs with unknown parts leave out."""
    return " ".join(
        f"Between {listed([labels[at] for at in block])}: without {', '.join(in_order(lack))}, "
        "which are not known of them."
        for lack, block in blocks.items()
        if lack and len(block) > 1
    )


def _lacking(rows: RunRows, objectives: Sequence[Objective]) -> frozenset[tuple[str, str]]:
    """(column, part) that the objectives need and a log does not have."""
    wanted = {pair for objective in objectives for pair in needs(objective).items()}
    return frozenset(pair for pair in wanted if pair[0] not in rows.run.columns)


def _columns(lacking: frozenset[tuple[str, str]]) -> str:
    return ", ".join(sorted({column for column, _ in lacking}))


def _distinct(
    objectives: Sequence[Objective | None], left_out: set[str]
) -> tuple[list[Objective], list[int | None]]:
    """The different objectives without the parts left out, and the place of each run's among them."""
    kinds: list[Objective] = []
    index: list[int | None] = []
    for given in objectives:
        if given is None:
            index.append(None)
            continue
        kind = given.replace(name="")
        for part in sorted(left_out):
            kind = without(kind, part)
        if kind not in kinds:
            kinds.append(kind)
        index.append(kinds.index(kind))
    return kinds, index


def _gram(rows: RunRows, kinds: Sequence[Objective]) -> tuple[np.ndarray, np.ndarray, int]:
    """Inner products of every two weight vectors, summed per prompt; names of the prompts; responses."""
    applied = [with_budget(objective, rows)[0] for objective in kinds]
    pairs = [(objective, objective) for objective in applied]
    pairs += [(applied[i], applied[j]) for i, j in pairs_of(len(applied))]
    products = inner_products(rows, pairs)
    finite = np.isfinite(products).all(axis=1)
    sums = cluster_sums(np.where(finite[:, None], products, 0.0), rows.prompt)
    ids = rows.table["prompt_id"].to_pylist()
    first = np.unique(rows.prompt, return_index=True)[1]
    return sums, np.array([str(ids[at]) for at in first]), int(finite.sum())

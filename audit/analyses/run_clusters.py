"""Clusters of runs: average linkage on a matrix of distances, cut at a stated height."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from audit.analyses.distances import DistanceMatrix


class Cluster(msgspec.Struct, frozen=True):
    """Runs that lie closer to each other than the cut."""

    name: str
    """``cluster 1``, … by the least name of a run, whatever the order of the arguments."""
    runs: list[str]
    medoid: str
    """The run whose distances to the others of its cluster sum to the least."""


class Fork(NamedTuple):
    """Where the tree of runs parts above the cut."""

    height: float
    """Mean distance between the two sides."""
    left: list[str]
    right: list[str]


def clusters_of(matrix: DistanceMatrix, cut: float) -> tuple[list[Cluster], list[Fork]]:
    """Cluster the runs of a matrix; runs that cannot be compared are in none.

    Average linkage (UPGMA, :func:`scipy.cluster.hierarchy.linkage`). Runs are taken in the order of their
    names, so that ties do not depend on the order of the arguments.

    Parameters
    ----------
    matrix : DistanceMatrix
    cut : float
        Runs whose mean distance is at most this are one cluster, in the unit of the matrix.

    Returns
    -------
    clusters : list of Cluster
    forks : list of Fork
        From the root of the tree down.
    """
    from scipy.cluster.hierarchy import fcluster, linkage
    from scipy.spatial.distance import squareform

    distance = matrix.array()
    known = ~np.isnan(distance).all(axis=1)
    at = sorted(np.flatnonzero(known).tolist(), key=lambda i: matrix.runs[i])
    names, distance = [matrix.runs[i] for i in at], np.nan_to_num(distance[np.ix_(at, at)], nan=np.inf)
    if len(at) < 2 or not np.isfinite(distance).all():
        return [Cluster(f"cluster {k}", [name], name) for k, name in enumerate(names, start=1)], []
    tree = linkage(squareform(distance, checks=False), method="average")
    labels = fcluster(tree, cut, criterion="distance")
    members: dict[int, list[int]] = {}
    for run, label in enumerate(labels.tolist()):
        members.setdefault(label, []).append(run)
    clusters = [
        Cluster(
            name=f"cluster {number}",
            runs=[names[i] for i in group],
            medoid=names[group[int(distance[np.ix_(group, group)].sum(axis=1).argmin())]],
        )
        for number, group in enumerate(sorted(members.values()), start=1)
    ]
    return clusters, list(_forks(tree, names, cut))


def _forks(tree: np.ndarray, names: Sequence[str], cut: float) -> Iterator[Fork]:
    """Merges above the cut, the highest first; the side with the least name is the left one."""
    groups: list[list[str]] = [[name] for name in names]
    merges = []
    for left, right, height, _ in tree.tolist():
        sides = sorted([sorted(groups[int(left)]), sorted(groups[int(right)])])
        groups.append(sides[0] + sides[1])
        merges.append(Fork(float(height), *sides))
    yield from (fork for fork in reversed(merges) if fork.height > cut)

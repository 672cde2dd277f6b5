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
    """Cluster the runs of a matrix, among those that have distances; runs without any are in none.

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
        The highest first.
    """
    from scipy.cluster.hierarchy import fcluster, linkage
    from scipy.spatial.distance import squareform

    distance = matrix.array()
    groups: list[list[str]] = []
    forks: list[Fork] = []
    for names in comparable(matrix):
        if len(names) == 1:
            groups.append(names)
            continue
        at = [matrix.runs.index(name) for name in names]
        tree = linkage(squareform(distance[np.ix_(at, at)], checks=False), method="average")
        members: dict[int, list[str]] = {}
        for name, label in zip(names, fcluster(tree, cut, criterion="distance").tolist(), strict=True):
            members.setdefault(label, []).append(name)
        groups += members.values()
        forks += _forks(tree, names, cut)
    clusters = [
        Cluster(f"cluster {number}", group, _medoid(matrix, distance, group))
        for number, group in enumerate(sorted(groups), start=1)
    ]
    return clusters, sorted(forks, key=lambda fork: -fork.height)


def comparable(matrix: DistanceMatrix) -> list[list[str]]:
    """Sets of runs that have a distance to each other, by name; a run without any distance is in none."""
    finite = np.isfinite(matrix.array())
    left = sorted(np.flatnonzero(finite.any(axis=1)).tolist(), key=lambda i: matrix.runs[i])
    found: list[list[int]] = []
    for i in left:
        held = next((block for block in found if finite[i, block].all()), None)
        if held is None:
            found.append([i])
        else:
            held.append(i)
    return [[matrix.runs[i] for i in block] for block in found]


def _medoid(matrix: DistanceMatrix, distance: np.ndarray, group: Sequence[str]) -> str:
    at = [matrix.runs.index(name) for name in group]
    return group[int(distance[np.ix_(at, at)].sum(axis=1).argmin())]


def _forks(tree: np.ndarray, names: Sequence[str], cut: float) -> Iterator[Fork]:
    """Merges above the cut, the highest first; the side with the least name is the left one."""
    groups: list[list[str]] = [[name] for name in names]
    merges = []
    for left, right, height, _ in tree.tolist():
        sides = sorted([sorted(groups[int(left)]), sorted(groups[int(right)])])
        groups.append(sides[0] + sides[1])
        merges.append(Fork(float(height), *sides))
    yield from (fork for fork in reversed(merges) if fork.height > cut)

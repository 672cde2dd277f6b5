"""Other ways to read a log: which rows make a group, which rows count, what a null reward is worth."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from audit.analyses.infer_candidate import FIRST
from audit.analyses.infer_problem import Problem
from audit.facts.rows import RunRows, dense
from audit.logs.arrays import to_numpy
from audit.objectives.objective import Shaping


def groupings(rows: RunRows, problem: Problem) -> dict[str, np.ndarray]:
    """Name → code of the rows that share a baseline, int64, shape (R,), for every rule but group_id."""
    batch = problem.batch
    made = {}
    if rows.has("prompt_id"):
        made["prompt_id in a batch"] = dense(rows.prompt, batch)
    made["whole steps"] = dense(rows.step, rows.epoch)
    if not rows.table["micro_batch"].null_count:
        made["micro-batches"] = np.asarray(problem.responses.micro_batch)
    if rows.has("trajectory_id"):
        made["trajectory_id"] = dense(_column(rows, "trajectory_id"), batch)
    size = group_size(rows, problem)
    place, count = _places(batch)
    for width in dict.fromkeys((size, 2 * size, size // 2)):
        if width > 1:
            made[f"blocks of {width} rows in logged order"] = dense(batch, place // width)
            strides = np.maximum(count // width, 1)
            made[f"every n-th row of a batch, {width} apiece"] = dense(batch, place % strides)
    return made


def group_size(rows: RunRows, problem: Problem) -> int:
    """The declared size of a group, else the most frequent."""
    sizes = np.bincount(problem.group)
    typical = int(np.bincount(sizes[sizes > 0]).argmax()) if len(sizes) else 0
    return rows.run.manifest.group_size or typical


def batches(rows: RunRows, problem: Problem) -> np.ndarray:
    """Code of the batch of each row whatever its inner pass: the first of its group; int64, shape (R,)."""
    if not rows.grouped.any():
        return problem.batch
    group = _column(rows, "group_id")
    first = np.full(int(group.max(initial=-1)) + 1, np.iinfo(np.int64).max)
    np.minimum.at(first, group, problem.batch)
    return dense(first[group])


def _column(rows: RunRows, name: str) -> np.ndarray:
    """Code of each string of a column, null among them, int64, shape (R,)."""
    encoded = rows.table[name].combine_chunks().dictionary_encode(null_encoding="encode")
    return to_numpy(encoded.indices).astype(np.int64)


def _places(batch: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Place of a row among those of its batch, in file order, and how many those are; shape (R,)."""
    order = np.argsort(batch, kind="stable")
    count = np.bincount(batch)
    place = np.empty(len(batch), dtype=np.int64)
    place[order] = np.arange(len(batch)) - np.repeat(np.cumsum(count) - count, count)
    return place, count[batch]


def same_partition(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two codes, shape (R,), put the same rows together."""
    pairs = int(dense(a, b).max(initial=-1))
    return pairs == int(dense(a).max(initial=-1)) == int(dense(b).max(initial=-1))


def regrouped(rows: RunRows, problem: Problem) -> tuple[list[Problem], list[str]]:
    """Readings with another grouping, and the rules that give the groups of group_id."""
    readings: list[Problem] = []
    codes = [problem.group]
    same = []
    for name, code in groupings(rows, problem).items():
        if same_partition(code, problem.group):
            same.append(name)
        elif not any(same_partition(code, other) for other in codes[1:]):
            codes.append(code)
            readings.append(problem.read(traits={"grouping": name}, group=code))
    if problem.responses.sample_weight is not None:
        apiece = np.ones(len(problem.logged))
        readings.append(
            problem.read(
                traits={"grouping": "group_id, with every row of a trajectory"}, sample_weight=apiece
            )
        )
    return readings, same


def recounted(rows: RunRows, problem: Problem) -> Iterator[Problem]:
    """Readings in which other rows enter the statistics, or the reward is taken as it stands."""
    yield from _missing(problem)
    weight = problem.responses.sample_weight
    weight = np.ones(len(problem.logged)) if weight is None else np.asarray(weight)
    for name, out in _uncounted(rows, problem).items():
        if out[problem.use].any() and not out[problem.use].all():
            yield problem.read(
                problem.use & ~out, traits={"not_counted": name}, sample_weight=np.where(out, 0.0, weight)
            )
    if problem.shaping != Shaping():
        plain = problem.read(traits={"shaped": False})
        yield Problem(plain.logged, plain.responses, plain.use, Shaping(), plain.traits)


def _missing(problem: Problem) -> Iterator[Problem]:
    null = np.isnan(problem.reward) & np.asarray(problem.responses.trained)
    if not null.any():
        return
    known = np.isfinite(problem.logged)
    with_null = np.bincount(problem.group, weights=null)[problem.group] > 0
    zero = np.where(null, 0.0, problem.reward)
    yield problem.read((problem.use | null) & known, traits={"missing": "0"}, reward=zero)
    none = np.where(with_null, np.nan, problem.reward)
    yield problem.read((problem.use | null) & known, traits={"missing": "poisons"}, reward=none)


def _uncounted(rows: RunRows, problem: Problem) -> dict[str, np.ndarray]:
    made = {"responses without loss tokens": np.asarray(problem.responses.loss_tokens) == 0}
    if rows.truncated is not None:
        made["truncated responses"] = rows.truncated
        reasons = rows.table["finish_reason"].combine_chunks().dictionary_encode(null_encoding="encode")
        aborted = np.array([reason == "abort" for reason in reasons.dictionary.to_pylist()], dtype=bool)
        made["aborted responses"] = aborted[np.asarray(reasons.indices)]
    return made


def poisoned(problem: Problem) -> bool:
    """Whether every group with a null reward has no finite advantage other than 0, and others have."""
    trained = np.asarray(problem.responses.trained)
    null = np.isnan(problem.reward) & trained
    beside = (np.bincount(problem.group, weights=null)[problem.group] > 0) & trained & ~null
    some = np.isfinite(problem.logged) & (problem.logged != 0)
    return bool(beside.any() and not some[beside].any() and some[trained & ~beside].any())


def against_first(rows: RunRows, problem: Problem) -> Problem:
    """Reading in which the reward of a group's first response is taken off; for baseline ``none``."""
    order = np.lexsort((np.nan_to_num(rows.numpy("sample_index"), nan=np.inf), problem.group))
    _, at = np.unique(problem.group[order], return_index=True)
    return problem.read(
        traits={"baseline": FIRST}, reward=problem.reward - problem.reward[order[at]][problem.group]
    )

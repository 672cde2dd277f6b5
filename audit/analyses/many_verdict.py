"""What a comparison of several runs comes to, in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from audit.analyses.findings import Unseen
from audit.analyses.run_clusters import Cluster
from audit.analyses.run_fields import Configuration
from audit.analyses.run_parts import Unknown, listed, unknown_in_words
from audit.analyses.run_splits import Split
from audit.analyses.seed_comparison import ENOUGH_SEEDS, SeedComparison
from audit.analyses.verdict import SMALL_SHARE

_TOLD = 3
"""Splits, parts of a split, and comparisons that the text names; the report holds all."""


class ManyVerdict(msgspec.Struct, frozen=True):
    """The same in words."""

    text: str
    preliminary: bool
    """A configuration has fewer than three seeds, so that its outcomes are not held against seed noise."""
    not_identifiable: list[Unseen] = []
    """Parts of the objective that runs neither declare nor show, with these runs and what would show them."""


def decide_many(
    groups: Sequence[Configuration],
    clusters: Sequence[Cluster] | None,
    splits: Sequence[Split],
    comparisons: Sequence[SeedComparison],
    *,
    blocks: Sequence[Sequence[str]],
    unknown: Mapping[str, Unknown],
    not_identifiable: Sequence[Unseen] = (),
) -> ManyVerdict:
    """Put clusters, splits and comparisons between seeds into words.

    ``clusters`` is None where the objectives could not be held against each other. ``blocks`` are the runs
    that have distances to each other, ``unknown`` the parts that each run neither declares nor shows.
    """
    runs = sum(len(group.runs) for group in groups)
    counted = f"{runs} runs of {len(groups)} configuration{'s' if len(groups) != 1 else ''}. "
    few = [group.name for group in groups if len(group.runs) < ENOUGH_SEEDS]
    text = counted + _objectives(clusters, blocks, splits, unknown)
    if unidentified := unknown_in_words(unknown):
        text += f" Not identifiable from these logs: {unidentified}."
    text += _outcomes(groups, comparisons)
    if few:
        named = ", ".join(few[:_TOLD]) + (f" and {len(few) - _TOLD} more" if len(few) > _TOLD else "")
        text += f" Preliminary: fewer than {ENOUGH_SEEDS} seeds of {named}."
    return ManyVerdict(text, bool(few), list(not_identifiable))


def _objectives(
    clusters: Sequence[Cluster] | None,
    blocks: Sequence[Sequence[str]],
    splits: Sequence[Split],
    unknown: Mapping[str, Unknown],
) -> str:
    held = sorted((block for block in blocks if len(block) > 1), key=lambda block: len(unknown[block[0]]))
    if clusters is None or not held:
        return "Their objectives cannot be compared."
    told = []
    for block in held:
        whose = "Their objectives" if len(block) == len(unknown) else f"The objectives of {listed(block)}"
        if any(unknown[run] for run in block):
            whose += ", as far as they are known,"
        of_block = [cluster for cluster in clusters if set(cluster.runs) <= set(block)]
        told.append(_objective(whose, of_block, [split for split in splits if set(split.left) <= set(block)]))
    if len(held) > 1:
        told.append("These sets cannot be compared with each other.")
    if left := [run for run in unknown if not any(run in block for block in held)]:
        told.append(f"The objective of {listed(left)} cannot be compared with any of these.")
    return " ".join(told)


def _objective(whose: str, clusters: Sequence[Cluster], splits: Sequence[Split]) -> str:
    if len(clusters) < 2:
        return f"{whose} push the same tokens one way."
    told = [
        f"{_side(split.right)} from {_side(split.left)} by {why}" for split in splits if (why := _why(split))
    ]
    more = f"; and {len(told) - _TOLD} more" if len(told) > _TOLD else ""
    parted = f": {'; '.join(told[:_TOLD])}{more}" if told else ""
    return f"{whose} form {len(clusters)} clusters{parted}."


def _why(split: Split) -> str:
    """Parts by their shares; else fields, else causes; empty where nothing separates the sides."""
    shares = {f.part: f.share.value for f in split.fields if f.share is not None and f.share.value}
    parts = [f"{part} {share:.0%}" for part, share in shares.items() if abs(share) >= SMALL_SHARE]
    names = parts or [field.field for field in split.fields] or split.causes
    return ", ".join(names[:_TOLD])


def _side(runs: Sequence[str]) -> str:
    return runs[0] if len(runs) == 1 else f"{runs[0]} and {len(runs) - 1} more"


def _outcomes(groups: Sequence[Configuration], comparisons: Sequence[SeedComparison]) -> str:
    if len(groups) < 2:
        return " They differ in the seed alone."
    tested = sum(c.p is not None for c in comparisons)
    if not tested:
        return " No configuration has two seeds, so no difference in outcome can be told from seed noise."
    apart = sorted((c for c in comparisons if c.apart), key=lambda c: c.adjusted_p or 0.0)
    if not apart:
        return f" Outcomes: nothing beyond seed noise in {tested} comparison{'s' if tested != 1 else ''}."
    told = [f"{c.metric} {c.mean_a:.3g} in {c.a} against {c.mean_b:.3g} in {c.b}" for c in apart[:_TOLD]]
    more = f"; and {len(apart) - _TOLD} more" if len(apart) > _TOLD else ""
    return f" Beyond seed noise: {'; '.join(told)}{more}, of {tested} compared."

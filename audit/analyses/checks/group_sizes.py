"""Groups of one response, and groups that swallowed others."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from audit.analyses.checks.look import Entry, Group, Look, listed, problem
from audit.analyses.samples import trajectories
from audit.facts.rows import dense
from audit.schema import Problem

USUAL = 0.25
"""Steps with a prompt in two groups are the exception below this share, and named; heuristic."""


def _find(look: Look) -> Iterator[Problem]:
    sizes = _samples(look)
    yield from _singletons(look, sizes)
    yield from _merged(look, sizes)
    yield from _twice(look)


def _samples(look: Look) -> Group:
    """Groups whose rows are one a sample: the first of each trajectory."""
    use = look.grouped & np.isfinite(look.reward)
    _, first = np.unique(dense(look.rows.sample[use], trajectories(look.rows)[use]), return_index=True)
    one = np.zeros(look.rows.num_rows, dtype=bool)
    one[np.flatnonzero(use)[first]] = True
    return Group(look.rows.sample, one)


def _singletons(look: Look, groups: Group) -> Iterator[Problem]:
    declared = look.declared
    alone = groups.size == 1
    if not alone.any() or (
        declared is not None and declared.baseline.kind not in ("group_mean", "leave_one_out")
    ):
        return
    rows = Group(look.rows.sample, look.grouped & np.isfinite(look.reward))
    marked = rows.rows(alone)
    said = (
        f"{int(alone.sum())} of {groups.count} groups have one response: no baseline can be formed in them."
    )
    advantage = look.rows.logged_advantage
    raw = False
    if advantage is not None:
        same = np.isclose(advantage[marked], look.reward[marked], rtol=1e-5, atol=1e-6)
        raw = bool(same.all())
        if same.any() and (raw or not np.allclose(look.reward[marked][same], 0.0)):
            number = "Their" if raw else f"In {int(same.sum())} of them the"
            said += f" {number} advantage is the raw reward."
        elif np.allclose(advantage[marked], 0.0):
            said += " Their advantage is 0."
    said += _by_prompt(look, groups.use)
    yield problem(
        look,
        "group.singleton",
        marked,
        said,
        "error" if raw else "warning",
        column="group_id",
        hint="A group key that is new for every response is the usual cause: group by prompt_id.",
    )


def _by_prompt(look: Look, use: np.ndarray) -> str:
    other = Group(dense(look.rows.step, look.rows.prompt), use)
    typical = int(np.bincount(other.size).argmax())
    if typical < 2:
        return ""
    return f" Grouping by prompt_id within a step gives {other.count} groups, most of them of {typical}."


def _merged(look: Look, groups: Group) -> Iterator[Problem]:
    """Groups of a multiple of the usual size."""
    if not groups.count:
        return
    usual = look.run.manifest.group_size or int(np.bincount(groups.size).argmax())
    large = (groups.size >= 2 * usual) & (groups.size % max(usual, 1) == 0)
    if usual < 2 or not large.any():
        return
    marked = groups.rows(large)
    sizes = listed(np.unique(groups.size[large]).tolist())
    prompts = groups.spans(look.rows.prompt.astype(float)) > 0
    mixed = int((large & prompts).sum())
    inside = (
        f"{mixed} of them mix several prompts" if mixed else "each holds one prompt, drawn more than once"
    )
    yield problem(
        look,
        "group.merged",
        marked,
        f"{int(large.sum())} of {groups.count} groups have {sizes} responses where the group size is "
        f"{usual}: several groups were merged; {inside}.",
        column="group_id",
        certainty="likely",
        hint="A dictionary by prompt, in a batch that holds the same prompt twice, does this.",
    )


def _twice(look: Look) -> Iterator[Problem]:
    """Prompts that stand in two groups of a step."""
    rows, use = look.rows, look.grouped & np.isfinite(look.reward)
    if not use.any():
        return
    slot = dense(rows.step, rows.prompt)
    pairs = np.unique(np.column_stack([slot[use], rows.sample[use]]), axis=0)
    shared = np.bincount(pairs[:, 0], minlength=int(slot.max()) + 1) > 1
    marked = use & shared[slot]
    if not marked.any():
        return
    steps = np.unique(rows.step[marked])
    pooled = _pooled(look, slot, marked)
    if pooled is not None and pooled.any():
        yield problem(
            look,
            "group.pooled",
            pooled,
            f"{int(pooled.sum())} responses of prompts that occur in two groups of a step have advantages "
            "that sum to 0 over both groups together, not within each: their baselines were pooled.",
            column="advantage",
            hint="The baseline was formed by prompt, not by group_id.",
        )
    alone = len(np.unique(slot[use & (np.bincount(pairs[:, 0], minlength=len(shared)) == 1)[slot]]))
    rare = len(steps) < 3 or len(steps) <= USUAL * len(np.unique(rows.step[use]))
    if rare and alone:
        step = int(steps[0])
        here = len(np.unique(slot[marked & (rows.step == step)]))
        yield problem(
            look,
            "prompt.two-groups",
            marked,
            f"{len(np.unique(slot[marked]))} prompts occur in more than one group of their step "
            f"({here} of them in step {step}).",
            "info",
            column="prompt_id",
            hint="Harmless where groups go by group_id; a dictionary by prompt would merge them.",
        )


def _pooled(look: Look, slot: np.ndarray, marked: np.ndarray) -> np.ndarray | None:
    advantage = look.rows.logged_advantage
    if advantage is None:
        return None
    use = marked & np.isfinite(advantage)
    unit = float(np.abs(advantage[use]).max(initial=0.0)) or 1.0
    own, both = Group(look.rows.sample, use), Group(slot, use)
    uneven = own.rows(np.abs(own.mean(advantage)) > 1e-2 * unit)
    level = both.rows(np.abs(both.mean(advantage)) < 1e-3 * unit)
    return np.asarray(uneven & level)


CHECK = Entry(
    "groups of one, and merged groups",
    {
        "group.singleton": "groups of one response: no baseline, or the raw reward as advantage",
        "group.merged": "groups of a multiple of the usual size",
        "group.pooled": "advantages centred over two groups of the same prompt together",
        "prompt.two-groups": "a prompt in several groups of a step, where that is the exception",
    },
    _find,
    ("group_id", "reward"),
)

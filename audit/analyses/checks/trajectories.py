"""Multi-turn groups whose baseline is a mean over rows, so that long trajectories count several times."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from audit.analyses.checks.look import Entry, Group, Look, Severity, problem
from audit.analyses.samples import trajectories
from audit.facts.rows import dense
from audit.schema import Problem


def _find(look: Look) -> Iterator[Problem]:
    rows = look.rows
    use = look.grouped & np.isfinite(look.reward)
    if not use.any():
        return
    unit = dense(rows.sample, trajectories(rows))
    per = np.bincount(unit[use], minlength=int(unit.max()) + 1)
    weight = np.where(use, 1.0 / np.maximum(per[unit], 1), 0.0)
    groups = Group(rows.sample, use)
    over_rows = groups.mean(look.reward)
    over_samples = groups.sum(np.nan_to_num(look.reward) * weight) / np.maximum(groups.sum(weight), 1e-12)
    apart = np.abs(over_rows - over_samples) > 1e-9
    if not apart.any():
        return
    marked = groups.rows(apart)
    mixed = groups.spans(rows.prompt.astype(float)) > 0
    advantage = rows.logged_advantage
    verdict = " No advantage says which of the two was the baseline."
    severity: Severity = "info"
    if advantage is not None and np.isfinite(advantage[marked]).all():
        by_rows = np.abs(groups.mean(advantage))[apart]
        by_samples = np.abs(groups.sum(np.nan_to_num(advantage) * weight))[apart]
        if by_rows.sum() < 0.1 * by_samples.sum():
            verdict, severity = " The advantages sum to 0 over rows: long trajectories count more.", "warning"
        elif by_samples.sum() < 0.1 * by_rows.sum():
            return
        else:
            verdict = " The advantages sum to 0 over neither."
    worst = int(np.argmax(np.abs(over_rows - over_samples)))
    yield problem(
        look,
        "group.rows-not-trajectories",
        marked,
        f"In {int(apart.sum())} of {groups.count} groups the mean over rows is not that over trajectories "
        f"(on average {over_rows[apart].mean():.2f} and {over_samples[apart].mean():.2f}; at most "
        f"{over_rows[worst]:.2f} and {over_samples[worst]:.2f}); {mixed.mean():.0%} of groups mix different "
        f"prompts.{verdict}",
        severity,
        column="group_id",
        hint="A trajectory is one sample of its group, however many turns it has.",
    )


CHECK = Entry(
    "baselines over rows or over trajectories",
    {"group.rows-not-trajectories": "rows of one trajectory enter the group mean one by one"},
    _find,
    ("trajectory_id", "group_id", "reward"),
)

"""Rows that take no loss, were aborted, or have no tokens, and still move the baseline of their siblings."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from audit.analyses.checks.look import Entry, Group, Look, problem
from audit.facts.rows import dense
from audit.logs.arrays import to_numpy
from audit.schema import Problem

ABORTED = ("abort", "aborted", "cancelled", "canceled", "crash", "crashed", "error", "failed", "rejected")
"""finish_reasons of a rollout that did not end by itself."""
SAME = 1e-3
"""Means of advantages below this, in units of the largest one, are 0; heuristic."""


def _find(look: Look) -> Iterator[Problem]:
    bare, aborted = _bare(look), _aborted(look)
    use = look.grouped & np.isfinite(look.reward)
    yield from _moved(look, use, use & bare, "have no trainable token")
    yield from _moved(look, use, use & aborted & ~bare, "were aborted")
    trained = use & aborted & ~bare
    if trained.any():
        rewards = ", ".join(f"{v:g}" for v in np.unique(look.reward[trained])[:3])
        yield problem(
            look,
            "rollout.aborted-trained",
            trained,
            f"{int(trained.sum())} rows were aborted or failed, and train with reward {rewards}.",
            column="finish_reason",
            hint="A crash is no wrong answer: drop such rows, or mask them.",
        )


def _bare(look: Look) -> np.ndarray:
    nothing = np.zeros(look.rows.num_rows, dtype=bool)
    facts = look.rows.facts
    if facts is None:
        return nothing
    return np.asarray((facts["loss_tokens"] == 0) & (facts["logged"] == 1))


def _aborted(look: Look) -> np.ndarray:
    if not look.rows.has("finish_reason"):
        return np.zeros(look.rows.num_rows, dtype=bool)
    reason = pc.utf8_lower(look.rows.table["finish_reason"])
    return np.asarray(to_numpy(pc.is_in(reason, value_set=pa.array(ABORTED)).combine_chunks()))


def _moved(look: Look, use: np.ndarray, out: np.ndarray, what: str) -> Iterator[Problem]:
    if not out.any() or (
        look.declared and look.declared.baseline.kind not in ("group_mean", "leave_one_out")
    ):
        return
    code = dense(look.rows.sample)
    groups, rest = Group(code, use), Group(code, use & ~out)
    with_them, touched = np.zeros(int(code.max()) + 1), np.zeros(int(code.max()) + 1, dtype=bool)
    with_them[code[use]] = groups.mean(look.reward)[groups.of]
    touched[code[out]] = True
    without = np.zeros_like(with_them)
    without[code[rest.use]] = rest.mean(look.reward)[rest.of]
    siblings = rest.use & touched[code]
    if not siblings.any():
        return
    shift = np.abs(with_them - without)[code][siblings]
    entered = _entered(look, code, siblings)
    text = (
        f"{int(out.sum())} rows {what} but move the baseline of {int(siblings.sum())} siblings by "
        f"{shift.mean():.3g} on average (at most {shift.max():.3g})."
    )
    if entered is None:
        text = text.replace("but move", "and would move") + " No advantage is logged that would show it."
    elif not entered:
        text = f"{int(out.sum())} rows {what}; the advantages of their {int(siblings.sum())} siblings leave "
        text += "them out."
    if not shift.any() and entered:
        return
    yield problem(
        look,
        "baseline.untrained-rows",
        out,
        text,
        "warning" if entered else "info",
        column="reward",
        hint="Leave rows without a trainable token or a verdict out of the group's mean and std.",
    )


def _entered(look: Look, code: np.ndarray, siblings: np.ndarray) -> bool | None:
    """Whether the advantages of the siblings sum to 0 with the rows that do not train, not without them."""
    advantage = look.rows.logged_advantage
    if advantage is None or not np.isfinite(advantage[siblings]).any():
        return None
    known = siblings & np.isfinite(advantage)
    unit = float(np.abs(advantage[known]).max()) or 1.0
    alone = np.abs(Group(code, known).mean(advantage)).max() / unit
    return bool(alone > SAME)


CHECK = Entry(
    "baselines moved by rows that do not train",
    {
        "baseline.untrained-rows": "rows without a loss token, or aborted, stand in their group's baseline",
        "rollout.aborted-trained": "aborted or failed rollouts train as if they were answers",
    },
    _find,
    ("group_id", "reward"),
)

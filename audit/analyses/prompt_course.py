"""How one prompt fared over a run: what its samples earned at every step at which it was drawn."""

from __future__ import annotations

import msgspec

from audit.logs import Run
from audit.stats import LEVEL, Estimate

MOST = 1500
"""Steps that are read; beyond them the earliest are left out, and ``of`` says so."""


class PromptStep(msgspec.Struct, frozen=True):
    """The samples of one prompt at one step."""

    step: int
    success: Estimate | None
    """Share that is correct, with Wilson's interval; None where the log has no column ``correct``, and
    rewards are not 0 and 1."""
    reward: float | None
    """Mean."""
    length: float | None
    """Mean, in the unit of the log."""
    group_id: str | None
    """The first of the groups."""
    samples: int


class PromptCourse(msgspec.Struct, frozen=True):
    """One prompt over the steps of a run."""

    prompt_id: str
    steps: list[PromptStep]
    of: int
    """Steps at which it was drawn."""
    schema: str = "rlaudit.prompt_course.v1"


def prompt_course(run: Run, prompt_id: str) -> PromptCourse:
    """Follow a prompt.

    The samples of one step come from one policy and are taken for independent draws, so the interval of a
    success rate is that of a binomial share (Wilson 1927). Within one prompt there are no prompts to
    resample.

    Raises
    ------
    AuditError
        The log cannot be read.
    """
    columns = set(run.columns)
    judged = "correct::INTEGER" if "correct" in columns else "CASE WHEN reward IN (0, 1) THEN reward END"
    group = "min(group_id)" if "group_id" in columns else "NULL"
    length = "avg(length)" if "length" in columns else "NULL"
    with run.connect() as db:
        rows = db.execute(
            f"SELECT step, count(*), count({judged}), sum({judged}), avg(reward), {length}, {group}, "
            "count(*) OVER () FROM rollouts WHERE prompt_id = ? AND step IS NOT NULL "
            "AND NOT coalesce(is_greedy, false) "
            "AND coalesce(epoch, 0) = (SELECT min(coalesce(epoch, 0)) FROM rollouts) "
            f"GROUP BY step ORDER BY step DESC LIMIT {MOST}",
            [prompt_id],
        ).fetchall()
    steps = [
        PromptStep(int(step), _share(int(won or 0), int(known), int(n)), reward, long, group_id, int(n))
        for step, n, known, won, reward, long, group_id, _ in reversed(rows)
    ]
    return PromptCourse(prompt_id, steps, int(rows[0][7]) if rows else 0)


def _share(won: int, known: int, samples: int) -> Estimate | None:
    if not known or known < samples:
        return None
    from scipy.stats import binomtest

    interval = binomtest(won, known).proportion_ci(LEVEL, method="wilson")
    return Estimate(won / known, float(interval.low), float(interval.high), known)

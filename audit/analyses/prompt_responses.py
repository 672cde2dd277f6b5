"""What did a run answer to one prompt? The texts of its last visit, or of the one that is asked for."""

from __future__ import annotations

import msgspec

from audit.logs import Run

MOST = 16
"""Responses of a visit that are read."""
LONGEST = 20_000
"""Characters of a text that are read."""


class Response(msgspec.Struct, frozen=True):
    """One response, as text of a log: hostile until it is escaped."""

    sample_index: int | None
    text: str | None
    """None where the log holds no text."""
    cut: bool
    """It is longer than what was read."""
    reward: float | None
    length: int | None
    finish_reason: str | None
    group_id: str | None = None


class Visit(msgspec.Struct, frozen=True):
    """What a run answered to a prompt at one step."""

    prompt: str | None
    step: int | None
    steps: list[int]
    """Every step at which the prompt was drawn."""
    responses: list[Response]
    """By reward, the best first; at most :data:`MOST`."""
    of: int
    """How many there are."""
    schema: str = "rlaudit.prompt_responses.v1"


_WHERE = (
    "prompt_id = ? AND NOT coalesce(is_greedy, false) "
    "AND coalesce(epoch, 0) = (SELECT min(coalesce(epoch, 0)) FROM rollouts)"
)


def prompt_responses(run: Run, prompt_id: str, *, step: int | None = None, until: int | None = None) -> Visit:
    """Read the responses to a prompt at its last visit.

    Parameters
    ----------
    prompt_id : str
    step : int, optional
        The visit to read, instead of the last.
    until : int, optional
        Only visits up to this step.

    Raises
    ------
    AuditError
        The log cannot be read.
    """
    with run.connect() as db:
        found = db.execute(
            f"SELECT DISTINCT step FROM rollouts WHERE {_WHERE} ORDER BY step",
            [prompt_id],
        ).fetchall()
        steps = [int(row[0]) for row in found if row[0] is not None]
        inside = [at for at in steps if until is None or at <= until]
        chosen = step if step in steps else max(inside, default=steps[0] if steps else None)
        if chosen is None:
            return Visit(None, None, [], [], 0)
        rows = db.execute(
            f"SELECT sample_index, left(response, {LONGEST}), length(response) > {LONGEST}, reward, "
            f"length, finish_reason, left(prompt, {LONGEST}), count(*) OVER (), group_id FROM rollouts "
            f"WHERE {_WHERE} AND step = ? ORDER BY reward DESC NULLS LAST, sample_index LIMIT {MOST}",
            [prompt_id, chosen],
        ).fetchall()
    responses = [Response(row[0], row[1], bool(row[2]), row[3], row[4], row[5], row[8]) for row in rows]
    return Visit(rows[0][6], chosen, steps, responses, int(rows[0][7]))

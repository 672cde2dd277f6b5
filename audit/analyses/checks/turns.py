"""Multi-turn: each turn should go on where the turn before it ended."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from audit.analyses.checks.look import Entry, Look, problem
from audit.analyses.checks.turn_ids import EXTENDS, FIRST
from audit.facts.rows import dense
from audit.logs.arrays import codes_of, to_numpy, valid
from audit.schema import Problem

CUMULATIVE = 0.3
"""Share of turns that must begin with the turn before, for the ids to be those of the whole trajectory."""


def _find(look: Look) -> Iterator[Problem]:
    rows = look.rows
    columns = ["trajectory_id", "turn", "prompt_length", "length"]
    table = look.run.responses(columns)
    encoded = table["trajectory_id"].combine_chunks().dictionary_encode()
    trajectory = dense(codes_of(encoded), rows.epoch)
    turn = np.asarray(to_numpy(table["turn"]), dtype=np.float64)
    known = valid(table["trajectory_id"]) & np.isfinite(turn) & look.first
    at = np.flatnonzero(known)
    order = at[np.lexsort((turn[at], trajectory[at]))]
    before, after = order[:-1], order[1:]
    follows = (trajectory[before] == trajectory[after]) & (turn[after] > turn[before])
    before, after = before[follows], after[follows]
    if not len(after):
        return
    paired = len(np.unique(trajectory[after]))
    broken, where = _by_ids(look, after)
    unit = "token"
    if broken is None:
        broken, where = _by_text(look, before, after)
        unit = "character"
    if broken is None:
        broken, where = _by_length(look, before, after)
        unit = "token"
    if broken is None or not broken.any():
        return
    marked = np.zeros(rows.num_rows, dtype=bool)
    marked[after[broken]] = True
    hit = len(np.unique(trajectory[after[broken]]))
    turns, counts = np.unique(turn[after[broken]].astype(np.int64), return_counts=True)
    most = int(turns[counts.argmax()])
    first = int(np.median(where[broken]))
    yield problem(
        look,
        "turn.not-extension",
        marked,
        f"{int(broken.sum())} turns are not an extension of the turn before, in {hit / paired:.0%} of "
        f"{paired} trajectories, most often turn {most}; first difference at {unit} {first} (median).",
        column="turn",
        hint="A chat template that rewrites earlier turns, or text that was decoded and encoded again.",
    )


def _by_ids(look: Look, after: np.ndarray) -> tuple[np.ndarray | None, np.ndarray]:
    """Where most turns hold the turn before as their beginning, the others are broken."""
    none = np.zeros(0)
    if not look.tokens.has("turn_differs"):
        return None, none
    found = look.tokens["turn_differs"][after]
    known = found != FIRST
    # A log whose rows hold the ids of their own turn only says nothing here.
    if not known.any() or (found[known] == EXTENDS).mean() < CUMULATIVE:
        return None, none
    return np.asarray(known & (found != EXTENDS)), found


def _by_text(look: Look, before: np.ndarray, after: np.ndarray) -> tuple[np.ndarray | None, np.ndarray]:
    """The prompt of a turn begins with prompt and response of the turn before."""
    none = np.zeros(0)
    if not {"prompt", "response"} <= look.run.columns:
        return None, none
    texts = look.run.responses(["prompt", "response"])
    prompt, response = texts["prompt"].combine_chunks(), texts["response"].combine_chunks()
    broken, where = np.zeros(len(after), dtype=bool), np.zeros(len(after), dtype=np.int64)
    differ = False
    for k, (one, two) in enumerate(zip(before, after, strict=True)):
        told, answer, later = prompt[int(one)].as_py(), response[int(one)].as_py(), prompt[int(two)].as_py()
        if told is None or answer is None or later is None:
            continue
        differ |= later != told
        # Templates put marks between prompt and response: both must come again, in this order.
        start = later.startswith(told)
        place = later.find(answer, len(told)) if start else -1
        if place < 0:
            broken[k] = True
            where[k] = _shared(told + answer, later)
    # One prompt text for all turns is the task, not the context of the turn.
    return (broken, where) if differ else (None, none)


def _shared(a: str, b: str) -> int:
    """Characters that two texts have in common from the start."""
    return next((k for k, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def _by_length(look: Look, before: np.ndarray, after: np.ndarray) -> tuple[np.ndarray | None, np.ndarray]:
    if not look.rows.has("prompt_length"):
        return None, np.zeros(0)
    context = np.asarray(to_numpy(look.run.responses(["prompt_length"])["prompt_length"]), dtype=np.float64)
    if np.ptp(context[after] - context[before]) == 0 and (context[after] == context[before]).all():
        return None, np.zeros(0)
    whole = context[before] + look.rows.length[before]
    broken = np.asarray(context[after] < whole)
    return broken, np.where(broken, np.nan_to_num(context[after]), 0.0)


CHECK = Entry(
    "turns that go on from one another",
    {"turn.not-extension": "a turn's context is not that of the turn before plus its response"},
    _find,
    ("trajectory_id", "turn", "prompt|prompt_length|token_ids"),
)

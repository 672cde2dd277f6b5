"""tinker-cookbook's ``capture/sample.jsonl``: what was sampled, joined to the summaries of trajectories.

Read: tinker_cookbook/capture/{instrument,exporter,scope}.py and rl/data_processing.py of the released 0.6.1.
A line is one request with the scope in which it was made. Its ``group_idx`` counts all groups of an
iteration, that of a summary those that are left: groups are matched in order by the lengths of all their
turns. Turns become one row while each prompt begins with what came before, as the trainer merges them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from audit.importers.interface import Book, Row
from audit.importers.jsonl import record_of
from audit.importers.values import OddValue, integers, numbers

FILE = "capture/sample.jsonl"
MASKED = "parse_error_masked"
JOINED = "trajectories were joined to what was captured of their samples"


class Turn(NamedTuple):
    """One sampled response and its prompt."""

    prompt: list[int]
    tokens: list[int]
    logprobs: list[float | None] | None
    reason: str | None
    created: float


class Piece(NamedTuple):
    """Turns that are one sequence, each prompt beginning with what came before."""

    prompt: list[int]
    columns: Row
    last: Turn


class _Scope(msgspec.Struct):
    iteration: int | None = None
    split: str | None = None


class _Head(msgspec.Struct):
    scope: _Scope


_head = msgspec.json.Decoder(_Head)
_Captured = dict[int, dict[int, list[Turn]]]
"""Group → trajectory → turns."""


class Captured:
    """What was captured, by iteration; lines are found again by their place, so that few are held."""

    def __init__(self, file: Path, book: Book) -> None:
        self._file = file
        self._places: dict[tuple[int, str], list[tuple[int, int]]] = defaultdict(list)
        self._book = book
        place = unscoped = 0
        with file.open("rb") as lines:
            for line in lines:
                book.saw(len(line))
                try:
                    scope = _head.decode(line).scope
                except (msgspec.MsgspecError, RecursionError):
                    scope = _Scope()
                if scope.iteration is None:
                    unscoped += 1
                else:
                    self._places[scope.iteration, scope.split or "train"].append((place, len(line)))
                place += len(line)
        if unscoped:
            book.note("captured samples without the iteration in their scope cannot be joined")

    def of(self, iteration: int, split: str, summaries: Sequence[list[Row]]) -> list[list[list[Turn]] | None]:
        """Return the turns of each group of summaries, None where none fits."""
        groups = self._read(iteration, split)
        wanted = [[lengths for each in group if (lengths := _lengths(each))] for group in summaries]
        signatures = {at: _signature(groups[at]) for at in sorted(groups)}
        found: list[list[list[Turn]] | None] = []
        for group, fits in zip(summaries, matched(wanted, signatures), strict=True):
            following = iter([] if fits is None else [groups[fits][at] for at in sorted(groups[fits])])
            turns = (
                [next(following) if _lengths(each) else [] for each in group] if fits is not None else None
            )
            found.append(turns)
        joined = sum(bool(turns) for each in found if each is not None for turns in each)
        self._book.share(JOINED, joined, sum(map(len, summaries)))
        return found

    def _read(self, iteration: int, split: str) -> _Captured:
        groups: _Captured = defaultdict(lambda: defaultdict(list))
        seen: set[str] = set()
        with self._file.open("rb") as lines:
            for place, length in self._places.get((iteration, split), ()):
                lines.seek(place)
                record = record_of(lines.read(length).strip())
                if not isinstance(record, dict):
                    continue
                scope = record["scope"]
                own = (
                    repr((record.get("sampling_session_id"), record["seq_id"])) if "seq_id" in record else ""
                )
                # An exporter that had to try again writes a record once more.
                if own and own in seen:
                    continue
                turn = _turn(record)
                group, place_in = scope.get("group_idx"), scope.get("traj_idx")
                if turn is not None and isinstance(group, int) and isinstance(place_in, int):
                    seen.add(own)
                    groups[group][place_in].append(turn)
        for trajectories in groups.values():
            for turns in trajectories.values():
                turns.sort(key=lambda turn: turn.created)
        return groups


def _turn(record: Row) -> Turn | None:
    samples = record.get("samples")
    if not isinstance(samples, list) or len(samples) != 1 or not isinstance(samples[0], dict):
        return None
    try:
        prompt = integers(record.get("prompt_tokens"), "prompt_tokens")
        tokens = integers(samples[0].get("tokens"), "tokens")
        logprobs = numbers(samples[0].get("logprobs"), "logprobs")
    except OddValue:
        return None
    if prompt is None or tokens is None or (logprobs is not None and len(logprobs) != len(tokens)):
        return None
    created, reason = record.get("created_at"), samples[0].get("stop_reason")
    return Turn(
        [int(each) for each in prompt],
        [int(each) for each in tokens],
        None if logprobs is None else list(logprobs),
        reason if isinstance(reason, str) else None,
        float(created) if isinstance(created, (int, float)) else 0.0,
    )


def _lengths(summary: Mapping[str, Any]) -> list[tuple[Any, Any]]:
    return [(step.get("ob_len"), step.get("ac_len")) for step in sampled_steps(summary)]


def matched(wanted: Sequence[Any], signatures: Mapping[int, Any]) -> list[int | None]:
    """Match two sequences in order, the second of which may hold more; what fits in two ways stays out."""
    there = list(signatures)
    forward = _first_fits(wanted, [(at, signatures[at]) for at in there])
    backward = _first_fits(wanted[::-1], [(at, signatures[at]) for at in there[::-1]])[::-1]
    return [a if a == b else None for a, b in zip(forward, backward, strict=True)]


def _first_fits(wanted: Sequence[Any], there: list[tuple[int, Any]]) -> list[int | None]:
    found: list[int | None] = []
    start = 0
    for each in wanted:
        fits = next((i for i in range(start, len(there)) if there[i][1] == each), None)
        found.append(None if fits is None else there[fits][0])
        start = start if fits is None else fits + 1
    return found


def _signature(trajectories: dict[int, list[Turn]]) -> list[list[tuple[int, int]]]:
    return [[(len(t.prompt), len(t.tokens)) for t in trajectories[at]] for at in sorted(trajectories)]


def steps_of(summary: Mapping[str, Any]) -> list[Row]:
    """Turns of a summary."""
    steps = summary.get("steps")
    return [each for each in steps if isinstance(each, dict)] if isinstance(steps, list) else []


def sampled_steps(summary: Mapping[str, Any]) -> list[Row]:
    """Turns for which something was sampled: a prompt that is too long makes one that is empty."""
    return [step for step in steps_of(summary) if step.get("ac_len")]


def pieces_of(turns: list[Turn], masked: list[bool]) -> list[Piece]:
    """Merge turns as the trainer does; tokens between them and those of masked turns take no loss."""
    found: list[Piece] = []
    whole: list[int] = []
    for turn, hidden in zip(turns, masked, strict=True):
        extends = bool(found) and turn.prompt[: len(whole)] == whole
        if not extends:
            found.append(Piece(turn.prompt, {"token_ids": [], "loss_mask": [], "logp_sampler": []}, turn))
            whole = list(turn.prompt)
        columns = found[-1].columns
        between = turn.prompt[len(whole) :]
        columns["token_ids"] += [*between, *turn.tokens]
        columns["loss_mask"] += [False] * len(between) + [not hidden] * len(turn.tokens)
        if turn.logprobs is None or columns["logp_sampler"] is None:
            columns["logp_sampler"] = None
        else:
            columns["logp_sampler"] += [0.0] * len(between) + turn.logprobs
        whole = [*turn.prompt, *turn.tokens]
        found[-1] = found[-1]._replace(last=turn)
    return found

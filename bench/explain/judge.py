"""One verdict against the truth."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from audit.analyses.explain import explain
from audit.errors import AuditError
from audit.logs import open_run
from bench.explain.case import Case
from bench.explain.log import Log

UNSEEN = ("not identifiable", "cannot be told", "cannot show", "cannot say", "needs", "declares no objective")
"""Words that say that a log does not hold the answer."""

Outcome = Literal["right", "wrong", "none", "failed"]


class Judgement(msgspec.Struct, frozen=True):
    """What one pair was told."""

    source: str
    cause: str | None
    variant: str
    blind: bool
    seed: int
    seen: bool
    """Whether the log holds what shows the cause; a declared one always does."""
    right: tuple[str, ...]
    named: list[str]
    """Ids of the causes, ranked."""
    confidence: float | None
    """Of the first."""
    told: bool
    """Whether some sentence says that this cause, by its own word, is not in the log."""
    shown_by: str = ""
    error: str = ""

    @property
    def top(self) -> str | None:
        """The first cause that is named."""
        return self.named[0] if self.named else None

    @property
    def outcome(self) -> Outcome:
        """``right``: the first cause is the injected one, or nothing is named where nothing was injected."""
        if self.error:
            return "failed"
        if self.top is None:
            return "right" if self.cause is None else "none"
        return "right" if self.top in self.right else "wrong"

    @property
    def hit(self) -> bool:
        """Whether the injected cause is the first one."""
        return self.cause is not None and self.outcome == "right"


def judge(case: Case, seeds: Sequence[int], folder: Path, *, blind: bool) -> Iterator[Judgement]:
    """Make one pair per seed and ask for its verdict; B's seeds follow A's and are never the same.

    Parameters
    ----------
    folder : Path
        Scratch: every pair is written into it and removed again.
    """
    others = [seed + 500 for seed in seeds]
    for seed, a, b in zip(seeds, case.a(seeds), case.b(others), strict=True):
        yield judge_pair(case, seed, (a, b), folder, blind=blind)


def judge_pair(case: Case, seed: int, pair: tuple[Log, Log], folder: Path, *, blind: bool) -> Judgement:
    """Write two logs, open them, and compare the verdict with the truth."""
    paths = [folder / name for name in ("A", "B")]
    for path, log in zip(paths, pair, strict=True):
        (log.blind() if blind else log).write(path)
    named: list[str] = []
    confidence, told, error = None, False, ""
    try:
        found = explain(*map(open_run, paths))
    except AuditError as problem:
        error = str(problem)
    else:
        named = [cause.id for cause in found.verdict.causes]
        confidence = found.verdict.causes[0].confidence if named else None
        told = case.cause is not None and says_unseen(msgspec.to_builtins(found), case.cause)
    for path in paths:
        shutil.rmtree(path)
    return Judgement(
        source=case.source,
        cause=case.cause,
        variant=case.variant,
        blind=blind,
        seed=seed,
        seen=case.seen_blind or not blind,
        right=case.right(blind=blind),
        named=named,
        confidence=confidence,
        told=told,
        shown_by=case.shown_by,
        error=error,
    )


def says_unseen(answer: Any, cause: str) -> bool:
    """Whether one sentence of an answer names a cause and says that the log does not show it."""
    word = cause.rpartition(".")[2].replace("_", " ")
    return any(
        word in text.lower() and any(phrase in text.lower() for phrase in UNSEEN) for text in _texts(answer)
    )


def _texts(answer: Any) -> Iterator[str]:
    if isinstance(answer, str):
        yield answer
    elif isinstance(answer, dict):
        if "needs" in answer:
            # A check and what it needs are one sentence in two fields.
            yield "; ".join(f"{key} {value}" for key, value in answer.items() if isinstance(value, str))
        for key, value in answer.items():
            # Half a sentence each: a key often says what its text is about.
            yield from (f"{key}: {text}" for text in _texts(value))
    elif isinstance(answer, list | tuple):
        for value in answer:
            yield from _texts(value)

"""What a foreign format brings: how to know it, what to read as one, and its rows.

An importer is a value of :class:`Importer` in a file of its own. It turns records into rows of the rollout
schema; everything that formats share (coercing values, groups without an id, prompt ids, counting, writing)
is done once, by :mod:`audit.importers.convert`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec
import pyarrow as pa

from audit.logs.manifest import Manifest

Row = dict[str, Any]
"""Values by column of the rollout schema; a key that is no column goes to ``extra``."""
Grouping = Literal["given", "blocks", "prompt"]
"""Groups have an id, are contiguous blocks of one prompt, or are all rows of one prompt in a step."""


class Detection(NamedTuple):
    """Why a path is taken for a format."""

    confidence: float
    """0 to 1: 1 where nothing else looks like this, 0.5 where the names of a few keys fit."""
    reason: str
    """What was seen, as 'keys input, output, score in 1.jsonl'."""


class Unit(msgspec.Struct, frozen=True):
    """What is read as one: usually a file; files that have to be joined or compared belong to one unit."""

    name: str
    """Unique in its log, and the same as long as the log stands where it is."""
    files: tuple[Path, ...]


class Options(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a user may say of a foreign log; the defaults say nothing."""

    columns: dict[str, str] = {}
    """Column of the rollout schema → name in the foreign log, for the generic formats."""
    group_size: int | None = None
    """Responses of a group, where rows have no group id."""
    grouping: Grouping | None = None


@dataclass
class Book:
    """What became of every record of a unit: ``read = rows + rejected`` always holds."""

    read: int = 0
    """Records that would each be a row: lines, or entries of a line that holds several."""
    rows: int = 0
    rejected: Counter[str] = field(default_factory=Counter)
    """Reason → records that are no row."""
    notes: dict[str, None] = field(default_factory=dict)
    """What had to be assumed, each said once."""
    skipped: dict[str, str] = field(default_factory=dict)
    """File of the unit that could not be read, or holds nothing new → reason."""
    shares: dict[str, tuple[int, int]] = field(default_factory=dict)
    """What is said with numbers → (part, whole), added up over the units of a log."""
    tick: Callable[[int], None] | None = None
    """Told the bytes that were read, as they are."""

    def saw(self, size: int) -> None:
        """Say that bytes of the unit's files were read; what shows progress is told."""
        if self.tick is not None:
            self.tick(size)

    def reject(self, reason: str, count: int = 1) -> None:
        """Count records that cannot become rows; they must not be yielded as well."""
        self.read += count
        self.rejected[reason] += count

    def skip(self, file: Path, reason: str) -> None:
        """Name a file that is left out, with the reason."""
        self.skipped[str(file)] = reason

    def note(self, text: str) -> None:
        """Say once what had to be assumed."""
        self.notes[text] = None

    def share(self, text: str, part: int, whole: int) -> None:
        """Say ``{part} of {whole} {text}``; units that say the same are added up."""
        before = self.shares.get(text, (0, 0))
        self.shares[text] = (before[0] + part, before[1] + whole)


class Scalar(NamedTuple):
    """One number that the trainer logged, for ``metrics/``."""

    step: int
    name: str
    value: float


@dataclass(frozen=True)
class Source:
    """A foreign log that is being read."""

    path: Path
    options: Options
    manifest: Manifest

    @property
    def group_size(self) -> int | None:
        """Declared size of a group: by the user, else by the manifest."""
        return self.options.group_size or self.manifest.group_size


def no_scalars(_: Path) -> Iterator[Scalar]:
    """Of a format that logs no scalars."""
    return iter(())


@dataclass(frozen=True)
class Importer:
    """One foreign format."""

    name: str
    """As given to ``--format``."""
    title: str
    """What people call such a log, as 'verl: trainer.rollout_data_dir'."""
    detect: Callable[[Path], Detection | None]
    """Whether this very path (nothing below it) is such a log; cheap: names and a first record."""
    units: Callable[[Path], Sequence[Unit]]
    """In the order of the log."""
    rows: Callable[[Unit, Source, Book], Iterator[Row | pa.Table]]
    """Rows of a unit, streamed; records that cannot be rows go to :meth:`Book.reject`. A table holds many
    rows at once, in types that convert to the schema. Where groups are rebuilt it is called twice."""
    manifest: Callable[[Path], Manifest]
    """What is known of the run: its run.json, else the config beside the log."""
    grouping: Grouping = "given"
    """How rows without ``group_id`` are put into groups."""
    scalars: Callable[[Path], Iterator[Scalar]] = no_scalars
    cannot: str = ""
    """What such a log does not hold, in a sentence."""
    takes: frozenset[str] = frozenset()
    """Columns whose name in the log somebody may say (``Options.columns``); other formats name their own."""
    holds: tuple[str, ...] = ()
    """Columns of the schema that such a log can fill, beyond step, prompt_id, group_id and sample_index."""

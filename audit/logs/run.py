"""An opened run: its files, its manifest, and its rows in canonical types."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from audit.errors import AuditError, MissingColumn, UnknownName
from audit.logs.batching import batch_schema
from audit.logs.files import RunFile
from audit.logs.footers import FooterIndex
from audit.logs.manifest import Manifest
from audit.logs.parquet_part import ParquetPart
from audit.logs.parts import Part, TablePart
from audit.logs.scalars import KEPT, read_scalars
from audit.logs.walk import SkippedFile
from audit.schema import BY_NAME, COLUMNS, REQUIRED, tier_of

if TYPE_CHECKING:
    import duckdb

_UNBOUNDED = 2**62
SCALARS: tuple[str, ...] = tuple(column.name for column in COLUMNS if not column.is_token_list)
"""Columns with one value per response, in canonical order."""


@dataclass(frozen=True, eq=False)
class Run:
    """One run, read only. A snapshot: files that appear later are seen by opening the run again.

    Every reading method opens its own handles, so one Run may be used from several threads.
    """

    path: Path
    run_id: str
    manifest: Manifest
    parts: tuple[Part, ...]
    """What holds the rows, in row order; one per entry of ``files`` for a native log."""
    files: tuple[RunFile, ...] = ()
    """The files that the rows come from."""
    skipped: tuple[SkippedFile, ...] = ()
    """Files that look like part of the run and were not read, with the reason."""
    format: str = "rlaudit"
    rejected: Mapping[str, int] = field(default_factory=dict)
    """Rows of a foreign log that could not be turned into rows of the schema: reason → count."""
    notes: tuple[str, ...] = ()
    """What an importer had to assume."""
    footers: FooterIndex | None = field(default=None, repr=False)
    """Where what is known of the files is kept, for a native log."""
    home: Path | None = field(default=None, repr=False)
    """Run directory that the rows are read from, where ``path`` is a foreign log that was imported."""

    log_files: int | None = None
    """Files of that foreign log that were read; None for a native log, whose files are ``files``."""

    @property
    def place(self) -> Path:
        """Where the files of the run are: its own path, or that of its import."""
        return self.path if self.home is None else self.home

    @classmethod
    def from_table(
        cls,
        path: Path,
        run_id: str,
        manifest: Manifest,
        table: pa.Table | Iterable[pa.RecordBatch],
        *,
        format: str,  # noqa: A002 - the name of the attribute
        rejected: Mapping[str, int] | None = None,
        notes: Sequence[str] = (),
        files: Sequence[RunFile] = (),
        skipped: Sequence[SkippedFile] = (),
    ) -> Run:
        """Make a run of rows in memory: how an importer hands over a foreign log.

        Parameters
        ----------
        path : Path
            Where the foreign log is.
        table : pyarrow.Table or iterable of pyarrow.RecordBatch
            Columns of the rollout schema, in any type that converts to the canonical one.
        format : str
            Name of the foreign format.
        rejected : mapping of str to int, optional
            Reason → rows that were left out.
        notes : sequence of str
            What had to be assumed, one sentence each.
        files, skipped : sequences, optional
            The files behind the table (:func:`audit.logs.files.check_file`).

        Raises
        ------
        MissingColumn
            A required column is absent.
        BadLog
            A column has a type that cannot mean what the schema says.
        """
        if not isinstance(table, pa.Table):
            table = pa.Table.from_batches(list(table))
        part = TablePart(table, name=str(path))
        require_columns([part], str(path))
        return cls(
            path=path,
            run_id=run_id,
            manifest=manifest,
            parts=(part,),
            files=tuple(files),
            skipped=tuple(skipped),
            format=format,
            rejected=dict(rejected or {}),
            notes=tuple(notes),
        )

    @cached_property
    def columns(self) -> frozenset[str]:
        """Schema columns that hold at least one value."""
        held: frozenset[str] = frozenset()
        for part in self.parts:
            asked = frozenset(part.types) - held
            held |= part.holding(asked) if asked else asked
        if self.footers is not None:
            self.footers.save([(p.file, p.footer) for p in self.parts if isinstance(p, ParquetPart)])
        return held

    @property
    def tier(self) -> int:
        """Capability tier, 0 to 6; see :func:`audit.schema.tier_of`."""
        return tier_of(self.columns)

    @property
    def num_rows(self) -> int:
        """Number of responses."""
        return sum(part.num_rows for part in self.parts)

    def responses(self, columns: Sequence[str] | None = None) -> pa.Table:
        """Return columns that have one value per response, for the whole run.

        Parameters
        ----------
        columns : sequence of str, optional
            Default: every column that is not a token list.

        Returns
        -------
        pyarrow.Table, shape (num_rows, len(columns))
            Canonical types, in the row order of :meth:`batches`; absent columns are null or their default.

        Raises
        ------
        UnknownName
            A column is not one of the schema.
        AuditError
            A column is a token list: those do not fit in memory and come from :meth:`batches`.
        """
        chosen = SCALARS if columns is None else tuple(columns)
        for name in chosen:
            if name in BY_NAME and BY_NAME[name].is_token_list:
                msg = f"column '{name}' is a token list; read it with run.batches(['{name}'])."
                raise AuditError(msg)
        parts = [part for part in self.parts if isinstance(part, ParquetPart)]
        if self.footers is not None and len(parts) == len(self.parts) and set(KEPT).issuperset(chosen):
            return read_scalars(self.place, parts, chosen)
        return pa.Table.from_batches(self.batches(chosen, max_tokens=_UNBOUNDED), schema=batch_schema(chosen))

    def batches(self, columns: Sequence[str], *, max_tokens: int = 1_000_000) -> Iterator[pa.RecordBatch]:
        """Stream columns of the whole run in bounded memory.

        Parameters
        ----------
        columns : sequence of str
            Columns of the schema, token lists or not.
        max_tokens : int
            Upper bound on the tokens of a batch, by the longest requested token list of each row (or
            ``length``, where requested); a single longer row is a batch of its own.

        Yields
        ------
        pyarrow.RecordBatch
            Canonical types, all nullable; rows ordered by file, then by place in the file. An absent column
            is null, or its default.

        Raises
        ------
        UnknownName
            A column is not one of the schema.
        BadLog
            A file is damaged, holds a value that does not fit, or changed since the run was opened.
        """
        for name in columns:
            if name not in BY_NAME:
                raise UnknownName.of("column", name, BY_NAME)
        return self._stream(tuple(columns), max(1, max_tokens))

    def _stream(self, columns: tuple[str, ...], max_tokens: int) -> Iterator[pa.RecordBatch]:
        for part in self.parts:
            yield from part.batches(columns, max_tokens=max_tokens)

    def connect(self) -> duckdb.DuckDBPyConnection:
        """Return a new in-memory DuckDB database whose view ``rollouts`` is this run.

        The view has every column of the schema in canonical types, and ``_file`` (place in ``parts``) and
        ``_row`` (place in the file), by which it can be put in the order of :meth:`batches`. Time zone: UTC.
        The connection is the caller's own; each thread calls this method for itself, since threads that share
        one connection get each other's results.
        """
        from audit.logs.view import connect

        return connect(self.parts)


def require_columns(parts: Sequence[Part], where: str) -> None:
    """Raise :class:`~audit.errors.MissingColumn` for required columns that no part has."""
    present = {name for part in parts for name in part.types}
    missing = [name for name in REQUIRED if name not in present]
    if missing:
        others = sorted({name for part in parts for name in part.unknown})
        first, rest = missing[0], missing[1:]
        hint = f"Also missing: {', '.join(rest)}." if rest else ""
        raise MissingColumn.needed_for(first, f"{where}: the rollout schema", others, hint=hint)

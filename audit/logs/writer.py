"""Writing rollout logs: whole files or none, and only rows that follow the schema."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pyarrow as pa
import pyarrow.parquet as pq

from audit.errors import BadLog
from audit.logs.batching import split_by_tokens
from audit.logs.files import ROLLOUTS, SUFFIX, sync
from audit.logs.manifest import Manifest, write_manifest
from audit.logs.new_rows import canonical_rows
from audit.schema import COLUMNS, TOKEN_LISTS, VERSION, arrow_schema


class RolloutWriter:
    """Writes ``<run_dir>/rollouts/<prefix>-000000.parquet``, -000001, … and ``<run_dir>/run.json``.

    Rows gather in a file under a temporary name, which readers ignore. :meth:`flush` (call it after each
    training step), :meth:`close`, or ``rows_per_file`` finish the file: it is synced to disk and gets its
    final name in one step. A killed process loses at most the rows since then. Use it as a context manager.

    Parameters
    ----------
    run_dir : str or Path
        Created if absent. Its name is the run id, unless the manifest gives another.
    manifest : dict or Manifest, optional
        Contents of run.json. An equal run.json may already be there; another one is refused.
    rows_per_file : int, optional
        Finish a file after this many rows; default: only on flush and close.
    max_tokens_per_group : int
        Bound on the tokens of a Parquet row group, which is also what the writer holds in memory.
    prefix : str
        Start of the file names. Writers of several processes take different prefixes.

    Raises
    ------
    BadManifest
        The manifest is not valid, or another run.json is already there.
    """

    def __init__(
        self,
        run_dir: str | Path,
        *,
        manifest: dict[str, Any] | Manifest | None = None,
        rows_per_file: int | None = None,
        max_tokens_per_group: int = 4_000_000,
        prefix: str = "part",
    ) -> None:
        if not prefix or prefix.startswith((".", "_")) or "/" in prefix or os.sep in prefix:
            msg = f"prefix {prefix!r} must be a plain file name that does not start with '.' or '_'."
            raise BadLog(msg)
        if rows_per_file is not None and rows_per_file < 1:
            msg = f"rows_per_file must be at least 1, not {rows_per_file}."
            raise BadLog(msg)
        self._run_dir = Path(run_dir)
        self._folder = self._run_dir / ROLLOUTS
        self._folder.mkdir(parents=True, exist_ok=True)
        self._prefix = prefix
        self._rows_per_file = rows_per_file
        self._max_tokens = max(1, max_tokens_per_group)
        self._buffer: list[pa.RecordBatch] = []
        self._buffered_rows = 0
        self._buffered_tokens = 0
        self._file: pq.ParquetWriter | None = None
        self._temporary: Path | None = None
        self._columns: set[str] = set()
        self._rows_in_file = 0
        self._rows_written = 0
        self._number = 0
        self._closed = False
        if manifest is not None:
            write_manifest(self._run_dir, manifest)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Rows that were accepted are kept, whatever ended the block.
        self.close()

    def write(self, rows: Sequence[Mapping[str, Any]] | pa.Table | pa.RecordBatch) -> None:
        """Append rows; all of them or, on an error, none.

        Parameters
        ----------
        rows : sequence of mappings, pyarrow.Table or pyarrow.RecordBatch
            Columns of the rollout schema; lists may be Python lists, numpy arrays or tensors. Without
            ``prompt_id`` it is taken from ``prompt`` by :func:`hash_prompt`.

        Raises
        ------
        MissingColumn
            A required column is absent.
        UnknownName
            A column is not one of the schema; own values belong in ``extra``, as a JSON object.
        BadLog
            A required value is null, a value does not fit its column, or token lists differ in length.
        """
        if self._closed:
            msg = f"{self._folder}: this writer is closed."
            raise BadLog(msg)
        batches = canonical_rows(rows, first_row=self._rows_written)
        for batch in batches:
            for piece in split_by_tokens(batch, self._max_tokens):
                self._append(piece)
        self._rows_written += sum(batch.num_rows for batch in batches)

    def flush(self) -> None:
        """Finish the current file, so that readers see every row written so far."""
        self._write_group()
        if self._file is None or self._temporary is None:
            return
        self._file.close()
        self._file = None
        sync(self._temporary)
        self._publish(self._temporary)
        self._temporary = None
        self._rows_in_file = 0
        self._columns.clear()

    def close(self) -> None:
        """Finish the current file; further writes are refused."""
        if not self._closed:
            self._closed = True
            self.flush()

    def _append(self, piece: pa.RecordBatch) -> None:
        while piece.num_rows:
            if self._file is not None and not self._columns.issuperset(piece.schema.names):
                # The columns of a file are fixed with its first row group.
                self.flush()
            self._columns.update(piece.schema.names)
            room = min(piece.num_rows, self._room())
            head, piece = piece.slice(0, room), piece.slice(room)
            tokens = _tokens(head)
            if self._buffered_tokens + tokens > self._max_tokens:
                self._write_group()
            self._buffer.append(head)
            self._buffered_rows += head.num_rows
            self._buffered_tokens += tokens
            if self._room() == 0:
                self.flush()

    def _room(self) -> int:
        """Rows that the current file may still take."""
        if self._rows_per_file is None:
            return sys.maxsize
        return self._rows_per_file - self._rows_in_file - self._buffered_rows

    def _write_group(self) -> None:
        if not self._buffer:
            return
        if self._file is None:
            self._temporary = self._folder / f".{self._prefix}-{os.getpid()}-{id(self):x}{SUFFIX}.tmp"
            self._file = _parquet_writer(self._temporary, self._columns)
        schema = self._file.schema
        pieces = [pa.Table.from_batches([piece]) for piece in self._buffer]
        # The empty table brings the columns that none of the pieces has.
        table = pa.concat_tables([schema.empty_table(), *pieces], promote_options="default").select(
            schema.names
        )
        self._file.write_table(table, row_group_size=max(1, table.num_rows))
        self._rows_in_file += table.num_rows
        self._buffer, self._buffered_rows, self._buffered_tokens = [], 0, 0

    def _publish(self, temporary: Path) -> None:
        """Give the file the next free number; never replace a file, also not one of a concurrent writer."""
        while True:
            final = self._folder / f"{self._prefix}-{self._number:06d}{SUFFIX}"
            self._number += 1
            try:
                os.link(temporary, final)
            except FileExistsError:
                continue
            except OSError:
                # A file system without hard links: reserve the name, then replace the reservation.
                try:
                    os.close(os.open(final, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
                except FileExistsError:
                    continue
                os.replace(temporary, final)
            else:
                temporary.unlink()
            sync(self._folder)
            return


def _tokens(batch: pa.RecordBatch) -> int:
    lists = [name for name in TOKEN_LISTS if name in batch.schema.names]
    longest: int = max([batch.num_rows, *(len(batch[name].flatten()) for name in lists)])
    return longest


def _parquet_writer(path: Path, names: set[str]) -> pq.ParquetWriter:
    columns = [column for column in COLUMNS if column.name in names]
    floats = [f"{c.name}.list.element" for c in columns if c.type == "list<float>"]
    repeating = [c.name for c in columns if c.type in {"int64", "int32", "string"}]
    schema = pa.schema([field for field in arrow_schema() if field.name in names])
    return pq.ParquetWriter(
        path,
        schema.with_metadata({"schema": VERSION}),
        compression="zstd",
        use_dictionary=[*repeating, "token_ids.list.element"],
        # Log-probs hardly repeat: their bytes compress well only when equal places stand together.
        column_encoding=dict.fromkeys(floats, "BYTE_STREAM_SPLIT"),
    )

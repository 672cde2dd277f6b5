"""Writing rollout logs: whole files or none, and only rows that follow the schema."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from audit.errors import BadLog, BadManifest, MissingColumn, UnknownName
from audit.logs.canonical import to_canonical
from audit.logs.files import ROLLOUTS, SUFFIX
from audit.logs.manifest import FILE_NAME, Manifest, manifest_from_dict, manifest_to_dict
from audit.logs.parts import split_by_tokens
from audit.schema import BY_NAME, COLUMNS, REQUIRED, TOKEN_LISTS, VERSION, arrow_schema

_FLOAT_LISTS = tuple(column.name for column in COLUMNS if column.type == "list<float>")


def hash_prompt(text: str) -> str:
    """Return the default ``prompt_id`` of a prompt: 16 hex digits, the same in every run and process."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


class RolloutWriter:
    """Writes ``<run_dir>/rollouts/<prefix>-000000.parquet``, -000001, … and ``<run_dir>/run.json``.

    Rows gather in a file under a temporary name, which readers ignore. :meth:`flush` (call it after each training
    step), :meth:`close`, or ``rows_per_file`` finish the file: it is synced to disk and gets its final name
    in one step. A killed process loses at most the rows since then. Use it as a context manager.

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
        self._buffered_tokens = 0
        self._file: pq.ParquetWriter | None = None
        self._temporary: Path | None = None
        self._rows_in_file = 0
        self._rows_written = 0
        self._number = 0
        self._closed = False
        if manifest is not None:
            _write_manifest(self._run_dir, manifest)

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
        batches = _canonical_rows(rows, first_row=self._rows_written)
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
        _sync(self._temporary)
        self._publish(self._temporary)
        self._temporary = None
        self._rows_in_file = 0

    def close(self) -> None:
        """Finish the current file; further writes are refused."""
        if not self._closed:
            self._closed = True
            self.flush()

    def _append(self, piece: pa.RecordBatch) -> None:
        while piece.num_rows:
            room = piece.num_rows
            if self._rows_per_file is not None:
                held = sum(batch.num_rows for batch in self._buffer)
                room = min(room, self._rows_per_file - self._rows_in_file - held)
            head, piece = piece.slice(0, room), piece.slice(room)
            tokens = _tokens(head)
            if self._buffered_tokens + tokens > self._max_tokens:
                self._write_group()
            self._buffer.append(head)
            self._buffered_tokens += tokens
            held = sum(batch.num_rows for batch in self._buffer)
            if self._rows_per_file is not None and self._rows_in_file + held >= self._rows_per_file:
                self.flush()

    def _write_group(self) -> None:
        if not self._buffer:
            return
        if self._file is None:
            self._temporary = self._folder / f".{self._prefix}-{os.getpid()}-{id(self):x}{SUFFIX}.tmp"
            self._file = _parquet_writer(self._temporary)
        table = pa.Table.from_batches(self._buffer, schema=arrow_schema())
        self._file.write_table(table, row_group_size=max(1, table.num_rows))
        self._rows_in_file += table.num_rows
        self._buffer, self._buffered_tokens = [], 0

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
            _sync(self._folder)
            return


def _canonical_rows(
    rows: Sequence[Mapping[str, Any]] | pa.Table | pa.RecordBatch, *, first_row: int
) -> list[pa.RecordBatch]:
    if isinstance(rows, pa.RecordBatch):
        raw = [rows]
    elif isinstance(rows, pa.Table):
        raw = rows.to_batches()
    else:
        raw = [_batch_of_mappings(rows, first_row)] if rows else []
    batches = []
    for batch in raw:
        batches.append(_checked(batch, first_row))
        first_row += batch.num_rows
    return batches


def _checked(batch: pa.RecordBatch, first_row: int) -> pa.RecordBatch:
    names = list(batch.schema.names)
    for name in names:
        if name not in BY_NAME:
            raise UnknownName.of("column", name, BY_NAME)
    if len(set(names)) < len(names):
        msg = f"rows to write: column '{next(n for n in names if names.count(n) > 1)}' is given twice."
        raise BadLog(msg)
    where = "rows to write"
    arrays = {name: to_canonical(batch.column(name), name, where) for name in names}
    if "prompt_id" not in arrays and "prompt" in arrays:
        texts = arrays["prompt"].to_pylist()
        arrays["prompt_id"] = pa.array([None if t is None else hash_prompt(t) for t in texts], pa.string())
    for name in REQUIRED:
        if name not in arrays:
            raise MissingColumn.needed_for(name, "a rollout row", names)
        if arrays[name].null_count and not BY_NAME[name].nullable:
            row = first_row + int(np.flatnonzero(np.asarray(arrays[name].is_null()))[0])
            msg = f"row {row}: '{name}' is null; the schema requires a value."
            raise BadLog(msg)
    _check_lengths(arrays, first_row)
    columns = [
        arrays[c.name] if c.name in arrays else pa.nulls(batch.num_rows, c.arrow_type) for c in COLUMNS
    ]
    return pa.RecordBatch.from_arrays(columns, schema=arrow_schema())


def _check_lengths(arrays: Mapping[str, pa.Array], first_row: int) -> None:
    """Raise for the first row whose token lists differ in length; null lists are not logged and do not count."""
    seen: tuple[str, np.ndarray] | None = None
    for name in TOKEN_LISTS:
        if name not in arrays:
            continue
        array = arrays[name]
        lengths = np.diff(np.asarray(array.offsets)).astype(np.int64)
        lengths[np.asarray(array.is_null())] = -1
        if seen is None:
            seen = name, lengths
            continue
        other, known = seen
        wrong = np.flatnonzero((lengths >= 0) & (known >= 0) & (lengths != known))
        if wrong.size:
            row = int(wrong[0])
            msg = (
                f"row {first_row + row}: '{name}' has {lengths[row]} values and '{other}' has {known[row]}; "
                f"all token lists of a row have one length."
            )
            raise BadLog(msg)
        seen = other, np.where(known >= 0, known, lengths)


def _batch_of_mappings(rows: Sequence[Mapping[str, Any]], first_row: int) -> pa.RecordBatch:
    names = list(dict.fromkeys(name for row in rows for name in row))
    arrays = [_array_of_values(name, [_plain(row.get(name)) for row in rows], first_row) for name in names]
    return pa.RecordBatch.from_arrays(arrays, names=names)


def _array_of_values(name: str, values: list[Any], first_row: int) -> pa.Array:
    if name not in BY_NAME:
        raise UnknownName.of("column", name, BY_NAME)
    column = BY_NAME[name]
    try:
        return pa.array(values, column.arrow_type)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        pass
    # Not of the canonical type as it stands (0/1 masks, integer ids, dicts): let Arrow find the type, then cast.
    try:
        return to_canonical(pa.array(values), name, "rows to write")
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        bad = next((i for i, value in enumerate(values) if not _fits(value, name)), 0)
        msg = f"row {first_row + bad}: '{name}' = {_short(values[bad])} does not fit {column.type}: {error}"
        raise BadLog(msg) from None


def _fits(value: Any, name: str) -> bool:
    try:
        to_canonical(pa.array([value]), name, "")
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return False
    return True


def _plain(value: Any) -> Any:
    """Turn a tensor into nested lists; numpy arrays and scalars are understood as they are."""
    if isinstance(value, (np.ndarray, np.generic)) or not hasattr(value, "tolist"):
        return value
    return value.tolist()


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "…"


def _tokens(batch: pa.RecordBatch) -> int:
    return max(batch.num_rows, *(len(batch[name].flatten()) for name in TOKEN_LISTS))


def _parquet_writer(path: Path) -> pq.ParquetWriter:
    leaves = {name: f"{name}.list.element" for name in _FLOAT_LISTS}
    plain = {*_FLOAT_LISTS, "loss_mask", "reward_components"}
    dictionary = [c.name for c in COLUMNS if c.name not in plain and not c.is_token_list]
    return pq.ParquetWriter(
        path,
        arrow_schema().with_metadata({"schema": VERSION}),
        compression="zstd",
        use_dictionary=[*dictionary, "token_ids.list.element"],
        # Log-probs hardly repeat: their bytes compress well only when equal places stand together.
        column_encoding={leaf: "BYTE_STREAM_SPLIT" for leaf in leaves.values()},
    )


def _write_manifest(run_dir: Path, manifest: dict[str, Any] | Manifest) -> None:
    content = manifest_to_dict(manifest) if isinstance(manifest, Manifest) else dict(manifest)
    content = {"schema": "rlaudit.run.v1", "run_id": run_dir.resolve().name, **content}
    manifest_from_dict(content, where="manifest")
    path = run_dir / FILE_NAME
    if path.exists():
        _refuse_other_manifest(path, content)
        return
    temporary = run_dir / f".{FILE_NAME}.{os.getpid()}-{id(content):x}.tmp"
    try:
        temporary.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    except TypeError as error:
        temporary.unlink(missing_ok=True)
        msg = f"manifest: cannot be written as JSON: {error}."
        raise BadManifest(msg) from None
    _sync(temporary)
    os.replace(temporary, path)
    _sync(run_dir)


def _refuse_other_manifest(path: Path, content: dict[str, Any]) -> None:
    try:
        there = json.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError):
        there = None
    given = json.loads(json.dumps(content))
    if there == given:
        return
    keys = sorted(k for k in {*given, *(there or {})} if (there or {}).get(k) != given.get(k))
    msg = (
        f"{path}: a run.json that differs in {', '.join(keys)} is already there. Take another directory for another "
        f"run, or manifest=None to go on with this one."
    )
    raise BadManifest(msg)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        # Some file systems refuse to sync a directory; the rename itself is then all there is.
        with contextlib.suppress(OSError):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)

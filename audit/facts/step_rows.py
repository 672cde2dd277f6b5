"""The rows of one step, held in memory, with every row whose statistics or counts they share."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from audit.errors import AuditError, BadLog, closest
from audit.facts.rows import RunRows
from audit.logs import Run
from audit.logs.parts import Part, TablePart
from audit.logs.view import quote_name
from audit.schema import BY_NAME, REQUIRED

PARTS = 8
"""Parts that the rows are cut into, so that every core has some."""


@dataclass(frozen=True)
class StepRows:
    """One step of a run, as a run of its own: any objective can be applied to it without reading again."""

    rows: RunRows
    """R rows: those of the step, and those of other steps that share a group, an update or a generation batch
    with them, since advantages and normalisers span these."""
    here: np.ndarray
    """bool, shape (R,): the row is of the step itself."""
    step: int
    table: pa.Table = field(repr=False)
    """Every column of the R rows, token lists included."""
    of_run: RunRows = field(repr=False)
    """The rows of the whole run: what is right is decided there."""
    at: np.ndarray = field(repr=False)
    """Places of the R rows in the whole run, int64, ascending."""

    @cached_property
    def groups(self) -> list[str]:
        """Distinct group_id of the step's rows, in the order of the log."""
        if "group_id" not in self.table.column_names:
            return []
        given = self.table["group_id"].filter(pa.array(self.here)).unique().to_pylist()
        return [group for group in given if group is not None]

    @cached_property
    def with_signal(self) -> str | None:
        """The first group of the step whose rewards differ; None where none does."""
        reward, code = self.rows.numpy("reward"), self.rows.sample
        count = int(code.max(initial=-1)) + 1
        low, high = np.full(count, np.inf), np.full(count, -np.inf)
        np.fmin.at(low, code, reward)
        np.fmax.at(high, code, reward)
        at = np.flatnonzero(self.here & self.rows.grouped & (low < high)[code])
        return str(self.table["group_id"][int(at[0])]) if len(at) else None

    @property
    def loss_tokens(self) -> np.ndarray:
        """Tokens that take loss, float64, shape (R,); 0 for rows of other steps."""
        facts = self.rows.facts
        held = np.nan_to_num(self.rows.length) if facts is None else facts["loss_tokens"].astype(float)
        return np.where(self.here, held, 0.0)


def steps_of(rows: RunRows) -> list[int]:
    """Return the steps of a run, in order.

    Raises
    ------
    BadLog
        The step of a row is null.
    """
    return [int(step) for step in np.unique(rows.step)]


def step_rows(rows: RunRows, step: int) -> StepRows:
    """Read one step.

    Parameters
    ----------
    rows : RunRows
        Of the whole run; its tokens are not read.

    Raises
    ------
    AuditError
        The run has no such step.
    BadLog
        A file is damaged or was changed, or rows have no step.
    """
    here = rows.step == step
    if not here.any():
        known = [str(each) for each in steps_of(rows)]
        ends = f" Its steps go from {known[0]} to {known[-1]}." if known else " It has no rows."
        msg = f"{rows.run.path}: there is no step {step}.{ends}{closest(str(step), known)}"
        raise AuditError(msg)
    some = rows_in_memory(rows, here, f"step {step}")
    return StepRows(some.rows, here[some.at], step, some.table, rows, some.at)


class SomeRows(NamedTuple):
    """Some rows of a run, as a run of its own."""

    rows: RunRows
    at: np.ndarray
    """Their places in the whole run, int64, ascending."""
    table: pa.Table


def rows_in_memory(rows: RunRows, here: np.ndarray, name: str) -> SomeRows:
    """Read the rows ``here``, bool of shape (R,), and every row whose statistics or counts they share.

    Raises
    ------
    BadLog
        A file is damaged or was changed, or rows have no step.
    """
    shared = here.copy()
    for code in (rows.sample, rows.update, rows.generation_batch):
        of_step = np.zeros(int(code.max(initial=-1)) + 1, dtype=bool)
        of_step[code[here]] = True
        shared |= of_step[code]
    steps = np.unique(rows.step[shared])
    among = np.isin(rows.step, steps)
    read = _read(rows.run, steps, among)
    if read.num_rows != int(among.sum()):
        msg = f"{rows.run.path}: the log was changed after it was opened; open the run again."
        raise BadLog(msg)
    table = read.filter(pa.array(shared[among]))
    run = Run.from_table(
        rows.run.path, rows.run.run_id, rows.run.manifest, table, format=rows.run.format, notes=rows.run.notes
    )
    run = replace(run, parts=_cut(table, f"{rows.run.path}: {name}"))
    return SomeRows(RunRows.read(run), np.flatnonzero(shared), table)


def _cut(table: pa.Table, name: str) -> tuple[Part, ...]:
    """Parts of about equally many rows: facts of a run are computed part by part, side by side."""
    size = max(-(-table.num_rows // PARTS), 1)
    starts = range(0, max(table.num_rows, 1), size)
    return tuple(TablePart(table.slice(at, size), name=f"{name}, from its row {at} on") for at in starts)


def _read(run: Run, steps: np.ndarray, among: np.ndarray) -> pa.Table:
    """All columns of the rows of some steps, in row order; parts and row groups without one are passed over.

    ``among`` tells the rows of the run that are of such a step, bool of shape (R,).
    """
    ends = np.cumsum([part.num_rows for part in run.parts])
    parts = tuple(
        part
        for part, end in zip(run.parts, ends.tolist(), strict=True)
        if among[end - part.num_rows : end].any()
    )
    # Integers and names of the schema, so nothing of the log becomes SQL. A column that holds nothing stays
    # out: its default would read as logged.
    wanted = ", ".join(str(int(step)) for step in steps)
    names = ", ".join(quote_name(name) for name in BY_NAME if name in run.columns or name in REQUIRED)
    query = f"SELECT {names} FROM rollouts WHERE step IN ({wanted}) ORDER BY _file, _row"
    with replace(run, parts=parts).connect() as connection:
        return connection.sql(query).to_arrow_table()

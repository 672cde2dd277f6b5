"""Which facts come from where: some holding for each (source, column), and what none has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from audit.facts.store.fingerprint import Source
from audit.facts.store.segment import Holding

Piece = tuple[Holding, frozenset[str]]


@dataclass(frozen=True)
class Plan:
    """For each source, what gives its columns."""

    sources: Sequence[Source]
    names: tuple[str, ...]
    pieces: list[list[Piece]]
    """Per source: holdings, and the columns taken from each; no column twice."""
    missing: dict[int, frozenset[str]]
    """Place of a source → columns that no holding has."""


def make_plan(sources: Sequence[Source], names: Sequence[str], holdings: Sequence[Holding]) -> Plan:
    """Find for each source and column the first holding that has it."""
    wanted = frozenset(names)
    needs = [wanted] * len(sources)
    pieces: list[list[Piece]] = [[] for _ in sources]
    for holding in holdings:
        for place, source in enumerate(sources):
            if not needs[place] or source not in holding.starts:
                continue
            taken = needs[place] & holding.columns
            if taken:
                pieces[place].append((holding, taken))
                needs[place] = needs[place] - taken
    missing = {place: need for place, need in enumerate(needs) if need}
    return Plan(sources, tuple(names), pieces, missing)


def carry_out(plan: Plan) -> pa.Table:
    """Return the facts of a plan that misses nothing: rows in the order of the sources.

    Raises
    ------
    Damaged
        A holding cannot be read.
    """
    tables = _read(plan)
    columns: dict[str, pa.ChunkedArray] = {}
    for names in _classes(plan):
        table = _in_order(plan, names, tables)
        columns.update(zip(names, table.columns, strict=True))
    return pa.table({name: columns[name] for name in plan.names})


def _read(plan: Plan) -> dict[int, pa.Table]:
    """Read each holding once: the columns that some source takes from it."""
    taken: dict[int, tuple[Holding, set[str]]] = {}
    for pieces in plan.pieces:
        for holding, columns in pieces:
            taken.setdefault(id(holding), (holding, set()))[1].update(columns)
    order = plan.names
    return {
        key: holding.read([name for name in order if name in columns])
        for key, (holding, columns) in taken.items()
    }


def _classes(plan: Plan) -> list[list[str]]:
    """Split the names so that those of one class come from one holding in every source."""
    classes = [list(plan.names)] if plan.names else []
    for taken in {columns for pieces in plan.pieces for _, columns in pieces}:
        halves = [[n for n in c if (n in taken) is side] for c in classes for side in (True, False)]
        classes = [half for half in halves if half]
    return classes


def _in_order(plan: Plan, names: list[str], tables: dict[int, pa.Table]) -> pa.Table:
    slices: list[tuple[int, int, int]] = []
    for source, pieces in zip(plan.sources, plan.pieces, strict=True):
        holding = next(holding for holding, columns in pieces if names[0] in columns)
        start = holding.starts[source]
        if slices and slices[-1][0] == id(holding) and slices[-1][2] == start:
            slices[-1] = (slices[-1][0], slices[-1][1], start + source.rows)
        else:
            slices.append((id(holding), start, start + source.rows))
    cut = [tables[key].select(names).slice(start, stop - start) for key, start, stop in slices]
    return pa.concat_tables(cut, promote_options="permissive")

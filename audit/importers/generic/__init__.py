"""Any file of responses (Parquet, JSONL, JSON, CSV, TSV): columns by mapping, by name, by alias."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from itertools import chain, islice
from pathlib import Path

import msgspec

from audit.errors import BadLog, closest
from audit.importers.generic.columns import TARGETS, Plan, is_named, lacking, missing, plan_of, unknown
from audit.importers.generic.files import kind_of, records_of
from audit.importers.generic.folders import NO_RECORDS, files_in
from audit.importers.generic.heads import Head, head_of, head_of_records
from audit.importers.generic.unmapped import how_to_say
from audit.importers.generic.values import numbered, rows_of
from audit.importers.interface import Book, Detection, Importer, Row, Source, Unit
from audit.importers.mapping import mapping_near
from audit.importers.repeats import REPEATED, Repeats
from audit.importers.values import OddValue
from audit.logs.files import ROLLOUTS
from audit.logs.manifest import Manifest, read_manifest
from audit.schema import COLUMNS, LOG_PROBS, TOKEN_LISTS

PEEKED = 200
"""Records that are looked at for names before the first is read."""
_STEP_FILE = re.compile(r"(?:^|step|iter|iteration|batch)[-_ ]*(\d+)$", re.IGNORECASE)
_BESIDE = ("wandb", "runs", "tensorboard", "trackio", "metrics", "checkpoint", "logs")
_OURS = {"prompt_id", "group_id", "sample_index"}


def detect(path: Path) -> Detection | None:
    """Take a file of records, however it names them, and a folder of files that name a prompt and a reward.

    Never surely: every other format comes first. What it takes only where it is asked for by name has a
    confidence below the least: Parquet that lacks columns (opening it says which), folders with folders in
    them.
    """
    if path.is_file():
        kind = kind_of(path)
        if kind is None or path.name in NO_RECORDS:
            return None
        lacking = kind == ".parquet" and _lacks(path, path)
        return Detection(0.05 if lacking else _sure(path, path), f"records in {path.name}")
    files = files_in(path) if path.is_dir() and not (path / ROLLOUTS).is_dir() else []
    if not files:
        return None
    folders = (f for f in path.iterdir() if f.is_dir() and not f.name.startswith((".", "_", *_BESIDE)))
    nested = any(kind_of(folder) is None for folder in folders)
    lacking = nested or _lacks(files[0], path)
    return Detection(0.05 if lacking else _sure(files[0], path), f"records in {files[0].name}")


def units(path: Path) -> list[Unit]:
    """One a file where files are named by step, else one for all: shards share groups."""
    if path.is_file():
        return [Unit(path.name, (path,))]
    files = files_in(path)
    steps = [_step_of(file) for file in files]
    if None not in steps and len(set(steps)) == len(steps):
        return [Unit(file.name, (file,)) for file in files]
    return [Unit(path.name, tuple(files))] if files else []


def rows(unit: Unit, source: Source, book: Book) -> Iterator[Row]:
    """Read the records of a unit.

    Raises
    ------
    BadLog
        They name no prompt or no reward, or a declared column is in none of them.
    """
    repeats = Repeats()
    if len(unit.files) > 1:
        book.note(
            f"{len(unit.files)} files are taken as parts of one run; a file is opened alone by its own path"
        )
    for file in unit.files:
        step = _step_of(file) if len(unit.files) == 1 and source.path.is_dir() else None
        yield from numbered(_rows(file, source, book, repeats), book, step)
    if repeats.back:
        book.note(
            "steps come back after later ones, with other rows (a restart, or several writers): whether the "
            "earlier rows were trained on is not known"
        )


def manifest(path: Path) -> Manifest:
    """Read the run.json beside the log; without one only the name is known."""
    folder = path if path.is_dir() else path.parent
    name = path.name.split(".")[0] if path.is_file() else None
    found = read_manifest(folder, run_id=name or None)
    if found.declared:
        return found
    files = [path] if path.is_file() else files_in(path)
    plan = _plan(files[0], path) if files else None
    text_only = plan is not None and not plan.sources.keys() & {"length", *TOKEN_LISTS}
    return msgspec.structs.replace(found, length_unit="characters") if text_only else found


def _rows(file: Path, source: Source, book: Book, repeats: Repeats) -> Iterator[Row]:
    declared = source.options.columns
    stream = records_of(file, book)
    first = list(islice(stream, PEEKED))
    if first:
        _check(head_of_records(first), source, book)
    plans: dict[tuple[str, ...], Plan] = {}
    for number, record in enumerate(chain(first, stream)):
        keys = tuple(map(str, record))
        plan = plans.get(keys)
        if plan is None:
            if len(plans) > 1000:
                plans.clear()
            plan = plans[keys] = plan_of(keys, declared)
        try:
            made = rows_of(record, plan)
        except OddValue as odd:
            book.reject(str(odd))
            continue
        if number < PEEKED:
            _look(made, book)
        step = made[0].get("step") if made else None
        if repeats.repeated(step if isinstance(step, (int, str)) else None, record):
            book.reject(REPEATED, len(made))
            continue
        yield from made


def _check(head: Head, source: Source, book: Book) -> None:
    """Refuse a file that lacks what is needed, and say which names mean nothing."""
    names, declared, log = list(head), source.options.columns, source.path
    for column, name in declared.items():
        if not is_named(name, names):
            msg = f"no record has {name!r}, which was declared to be {column}.{closest(name, names)}"
            raise BadLog(msg)
    plan = plan_of(names, declared)
    if lacks := lacking(plan):
        msg = f"has no column for {' and none for '.join(missing(plan))}. {how_to_say(log, head, lacks)}"
        raise BadLog(msg)
    rest, asked = unknown(names, plan)
    if rest:
        book.note(f"kept in extra, as no column of the schema: {', '.join(sorted(rest))}")
    if asked:
        book.note(f"kept in extra, as what they are has to be said (--column): {', '.join(sorted(asked))}")


def _look(made: list[Row], book: Book) -> None:
    for row in made:
        for name in LOG_PROBS:
            values = row.get(name)
            if isinstance(values, list) and any(isinstance(v, (int, float)) and v > 1e-3 for v in values):
                book.note(f"{name} holds values above 0: these are no log-probabilities (negated?)")


def _lacks(file: Path, log: Path) -> bool:
    """Whether a file lacks what is needed, or is a broken log of our own, of which opening it says more."""
    names = head_of(file)
    declared = _declared(log, names)
    ours = kind_of(file) == ".parquet" and len(_OURS & names.keys()) > 1 and not declared
    return ours or bool(lacking(plan_of(names, declared)))


def _sure(file: Path, log: Path) -> float:
    """Confidence: more where tokens are named, which a text dump with the same names lacks."""
    return 0.65 if _plan(file, log).sources.keys() & set(TOKEN_LISTS) else 0.31


def _declared(path: Path, names: Collection[str]) -> dict[str, str]:
    """What a mapping near the log says of columns that are there; it may be of other logs as well."""
    try:
        mapping = mapping_near(path)
    except BadLog:
        return {}
    columns = {} if mapping is None else mapping.columns
    return {column: source for column, source in columns.items() if is_named(source, names)}


def _plan(file: Path, log: Path) -> Plan:
    names = head_of(file)
    return plan_of(names, _declared(log, names))


def _step_of(file: Path) -> int | None:
    found = _STEP_FILE.search(file.name.split(".")[0])
    return int(found[1]) if found and len(found[1]) < 16 else None


IMPORTER = Importer(
    name="generic",
    title="any Parquet, JSONL, JSON, CSV or TSV file of responses; columns by name, alias or --column",
    detect=detect,
    units=units,
    rows=rows,
    manifest=manifest,
    grouping="blocks",
    takes=frozenset(TARGETS),
    holds=tuple(c.name for c in COLUMNS if not c.required or c.name == "reward"),
)

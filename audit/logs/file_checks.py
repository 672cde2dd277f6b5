"""Problems that show in the list of files, their columns, and run.json."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from audit.counted import plural
from audit.errors import closest
from audit.logs.canonical import is_list, plain_type
from audit.logs.manifest import unknown_key_hint
from audit.logs.parts import Part
from audit.logs.run import Run
from audit.schema import BY_NAME, COLUMNS, LOG_PROBS, Problem


def file_problems(run: Run) -> list[Problem]:
    """Return the problems that need no look at the rows, and at which step a column begins or ends."""
    return [
        *_manifest(run),
        *_skipped(run),
        *_rejected(run),
        *_unknown_columns(run),
        *_types(run),
        *_columns_in_some_files(run),
    ]


def _manifest(run: Run) -> Iterator[Problem]:
    manifest = run.manifest
    if not manifest.declared:
        yield Problem(
            id="manifest.absent",
            severity="info",
            summary="The log has no run.json: what the run was meant to do is not declared.",
            hint="Write one (schemas/README.md); with framework and config the objective is known.",
        )
    elif manifest.schema is None and run.format == "rlaudit":
        yield Problem(
            id="manifest.schema-absent",
            severity="warning",
            summary="run.json has no key 'schema'.",
            hint='Add "schema": "rlaudit.run.v1".',
        )
    for key in manifest.unknown:
        yield Problem(
            id="manifest.unknown-key",
            severity="warning",
            summary=f"run.json: key '{key}' is not known and not used.{unknown_key_hint(key)}",
            hint="The framework's own settings belong under 'config'.",
        )


def _skipped(run: Run) -> Iterator[Problem]:
    by_reason: dict[str, list[str]] = defaultdict(list)
    for file in run.skipped:
        by_reason[file.reason.split(":")[0]].append(file.path.name)
    for reason, names in by_reason.items():
        yield Problem(
            id="file.skipped",
            severity="info" if reason.startswith(("not rollouts", "same file")) else "warning",
            summary=f"{plural(len(names), 'file')} not read ({reason}): {_listed(names)}.",
            hint="Its writer is still at work, or was killed." if reason == "being written" else "",
        )


def _rejected(run: Run) -> Iterator[Problem]:
    for reason, rows in run.rejected.items():
        yield Problem(
            id="row.rejected",
            severity="warning",
            rows=rows,
            summary=f"{plural(rows, 'row')} of the {run.format} log left out: {reason}.",
        )


def _unknown_columns(run: Run) -> Iterator[Problem]:
    parts: dict[str, int] = defaultdict(int)
    for part in run.parts:
        for name in part.unknown:
            parts[name] += 1
    for name, count in parts.items():
        clash = name.lower() in BY_NAME
        where = f"in {count} of {len(run.parts)} files" if len(run.parts) > 1 else "in the log"
        yield Problem(
            id="column.case-clash" if clash else "column.unknown",
            severity="warning" if clash else "info",
            column=name,
            summary=f"Column '{name}' ({where}) is not in the schema, and not read.{closest(name, BY_NAME)}",
            hint="Column names are matched exactly." if clash else "Own values belong in 'extra'.",
        )


def _types(run: Run) -> Iterator[Problem]:
    for column in COLUMNS:
        found: dict[str, list[str]] = defaultdict(list)
        for part in run.parts:
            kind = plain_type(part.types[column.name]) if column.name in part.types else None
            if kind is not None and not pt.is_null(kind):
                found[_meaning(kind)].append(part.name)
        if len(found) > 1:
            kinds = "; ".join(f"{kind} in {len(names)} ({names[0]})" for kind, names in found.items())
            yield Problem(
                id="column.type-conflict",
                severity="info",
                column=column.name,
                summary=f"'{column.name}' has several types: {kinds}. Each file was cast to {column.type}.",
            )
        if column.name in LOG_PROBS and any("halffloat" in kind for kind in found):
            yield Problem(
                id="logp.half-precision",
                severity="warning",
                column=column.name,
                summary=f"'{column.name}' was logged in float16: near -10 it steps by 0.0078.",
                hint="Log float32; a ratio of two such values is off by up to 0.8 %.",
            )


def _meaning(kind: pa.DataType) -> str:
    """Name a type so that kinds of lists and of strings, which hold the same values, are not told apart."""
    if is_list(kind):
        return f"list<{_meaning(plain_type(kind.value_type))}>"
    return "string" if pt.is_large_string(kind) or pt.is_string_view(kind) else str(kind)


def _columns_in_some_files(run: Run) -> Iterator[Problem]:
    if len(run.parts) < 2:
        return
    held = [part.holding(run.columns) for part in run.parts]
    filled = [place for place, part in enumerate(run.parts) if part.num_rows]
    for column in COLUMNS:
        if column.default is not None:
            continue
        having = [place for place in filled if column.name in held[place]]
        lacking = [place for place in filled if column.name not in held[place]]
        if not having or not lacking:
            continue
        first, last = _step_range([run.parts[place] for place in having])
        span = f" (steps {first} to {last})" if first is not None else ""
        yield Problem(
            id="column.missing" if column.required else "column.in-some-files",
            severity="error" if column.required else "warning",
            column=column.name,
            rows=sum(run.parts[place].num_rows for place in lacking),
            steps=None if first is None else (first,),
            summary=(
                f"'{column.name}' has values in {len(having)} of {len(filled)} files{span}; "
                f"not in {_listed([run.parts[place].name for place in lacking])}."
            ),
        )


def _step_range(parts: list[Part]) -> tuple[int | None, int | None]:
    limits: list[int] = []
    for part in parts:
        for batch in part.batches(["step"], max_tokens=2**62):
            both = pc.min_max(batch["step"]).as_py()
            limits += [both[k] for k in ("min", "max") if both[k] is not None]
    return (min(limits), max(limits)) if limits else (None, None)


def _listed(names: list[str], most: int = 3) -> str:
    return ", ".join(names[:most]) + (f", … ({len(names) - most} more)" if len(names) > most else "")

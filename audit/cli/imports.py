"""``rlaudit import``: a foreign log as a run directory; and which formats there are."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from audit.cli.options import AsJson, emit_json, place
from audit.errors import AuditError

if TYPE_CHECKING:
    from audit.importers.mapping import Mapping


def register(app: typer.Typer) -> None:
    """Add the verbs of this file."""
    app.command("import")(import_log)


def import_log(
    path: Annotated[
        Path | None,
        typer.Argument(parser=place, metavar="SRC", help="The foreign log: a directory or a file."),
    ] = None,
    dest: Annotated[
        Path | None, typer.Argument(parser=place, metavar="DEST", help="The run directory to make.")
    ] = None,
    *,
    format_name: Annotated[
        str | None, typer.Option("--format", help="Name of the format; default: found out.")
    ] = None,
    column: Annotated[
        list[str] | None,
        typer.Option(
            "--column", metavar="NAME=SOURCE", help="Column of the rollout schema = name in the log, as a.b."
        ),
    ] = None,
    mapping: Annotated[
        Path | None, typer.Option("--mapping", help="TOML file with format, columns, group_size, grouping.")
    ] = None,
    group_size: Annotated[
        int | None,
        typer.Option("--group-size", min=2, help="Responses of a group, where rows have no group id."),
    ] = None,
    grouping: Annotated[
        str | None,
        typer.Option("--grouping", help="blocks: groups stand together; prompt: all of a prompt in a step."),
    ] = None,
    formats: Annotated[bool, typer.Option("--formats", help="List the formats and what they hold.")] = False,
    as_json: AsJson = False,
) -> None:
    """Import a foreign log into a run directory. Other commands open foreign logs without this.

    Killed or run again, it goes on where it was; nothing is read twice that was
    not changed. A file rlaudit.toml beside a log may hold the mapping, so that
    every command opens it.

    Example: rlaudit import sample_logs/trl_completions runs/mine
    """
    if formats:
        _list(as_json=as_json)
        return
    if path is None or dest is None:
        msg = "import takes SRC and DEST: the log and the run directory to make (or --formats)."
        raise AuditError(msg)
    from audit.importers import IMPORTERS
    from audit.importers.into import import_into
    from audit.importers.mapping import read_mapping
    from audit.importers.opening import choose
    from audit.importers.said import mapping_of
    from audit.logs.places import readable

    with readable(path):
        if not path.exists():
            msg = f"{path}: no such file or directory."
            raise AuditError(msg)
        said = read_mapping(mapping) if mapping is not None else mapping_of(path, IMPORTERS)
        asked = _merged(
            said, format_name=format_name, columns=column or [], group_size=group_size, grouping=grouping
        )
        options = asked.options()
        found = choose(path, IMPORTERS, asked.format, asked.columns)
        if found is None:
            raise AuditError(_unknown(path))
        result = import_into(path, dest, found[0], options)
    if as_json:
        emit_json(result)
        return
    from audit.report.text import show_imported

    show_imported(result)


def _merged(
    said: Mapping,
    *,
    format_name: str | None,
    columns: list[str],
    group_size: int | None,
    grouping: str | None,
) -> Mapping:
    """A mapping file, with what the flags say on top of it."""
    import msgspec

    from audit.errors import UnknownName

    if grouping is not None and grouping not in (known := ("blocks", "prompt", "given")):
        raise UnknownName.of("grouping", grouping, known)
    return msgspec.structs.replace(
        said,
        format=format_name or said.format,
        columns={**said.columns, **dict(map(_pair, columns))},
        group_size=group_size or said.group_size,
        grouping=grouping or said.grouping,
    )


def _pair(text: str) -> tuple[str, str]:
    name, equals, source = text.partition("=")
    if not (equals and name.strip() and source.strip()):
        msg = f"--column {text}: expected NAME=SOURCE, as in reward=grade."
        raise AuditError(msg)
    return name.strip(), source.strip()


def _unknown(path: Path) -> str:
    """Why nothing takes a path, and what to do."""
    from audit.importers import find_runs
    from audit.importers.generic.unmapped import explain_unmapped
    from audit.logs.catalogue import is_run_directory, open_native

    try:
        open_native(path)
    except AuditError as error:
        why = error
    else:
        return f"{path}: is a run of the rollout schema already; open it as it is."
    if path.is_dir() and (within := [str(entry.path) for entry in find_runs(path) if entry.path != path]):
        some = ", ".join(within[:3]) + (f" and {len(within) - 3} more" if len(within) > 3 else "")
        return f"{path}: holds logs, but is none itself; import one of: {some}."
    if (told := explain_unmapped(path, why, listing=False)) is not None:
        return str(told)
    if path.suffix == ".parquet" or (path.is_dir() and is_run_directory(path)):
        return str(why)
    return (
        f"{path}: no format takes this for its own; rlaudit import --formats lists them, --format says one."
    )


def _list(*, as_json: bool) -> None:
    from audit.importers import IMPORTERS
    from audit.report.formats import described

    if as_json:
        emit_json(described(IMPORTERS))
        return
    from audit.report.text import show_formats

    show_formats(described(IMPORTERS))

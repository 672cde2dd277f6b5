"""``rlaudit facts``: make the pass over tokens now, so that what comes later opens at once."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from audit.cli.options import AsJson, emit_json
from audit.errors import AuditError, BadLog

if TYPE_CHECKING:
    from audit.cli.facts_progress import Progress
    from audit.facts.facts_report import RunPass
    from audit.facts.store import Engine
    from audit.facts.tokenpass.spent import Spent
    from audit.logs import Run


class EngineName(enum.StrEnum):
    """Where the pass runs."""

    local = "local"
    ray = "ray"


class Device(enum.StrEnum):
    """What it runs on."""

    auto = "auto"
    cpu = "cpu"
    cuda = "cuda"


def register(app: typer.Typer) -> None:
    """Add the verbs of this file."""
    app.command()(facts)


def facts(
    paths: Annotated[list[str], typer.Argument(help="Runs, or directories of runs.", metavar="PATH...")],
    engine: Annotated[
        EngineName, typer.Option("--engine", help="This machine's cores, or a Ray cluster.")
    ] = EngineName.local,
    address: Annotated[
        str | None, typer.Option("--address", help="Address of the Ray cluster; default: RAY_ADDRESS.")
    ] = None,
    device: Annotated[Device, typer.Option("--device", help="auto: a GPU where there is one.")] = Device.auto,
    as_json: AsJson = False,
) -> None:
    """Make the pass over the tokens of runs and store per-response facts: what comes later opens at once.

    Files whose facts are stored already are not read again; an interrupted pass goes on where it was.

    Example: rlaudit facts sample_logs/team
    """
    from audit.cli.facts_progress import watching
    from audit.facts.facts_report import FactsReport
    from audit.logs.broken import BrokenRun

    if address is not None and engine is not EngineName.ray:
        msg = "--address is of a Ray cluster: add --engine ray."
        raise AuditError(msg)
    done: list[RunPass] = []
    broken: list[BrokenRun] = []
    with watching() as progress, _cluster(engine, address):
        for path, run in _runs(paths):
            try:
                if isinstance(run, AuditError):
                    raise run
                found = _compute(run, engine, address, device, progress)
            except AuditError as error:
                broken.append(BrokenRun(path, str(error)))
                continue
            done.append(found)
            if not as_json:
                progress.print(_line(found))
        if done or len(broken) > 1:
            for one in broken:
                progress.say(f"{one.path}: left out: {one.error}")
    if not done:
        raise BadLog(broken[0].error if len(broken) == 1 else f"none of {len(broken)} runs can be read.")
    if as_json:
        emit_json(FactsReport(done, broken))


def _runs(paths: list[str]) -> Iterator[tuple[str, Run | AuditError]]:
    """Open the runs that the paths mean; one that cannot be opened is yielded as its error."""
    from audit.importers import find_runs, open_run
    from audit.logs.places import Unreachable, is_directory, to_place

    for path in paths:
        try:
            yield path, open_run(path)
        except AuditError as error:
            place = to_place(path)
            # What gave no answer would only be waited for again.
            here = not isinstance(error, Unreachable) and is_directory(place)
            entries = find_runs(place) if here else []
            if not entries or (len(entries) == 1 and entries[0].path.resolve() == place.resolve()):
                yield path, error
                continue
            for entry in entries:
                yield str(entry.path), entry.run or entry.error or error


def _compute(
    run: Run, engine: EngineName, address: str | None, device: Device, progress: Progress
) -> RunPass:
    from audit.facts.facts_report import RunPass
    from audit.facts.run_facts import standard_facts
    from audit.facts.store import request
    from audit.facts.tokenpass.spent import Spent

    progress.open(run.run_id)
    spent = Spent()
    _, account = request(
        run,
        standard_facts(run),
        engine=_ray(run, address) if engine is EngineName.ray else _local(run, spent),
        device=device.value,
        progress=progress.advance,
        watcher=progress,
        in_order=True,
        read=False,
    )
    seconds = account.seconds
    return RunPass(
        path=str(run.path),
        run_id=run.run_id,
        rows=run.num_rows,
        tokens=progress.tokens,
        files=account.files,
        computed=account.computed,
        seconds=seconds,
        tokens_per_second=progress.tokens / seconds if progress.tokens else None,
        stored=None if account.place is None else str(account.place),
        not_stored=account.not_stored,
        limited_by=_limit(spent),
    )


def _cluster(engine: EngineName, address: str | None) -> AbstractContextManager[object]:
    """Ray for all runs together: to start it takes longer than most of them."""
    if engine is not EngineName.ray:
        return nullcontext()
    from audit.facts.engines.ray import cluster

    return cluster(address)


def _local(run: Run, spent: Spent) -> Engine:
    from audit.facts.engines.local import compute
    from audit.facts.store import counts_tokens

    return partial(compute, in_tokens=counts_tokens(run), spent=spent)


def _limit(spent: Spent) -> str | None:
    found = spent.limit()
    return None if found is None else f"{found[0]}, {found[1]:.0%} of the work"


def _ray(run: Run, address: str | None) -> Engine:
    from audit.facts.engines.ray import compute
    from audit.facts.store import counts_tokens

    return partial(compute, address=address, in_tokens=counts_tokens(run))


def _line(found: RunPass) -> str:
    from audit.report.format import count, plural, visible

    speed = "" if found.tokens_per_second is None else f", {_short(found.tokens_per_second)} tokens/s"
    speed += f", limited by {found.limited_by}" if found.limited_by else ""
    stored = f"stored in {found.stored}" if found.stored else f"not stored: {found.not_stored}"
    return "\n".join(
        map(
            visible,
            (
                f"{found.run_id}: {plural(found.rows, 'response')}, {count(found.tokens)} tokens read",
                f"  {plural(found.files, 'file')}: {found.computed} computed, "
                f"{found.files - found.computed} reused",
                f"  {found.seconds:.2f} s{speed}",
                f"  {stored}",
            ),
        )
    )


def _short(value: float) -> str:
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value:.0f}"

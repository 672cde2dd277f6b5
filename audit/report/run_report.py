"""One report of one or several runs, section by section: what the verb and the dashboard hand around."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from audit.errors import AuditError, UnknownName
from audit.logs import Run
from audit.report.provenance import RunMark, mark_run, versions
from audit.stats import LEVEL, RESAMPLES

SECTIONS: dict[str, str] = {
    "explain": "Why the runs differ",
    "summary": "What the log holds",
    "check": "Validity, and what was declared",
    "length": "Length",
    "groups": "Groups without signal",
    "prompts": "Prompts that carry the gradient",
    "clipping": "Clipping",
    "kl": "KL",
    "mismatch": "Sampler against trainer",
    "staleness": "Staleness",
    "rewards": "Rewards",
}
"""Section → title, in the order of a report."""
Measure = Callable[[str, Sequence[Run]], Any]
"""(section, runs) → a result of the analyses, or why there is none as text."""


class Section(msgspec.Struct, frozen=True, kw_only=True):
    """One analysis of one run, or of all of them."""

    section: str
    title: str
    runs: list[str]
    result: Any
    """As ``--json`` of the verb gives it; null where it could not be made."""
    failed: str | None
    """Why there is no result."""


class RunReport(msgspec.Struct, frozen=True, kw_only=True):
    """What was found, of which files, by which versions, with which parameters."""

    schema: str = "rlaudit.report.v1"
    runs: list[RunMark]
    versions: dict[str, str]
    parameters: dict[str, str]
    sections: list[Section]


def run_report(
    runs: Sequence[Run],
    sections: Sequence[str] = (),
    *,
    measure: Measure,
    hashed: bool = True,
    progress: Callable[[str], None] = lambda _: None,
) -> RunReport:
    """Measure the sections of every run, and say what they were measured on.

    Parameters
    ----------
    sections : sequence of str
        Keys of :data:`SECTIONS`; without any, all of them. ``explain`` needs two runs or more.
    measure : callable
        Computes a result, or gives one that is known already.
    hashed : bool
        Whether the content of every file is read for its SHA-256.
    progress : callable
        Told what is being done.

    Raises
    ------
    UnknownName
        No such section.
    AuditError
        No run, or a file changed or vanished meanwhile.
    """
    chosen = check_sections(sections)
    if not runs:
        msg = "a report needs at least one run."
        raise AuditError(msg)
    try:
        made = list(_sections(chosen, runs, measure, progress))
        progress("reading the files")
        marks = [mark_run(run, hashed=hashed) for run in runs]
    except OSError as error:
        msg = f"{error.filename or 'a file of the log'}: {error.strerror or error}, while it was read; "
        msg += "run the report again."
        raise AuditError(msg) from None
    return RunReport(
        runs=marks,
        versions=versions(),
        parameters={
            "sections": ", ".join(chosen),
            "objective": "each run's own, declared or by its framework's defaults",
            "intervals": f"{LEVEL:.0%}, bootstrap over prompts, {RESAMPLES:,} resamples, seed 0",
            "command": f"rlaudit report {'RUN ' * len(runs)}--sections {','.join(chosen)} -o FILE",
        },
        sections=made,
    )


def check_sections(sections: Sequence[str]) -> list[str]:
    """Return the sections in the order of a report; all of them where none is given.

    Raises
    ------
    UnknownName
    """
    for name in sections:
        if name not in SECTIONS:
            raise UnknownName.of("section", name, SECTIONS)
    return [name for name in SECTIONS if not sections or name in sections]


def _sections(
    chosen: Sequence[str], runs: Sequence[Run], measure: Measure, progress: Callable[[str], None]
) -> Iterator[Section]:
    for name in chosen:
        if name == "explain":
            if len(runs) > 1:
                progress("comparing the runs")
                yield _section(name, runs, measure)
            continue
        for run in runs:
            progress(f"{name} of {run.run_id}")
            yield _section(name, [run], measure)


def _section(name: str, runs: Sequence[Run], measure: Measure) -> Section:
    try:
        result = measure(name, runs)
    except AuditError as error:
        result = str(error)
    failed = result if isinstance(result, str) else None
    return Section(
        section=name,
        title=SECTIONS[name],
        runs=[run.run_id for run in runs],
        result=None if failed is not None else result,
        failed=failed,
    )

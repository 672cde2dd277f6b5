"""``rlaudit weights``: the effective weight of every token, as a table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from audit.cli.options import ObjectiveOption, RunPath, SetOption, objective_for


def register(app: typer.Typer) -> None:
    """Add the verbs of this file."""
    app.command()(weights)


def weights(
    path: RunPath,
    out: Annotated[Path, typer.Option("-o", "--output", help="Parquet file to write.")],
    objective: ObjectiveOption = None,
    changes: SetOption = None,
) -> None:
    """Write the weight w = -dL/dlog pi of every token, its advantage, and whether the clip removed it.

    Example: rlaudit weights sample_logs/team/grpo-seed1 --objective dr_grpo -o weights.parquet
    """
    from audit.cli.progress import working
    from audit.facts.rows import RunRows
    from audit.facts.weigh import write_weights
    from audit.importers import open_run
    from audit.logs.output import check_output
    from audit.report.format import plural

    check_output(out, (".parquet",))
    run = open_run(path)
    check_output(out, (".parquet",), (file.path for file in run.files))
    with working(f"weighing the tokens of {run.run_id}"):
        rows = RunRows.read(run)
        chosen, notes = objective_for(rows, objective, changes)
        written = write_weights(rows, chosen, out)
    notes += [f"file left out: {skip.path}: {skip.reason}" for skip in run.skipped]
    if written.not_finite:
        notes.append(
            f"{written.not_finite} of {written.rows} responses have weights that are not finite, since "
            "rewards, advantages or log-probs are not (rlaudit check names them)."
        )
    for note in notes:
        typer.echo(f"note: {note}", err=True)
    source = "the log" if chosen.baseline.kind == "logged" else "the rewards"
    tokens = 0 if rows.facts is None else int(rows.facts["tokens"].sum())
    typer.echo(
        f"{out}: {plural(written.rows, 'row')}, {plural(tokens, 'token')}, objective {chosen.name}, "
        f"advantages from {source}."
    )

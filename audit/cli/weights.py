"""``rlaudit weights``: the effective weight of every token, as a table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from audit.cli.options import ObjectiveOption, RunPath, SetOption, objective_for, require_place


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

    require_place(out)
    run = open_run(path)
    with working(f"weighing the tokens of {run.run_id}"):
        rows = RunRows.read(run)
        chosen, notes = objective_for(rows, objective, changes)
        written = write_weights(rows, chosen, out)
    for note in notes:
        typer.echo(f"note: {note}", err=True)
    source = "the log" if chosen.baseline.kind == "logged" else "the rewards"
    tokens = 0 if rows.facts is None else int(rows.facts.tokens.sum())
    typer.echo(f"{out}: {written} rows, {tokens} tokens, objective {chosen.name}, advantages from {source}.")

"""``rlaudit objectives``: the catalogue, and what an objective does by exact calculation."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from audit.cli.options import AsJson, SetOption, change_objective, emit_json, load_objective
from audit.errors import AuditError

if TYPE_CHECKING:
    from audit.objectives.objective import Objective

_FINE = [at / 100 for at in range(101)]
CHARTS = (".svg", ".png", ".html", ".json")
_NUMBERS = "Exact numbers (binary rewards)"


def register(app: typer.Typer) -> None:
    """Add the verbs of this file."""
    app.command()(objectives)


def objectives(
    names: Annotated[
        list[str] | None,
        typer.Argument(help="None: list all. One: show it. Several: what differs. Names or JSON files."),
    ] = None,
    *,
    changes: SetOption = None,
    as_json: AsJson = False,
    wide: Annotated[bool, typer.Option("--wide", help="List all eight rows of each algorithm.")] = False,
    factor: Annotated[
        bool,
        typer.Option("--factor", help="How much a prompt counts, by success rate.", rich_help_panel=_NUMBERS),
    ] = False,
    zero_signal: Annotated[
        bool,
        typer.Option("--zero-signal", help="How many groups carry no signal.", rich_help_panel=_NUMBERS),
    ] = False,
    effective_batch: Annotated[
        bool,
        typer.Option(
            "--effective-batch", help="How much of a batch of prompts trains.", rich_help_panel=_NUMBERS
        ),
    ] = False,
    effective_beta: Annotated[
        bool,
        typer.Option(
            "--effective-beta", help="How strong KL is next to the reward.", rich_help_panel=_NUMBERS
        ),
    ] = False,
    group_size: Annotated[
        list[int] | None,
        typer.Option(
            "--group-size",
            metavar="G",
            help="Responses per prompt, 8 by default; may be repeated.",
            rich_help_panel=_NUMBERS,
        ),
    ] = None,
    rate: Annotated[
        list[float] | None,
        typer.Option(
            "--rate",
            metavar="P",
            help="Success rate of a prompt, 0 and 1 for the limits; may be repeated.",
            rich_help_panel=_NUMBERS,
        ),
    ] = None,
    reward: Annotated[
        list[str] | None,
        typer.Option(
            "--reward",
            metavar="R:P",
            help="With --factor: a reward and its probability, as in 0.5:0.2; repeat for each value.",
            rich_help_panel=_NUMBERS,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            help="Also draw the numbers: .svg, .png, .html, or .json (the Vega-Lite chart).",
            rich_help_panel=_NUMBERS,
        ),
    ] = None,
) -> None:
    """List the algorithms, show one, show several side by side; or calculate what one does.

    Example: rlaudit objectives grpo dr_grpo

    Example: rlaudit objectives grpo rloo --factor --group-size 8
    """
    asked = {
        "factor": factor,
        "zero-signal": zero_signal,
        "effective-batch": effective_batch,
        "effective-beta": effective_beta,
    }
    chosen = [_load(name, changes) for name in names or []]
    kinds = [name for name, on in asked.items() if on]
    if len(kinds) > 1:
        msg = f"--{kinds[0]} and --{kinds[1]}: ask for one at a time."
        raise AuditError(msg)
    if kinds:
        if reward and kinds != ["factor"]:
            msg = "--reward describes the prompt of --factor."
            raise AuditError(msg)
        distribution = [_weighed(text) for text in reward or []]
        _calculate(kinds[0], chosen, group_size or [], rate, distribution, as_json=as_json, out=out)
        return
    if out is not None or group_size or rate or reward:
        msg = "--group-size, --rate, --reward and --output go with --factor, --zero-signal, "
        msg += "--effective-batch or --effective-beta."
        raise AuditError(msg)
    if changes and not chosen:
        msg = "--set changes an objective: name one, as in rlaudit objectives grpo --set scale.ddof=1."
        raise AuditError(msg)
    _show(chosen, as_json=as_json, wide=wide)


def _show(chosen: list[Objective], *, as_json: bool, wide: bool) -> None:
    from audit.objectives.catalogue import CATALOGUE

    if as_json:
        listed = chosen or [entry.objective for entry in CATALOGUE.values()]
        dicts = [objective.to_dict() for objective in listed]
        emit_json(dicts[0] if len(dicts) == 1 else dicts)
        return
    from audit.report.objectives import show_catalogue, show_objective, show_side_by_side

    if not chosen:
        show_catalogue(wide=wide)
    elif len(chosen) == 1:
        show_objective(chosen[0])
    else:
        show_side_by_side(chosen)


def _calculate(
    kind: str,
    chosen: list[Objective],
    sizes: list[int],
    rates: list[float] | None,
    rewards: list[tuple[float, float]],
    *,
    as_json: bool,
    out: Path | None,
) -> None:
    from audit.analyses.prompt_tables import calculate
    from audit.logs.output import check_output
    from audit.report.prompt_numbers import show_table

    if out is not None:
        check_output(out, CHARTS)
    table = calculate(kind, chosen, sizes, rates, rewards)
    if out is not None:
        from audit.report.prompt_charts import save_chart_of

        # A curve wants more points than a table; a mix of prompts is what was asked for.
        curve = kind != "effective-batch" and not rewards
        save_chart_of(calculate(kind, chosen, sizes, _FINE) if curve else table, out)
    if as_json:
        emit_json(table)
        return
    show_table(table)
    if out is not None:
        typer.echo(f"Chart written to {out}")


def _weighed(text: str) -> tuple[float, float]:
    value, _, share = text.partition(":")
    try:
        return float(value), float(share)
    except ValueError:
        msg = f"--reward {text}: expected VALUE:PROBABILITY, as in 0.5:0.2."
        raise AuditError(msg) from None


def _load(name: str, changes: list[str] | None) -> Objective:
    """A catalogue entry without the machinery that reads runs; anything else through it."""
    from audit.objectives.catalogue import CATALOGUE

    if name in CATALOGUE and not Path(name).is_file():
        return change_objective(CATALOGUE[name].objective, changes)
    return load_objective(name, changes)

"""``rlaudit testbed``: train a tiny exact policy with any objective, and write the runs as logs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from audit.cli.options import SetOption, load_objective
from audit.errors import AuditError

MOST_SEEDS = 100
"""Runs are trained side by side: more would fill the memory."""


class Answer(StrEnum):
    """Which letter of a response counts."""

    last = "last"
    first = "first"


def register(app: typer.Typer) -> None:
    """Add the verbs of this file."""
    app.command("testbed")(train_on_testbed)


def train_on_testbed(
    out: Annotated[
        Path, typer.Option("-o", "--output", metavar="DIR", help="Where the run directories are made.")
    ],
    *,
    objective: Annotated[
        str, typer.Option("--objective", help="A catalogue name or a JSON file of fields.")
    ] = "grpo",
    changes: SetOption = None,
    seeds: Annotated[int, typer.Option("--seeds", metavar="N", help="Runs, with seeds 0 to N - 1.")] = 1,
    steps: Annotated[int, typer.Option("--steps", metavar="N", help="Batches.")] = 60,
    epochs: Annotated[int, typer.Option("--epochs", metavar="N", help="Optimiser steps per batch.")] = 2,
    group_size: Annotated[
        int, typer.Option("--group-size", metavar="G", help="Responses per prompt; six prompts a batch.")
    ] = 8,
    rate: Annotated[float, typer.Option("--lr", metavar="X", help="Learning rate, of plain ascent.")] = 4.0,
    micro_batches: Annotated[
        int, typer.Option("--micro-batches", metavar="N", help="Accumulation slices of a step.")
    ] = 2,
    noise: Annotated[
        float,
        typer.Option("--sampler-noise", metavar="X", help="Error in the sampler's logits, in nats."),
    ] = 0.0,
    answer: Annotated[
        Answer, typer.Option("--answer", help="The letter that makes a response correct.")
    ] = Answer.last,
) -> None:
    """Train a tabular policy on a tiny language whose every quantity is known, and write rollout logs.

    Example: rlaudit testbed --objective grpo --seeds 5 -o runs
    """
    import torch

    from audit.testbed.language import Language
    from audit.testbed.recording import write_runs
    from audit.testbed.training import Setup

    if not 1 <= seeds <= MOST_SEEDS:
        msg = f"--seeds must be from 1 to {MOST_SEEDS}, not {seeds}."
        raise AuditError(msg)
    # The tensors are too small for more, and one thread adds up in one order.
    torch.set_num_threads(1)
    setup = Setup(
        objective=load_objective(objective, changes),
        group_size=group_size,
        epochs=epochs,
        rate=rate,
        micro_batches=micro_batches,
        sampler_noise=noise,
    )
    language = Language(answer=answer.value)
    with progress_bar(f"training {setup.objective.name}", steps) as progress:
        written = write_runs(out, language, setup, range(seeds), steps, progress=progress)
    for folder in written:
        typer.echo(f"{folder}: {steps * epochs} optimiser steps.")


@contextmanager
def progress_bar(what: str, total: float) -> Iterator[Callable[[float], None]]:
    """Show a bar on a terminal; the body calls what it is given with how much of ``total`` is done."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    from audit.report.format import visible

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(visible(what), total=total)
        yield lambda done: progress.update(task, completed=done)

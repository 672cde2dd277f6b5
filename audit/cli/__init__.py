"""The ``rlaudit`` command: one file per verb group; analyses are imported only when a verb runs."""

from __future__ import annotations

import gc
import os
import sys
from typing import Any

import typer

from audit.cli import (
    breakdown,
    cache,
    compare,
    dashboard,
    dialect,
    facts,
    figures,
    imports,
    objectives,
    policies,
    report,
    single,
    sql,
    testbed,
    weights,
)
from audit.cli.fail import fail
from audit.cli.import_progress import watching_imports
from audit.errors import AuditError

app = typer.Typer(
    name="rlaudit",
    help="Audit logged RL fine-tuning runs: what an algorithm did to every token, why two runs disagree.",
    epilog="Start with: rlaudit explain RUN_A RUN_B",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
for group in (
    compare,
    single,
    breakdown,
    policies,
    sql,
    report,
    weights,
    objectives,
    imports,
    dialect,
    facts,
    cache,
    testbed,
    figures,
    dashboard,
):
    group.register(app)


def _version(value: bool) -> None:
    if value:
        from importlib.metadata import version

        typer.echo(f"rlaudit {version('rlaudit')}")
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Print the version and exit."
    ),
) -> None:
    del version


def main(arguments: list[str] | None = None) -> None:
    """Run the command line; bad input is one line on stderr and exit code 2."""
    # Imports make objects that stay: to look for garbage among them costs a tenth of a short command.
    gc.set_threshold(50_000, 20, 20)
    try:
        with watching_imports():
            app(arguments, prog_name="rlaudit")
    except AuditError as error:
        fail(str(error))
    except BrokenPipeError:
        # The reader (head, less) has gone; what is left in the buffer has nowhere to go.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except UnicodeEncodeError as error:
        fail(f"{error.object}: a name that is not valid UTF-8 cannot be read. Rename it.")
    except OSError as error:
        fail(_os_message(error))


def _os_message(error: OSError) -> str:
    where: Any = error.filename
    return f"{where}: {error.strerror}." if where and error.strerror else str(error)

"""How bad input ends: one line on stderr and exit code 2."""

from __future__ import annotations

import sys
from typing import NoReturn

import typer


def fail(message: str) -> NoReturn:
    """Say what is wrong in one line, and exit with code 2."""
    from audit.report.format import visible

    # Messages quote logs and manifests: whatever would act on a terminal is shown instead.
    one_line = visible(" ".join(message.split()))
    typer.secho(f"rlaudit: {one_line}", err=True, fg="red" if sys.stderr.isatty() else None)
    sys.exit(2)

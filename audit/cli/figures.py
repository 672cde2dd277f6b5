"""``rlaudit figures``: measure what the documentation shows, and draw it."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from audit.errors import AuditError


def register(app: typer.Typer) -> None:
    """Add the verbs of this file."""
    app.command()(figures)


def figures(
    out: Annotated[Path, typer.Option("-o", "--output", metavar="DIR", help="Where the files are written.")],
) -> None:
    """Train the testbed's runs again and draw what group statistics do, as PNG, SVG and HTML.

    Example: rlaudit figures -o figures
    """
    if find_spec("vl_convert") is None:
        msg = "drawing figures needs vl-convert-python: pip install 'rlaudit[charts]'."
        raise AuditError(msg)
    import torch

    from audit.cli.testbed import progress_bar
    from audit.testbed.frames import draw_all, measure_all
    from audit.testbed.recording import check_new_directory

    check_new_directory(out)
    torch.set_num_threads(1)
    out.mkdir(parents=True, exist_ok=True)
    with progress_bar("training", 1.0) as progress:
        found = measure_all(progress)
    for path in draw_all(found, out):
        typer.echo(str(path))
